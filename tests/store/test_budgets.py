"""Reserving, settling and reporting against real tables."""

from dataclasses import replace
from datetime import timedelta

import pytest

from core.domain.budgets import NO_LIMITS, CallResult, Draw, LimitRole, PersonLimits, Scope, Unit, UsageRow, Window
from core.domain.errors import BudgetHeld, BudgetRefused, InputRejected
from core.domain.windows import window_span
from core.store import budgets
from core.store.budgets import SettleOutcome
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.store.budget_cases import World, new_world

GONE = 2**61 + 5  # an id that no reservation has


@pytest.fixture
async def world(database: Database, clock: ManualClock) -> World:
    return await new_world(database, clock)


async def rows(world: World, table: str) -> int:
    async with world.database.transaction() as tx:
        count: int = await tx.fetchval(f"select count(*) from voidbot.{table}")
        return count


# Limits


async def test_defaults_can_be_added_again_without_touching_what_somebody_set(world: World) -> None:
    await world.limit(Scope.COMMUNITY, "", Unit.ANSWERS, 7)
    async with world.database.transaction() as tx:
        await budgets.ensure_defaults(tx, deployment_usd_per_day=3)
        found = await tx.fetch("select scope, unit, limit_amount from voidbot.purses order by 1, 2")
    assert [tuple(row) for row in found] == [
        ("community", "answers", 7),
        ("community", "tokens", 2_000_000),
        ("deployment", "usd_micro", 3_000_000),
        ("person", "answers", 100),
    ]


async def test_no_dollars_means_no_paid_call(world: World) -> None:
    await world.limit(Scope.DEPLOYMENT, "", Unit.USD_MICRO, 0)
    refused = await world.refusal(world.draw(usd_micro=1))
    assert refused is not None and (refused.scope, refused.limit) == ("deployment", 0)


async def test_no_dollars_still_allow_an_unpaid_call(world: World) -> None:
    await world.limit(Scope.DEPLOYMENT, "", Unit.USD_MICRO, 0)
    assert await world.refusal(world.draw(usd_micro=0)) is None


async def test_a_lifted_limit_lets_everything_through(world: World) -> None:
    await world.limit(Scope.PERSON, "", Unit.ANSWERS, 0)
    await world.limit(Scope.PERSON, world.person_ids[0], Unit.ANSWERS, None)
    assert await world.refusal(world.draw()) is None


async def test_a_negative_limit_is_refused(world: World) -> None:
    with pytest.raises(InputRejected):
        await world.limit(Scope.PERSON, "", Unit.ANSWERS, -1)


async def test_a_limit_that_sinks_below_what_is_used_refuses_the_next(world: World) -> None:
    await world.reserve(world.draw(tokens=100))
    await world.limit(Scope.COMMUNITY, "", Unit.TOKENS, 50)
    refused = await world.refusal(world.draw(tokens=1))
    assert refused is not None and (refused.used, refused.limit) == (100, 50)


# Reserving


async def test_a_reservation_is_held_in_every_purse_that_matches(world: World) -> None:
    await world.limit(Scope.ROOM, world.room_ids[0], Unit.TOKENS, 10_000, Window.HOUR)
    reservation = await world.reserve(world.draw(tokens=100, usd_micro=40))
    held = [(want.name, want.purse.unit.value, want.amount) for want in reservation.wants]
    assert held == [
        ("person", "answers", 1),
        ("room", "tokens", 100),
        ("community", "answers", 1),
        ("community", "tokens", 100),
        ("deployment", "usd_micro", 40),
    ]


async def test_the_narrowest_purse_names_the_refusal(world: World) -> None:
    for scope in (Scope.COMMUNITY, Scope.ROOM):
        await world.limit(scope, "", Unit.TOKENS, 99)
    refused = await world.refusal(world.draw(tokens=100))
    assert refused is not None and (refused.scope, refused.unit) == ("room", "tokens")


async def test_a_refusal_holds_nothing_even_when_the_transaction_goes_on(world: World) -> None:
    await world.limit(Scope.DEPLOYMENT, "", Unit.USD_MICRO, 999)
    async with world.database.transaction() as tx:
        with pytest.raises(BudgetRefused):
            await budgets.reserve(tx, world.draw(), job_id=1, attempt=1, timeout_s=9, now=world.clock.now())
    assert (await world.state("person", Unit.ANSWERS), await rows(world, "reservations")) == ((0, 0), 0)


async def test_a_refusal_says_when_the_window_ends(database: Database, clock: ManualClock) -> None:
    world = await new_world(database, clock, timezone="Asia/Kathmandu")
    await world.limit(Scope.PERSON, "", Unit.ANSWERS, 0)
    refused = await world.refusal(world.draw())
    assert refused is not None
    assert refused.resets_at == window_span(Window.DAY, "Asia/Kathmandu", clock.now())[1]


async def test_a_new_day_has_a_full_purse(world: World, clock: ManualClock) -> None:
    await world.limit(Scope.PERSON, "", Unit.ANSWERS, 1)
    await world.answer(world.draw())
    refused = await world.refusal(world.draw())
    assert refused is not None
    await clock.advance((refused.resets_at - clock.now()).total_seconds() + 1)
    assert await world.refusal(world.draw()) is None


async def test_an_hour_and_a_day_are_counted_side_by_side(world: World, clock: ManualClock) -> None:
    await world.limit(Scope.ROOM, "", Unit.CALLS, 1, Window.HOUR)
    await world.limit(Scope.ROOM, "", Unit.CALLS, 2, Window.MONTH)
    await world.answer(world.draw())
    by_hour = await world.refusal(world.draw())
    await clock.advance(3600)
    await world.answer(world.draw())
    await clock.advance(3600)
    by_month = await world.refusal(world.draw())
    assert by_hour is not None and by_month is not None
    assert by_month.resets_at - by_hour.resets_at > timedelta(hours=1)


async def test_what_calls_under_way_hold_is_waited_for_and_what_is_spent_is_refused(world: World) -> None:
    await world.limit(Scope.PERSON, "", Unit.ANSWERS, 1)
    reservation = await world.reserve(world.draw())
    async with world.database.transaction() as tx:
        assert await budgets.look(tx, world.draw(), world.clock.now()) is None
    with pytest.raises(BudgetHeld):
        await world.reserve(world.draw())
    async with world.database.transaction() as tx:
        await budgets.settle_usage(tx, reservation.id, UsageRow(job_id=1, attempt=1, purpose="reply"))
    async with world.database.transaction() as tx:
        seen = await budgets.look(tx, world.draw(), world.clock.now())
    assert seen is not None and (seen.scope, seen.used, seen.limit) == ("person", 1, 1)


async def test_a_draw_without_purses_is_still_reserved(world: World) -> None:
    async with world.database.transaction() as tx:
        await tx.execute("delete from voidbot.purses")
    reservation = await world.reserve(world.draw())
    assert (await world.settle(reservation.id, world.cost())).outcome is SettleOutcome.BOOKED


# Unattended work


async def test_passes_stop_at_their_share_and_chat_goes_on(world: World) -> None:
    await world.reserve(world.unattended("sleep", usd_micro=600_000))
    refused = await world.refusal(world.unattended("mood", usd_micro=1))
    assert refused is not None and (refused.scope, refused.used, refused.limit) == ("passes", 600_000, 600_000)
    assert await world.refusal(world.draw(usd_micro=1_400_000)) is None


async def test_chat_leaves_the_passes_no_more_than_the_whole(world: World) -> None:
    await world.reserve(world.draw(usd_micro=1_900_000))
    refused = await world.refusal(world.unattended("sleep", usd_micro=200_000))
    assert refused is not None and refused.scope == "deployment"


async def test_a_pass_class_has_its_own_purse(world: World) -> None:
    await world.limit(Scope.PASS_CLASS, "sleep", Unit.TOKENS, 150)
    await world.reserve(world.unattended("sleep"))
    refused = await world.refusal(world.unattended("sleep"))
    assert refused is not None and refused.scope == "pass_class"
    assert await world.refusal(world.unattended("mood")) is None


# Settling


async def test_what_was_not_used_returns(world: World) -> None:
    reservation = await world.reserve(world.draw(tokens=100, usd_micro=1000))
    settled = await world.settle(reservation.id, world.cost(tokens=60, usd_micro=600))
    assert (settled.outcome, settled.overrun) == (SettleOutcome.BOOKED, ())
    assert await world.state("community", Unit.TOKENS) == (0, 60)
    assert await world.state("deployment", Unit.USD_MICRO) == (0, 600)
    assert await world.state("person", Unit.ANSWERS) == (0, 1)


async def test_settling_twice_counts_once(world: World) -> None:
    reservation = await world.reserve(world.draw())
    await world.settle(reservation.id, world.cost())
    again = await world.settle(reservation.id, world.cost(tokens=99))
    assert again.outcome is SettleOutcome.ALREADY
    assert (await world.state("community", Unit.TOKENS), await rows(world, "usage")) == ((0, 60), 1)


@pytest.mark.parametrize("result", [CallResult.FAILED, CallResult.CANCELLED, CallResult.EMPTY])
async def test_a_call_that_cost_nothing_gives_back_answer_and_tokens(world: World, result: CallResult) -> None:
    reservation = await world.reserve(world.draw())
    await world.settle(reservation.id, world.cost(result=result, tokens=0, usd_micro=0))
    assert await world.state("person", Unit.ANSWERS) == (0, 0)
    assert await world.state("community", Unit.TOKENS) == (0, 0)


@pytest.mark.parametrize("result", [CallResult.FAILED, CallResult.DISCARDED])
async def test_a_billed_failure_keeps_the_tokens_and_gives_the_answer_back(world: World, result: CallResult) -> None:
    reservation = await world.reserve(world.draw())
    await world.settle(reservation.id, world.cost(result=result))
    assert await world.state("person", Unit.ANSWERS) == (0, 0)
    assert await world.state("community", Unit.TOKENS) == (0, 60)


async def test_a_cost_above_what_was_held_is_booked_and_reported(world: World) -> None:
    reservation = await world.reserve(world.draw(tokens=50))
    settled = await world.settle(reservation.id, world.cost(tokens=60))
    assert settled.overrun == (Unit.TOKENS,)
    assert await world.state("community", Unit.TOKENS) == (0, 60)


async def test_a_released_reservation_returns_everything_once(world: World) -> None:
    reservation = await world.reserve(world.draw())
    async with world.database.transaction() as tx:
        assert [await budgets.release(tx, reservation.id) for _ in range(2)] == [True, False]
    assert await world.state("community", Unit.TOKENS) == (0, 0)


async def test_a_released_call_that_was_billed_after_all_is_booked(world: World) -> None:
    reservation = await world.reserve(world.draw())
    async with world.database.transaction() as tx:
        await budgets.release(tx, reservation.id)
    await world.settle(reservation.id, world.cost())
    assert (await world.state("community", Unit.TOKENS), await world.wrong()) == ((0, 60), [])


async def test_a_reservation_nobody_settled_counts_as_spent(world: World, clock: ManualClock) -> None:
    await world.reserve(world.draw(), 7, timeout_s=90)
    await clock.advance(149)
    async with world.database.transaction() as tx:
        assert await budgets.expire(tx) == []
    await clock.advance(2)
    async with world.database.transaction() as tx:
        assert await budgets.expire(tx) == [7]
    assert await world.state("community", Unit.TOKENS) == (0, 100)


async def test_a_late_settlement_corrects_what_was_assumed(world: World, clock: ManualClock) -> None:
    reservation = await world.reserve(world.draw())
    await clock.advance(200)
    async with world.database.transaction() as tx:
        await budgets.expire(tx)
    await world.settle(reservation.id, world.cost(result=CallResult.DISCARDED))
    assert await world.state("community", Unit.TOKENS) == (0, 60)
    assert (await world.state("person", Unit.ANSWERS), await world.wrong()) == ((0, 0), [])


async def test_many_expire_at_once_with_sums_for_each_window(world: World, clock: ManualClock) -> None:
    for n in range(6):
        await world.reserve(world.draw(n % 3, n % 2), n)
    await clock.advance(200)
    async with world.database.transaction() as tx:
        assert await budgets.expire(tx) == [0, 1, 2, 3, 4, 5]
    assert (await world.state("community", Unit.TOKENS), await world.wrong()) == ((0, 600), [])


async def test_a_reservation_that_a_crash_took_is_booked_at_its_cost(world: World) -> None:
    settled = [(await world.settle(GONE, world.cost())).outcome for _ in range(2)]
    assert settled == [SettleOutcome.LOST, SettleOutcome.ALREADY]
    assert await world.state("deployment", Unit.USD_MICRO) == (0, 600)
    assert (await world.state("person", Unit.ANSWERS), await world.wrong()) == ((0, 1), [])


async def test_the_cost_of_someone_erased_during_the_call_stays_without_the_name(world: World) -> None:
    reservation = await world.reserve(world.draw())
    async with world.database.transaction() as tx:
        await tx.execute("delete from voidbot.people where id = $1", world.person_ids[0])
    await world.settle(reservation.id, world.cost())
    async with world.database.transaction() as tx:
        row = await tx.fetchrow("select person_id, room_id, usd_micro from voidbot.usage")
    assert row is not None and tuple(row) == (None, world.room_ids[0], 600)


# The books


async def test_books_that_do_not_agree_are_named(world: World) -> None:
    reservation = await world.reserve(world.draw())
    await world.settle(reservation.id, world.cost())
    async with world.database.transaction() as tx:
        await tx.execute("update voidbot.purse_windows set spent = spent + 1 where subject = 'total'")
        await tx.execute("update voidbot.usage set output_tokens = 7")
        wrong = await budgets.invariants(tx)
    assert [line.partition(" ")[0] for line in wrong] == ["purse", "reservation"]


async def test_old_windows_go_and_the_books_still_agree(world: World, clock: ManualClock) -> None:
    await world.limit(Scope.ROOM, "", Unit.TOKENS, 10_000, Window.MONTH)
    await world.answer(world.draw())
    await clock.advance(70 * 86_400)
    await world.answer(world.draw())
    async with world.database.transaction() as tx:
        assert await budgets.prune(tx) == 1
    assert (await rows(world, "reservations"), await world.wrong()) == (1, [])


# What /usage shows


async def test_usage_shows_used_held_left_and_reset(world: World, clock: ManualClock) -> None:
    await world.answer(world.draw())
    await world.reserve(world.draw())
    async with world.database.transaction() as tx:
        report = await budgets.usage_report(tx, world.person_ids[0], world.room_ids[0], world.community_id, clock.now())
    mine = report.purses[0]
    assert (mine.scope, mine.used, mine.held, mine.limit, mine.left) == ("person", 1, 1, 100, 98)
    assert mine.resets_at == window_span(Window.DAY, "UTC", clock.now())[1]


async def test_usage_counts_failed_calls_by_model_and_purpose(world: World, clock: ManualClock) -> None:
    for result in (CallResult.OK, CallResult.FAILED):
        reservation = await world.reserve(world.draw())
        await world.settle(reservation.id, world.cost(result=result))
    async with world.database.transaction() as tx:
        report = await budgets.usage_report(tx, world.person_ids[0], None, None, clock.now())
    (row,) = report.models
    assert (row.scope, row.model, row.purpose, row.calls, row.failed, row.usd_micro) == (
        Scope.PERSON,
        "small",
        "reply",
        2,
        1,
        1200,
    )


async def test_usage_of_unattended_calls_shows_for_the_community_only(world: World, clock: ManualClock) -> None:
    await world.answer(world.unattended("sleep"))
    async with world.database.transaction() as tx:
        report = await budgets.usage_report(tx, world.person_ids[0], world.room_ids[0], world.community_id, clock.now())
    assert [row.scope for row in report.models] == [Scope.COMMUNITY]


async def test_usage_warns_past_the_soft_mark(world: World, clock: ManualClock) -> None:
    await world.reserve(world.draw(usd_micro=1_600_000))
    async with world.database.transaction() as tx:
        report = await budgets.usage_report(tx, None, None, None, clock.now(), deployment=True)
    assert [(purse.scope, purse.warn) for purse in report.purses] == [("deployment", True)]


# One heavy user


async def spent(world: World, draw: Draw, times: int) -> None:
    for _ in range(times):
        await world.answer(draw)


@pytest.mark.field("F060")
async def test_a_heavy_user_is_told_the_own_balance_and_others_are_served(world: World) -> None:
    await world.limit(Scope.PERSON, "", Unit.ANSWERS, 3)
    await spent(world, world.draw(0), 3)
    refused = await world.refusal(world.draw(0))
    assert refused is not None and (refused.scope, refused.used, refused.limit) == ("person", 3, 3)
    assert refused.resets_at > world.clock.now()
    assert await world.refusal(world.draw(1)) is None


@pytest.mark.field("F060")
async def test_refused_attempts_take_nothing_from_anybody(world: World) -> None:
    await world.limit(Scope.PERSON, "", Unit.ANSWERS, 0)
    for _ in range(5):
        assert await world.refusal(world.draw(0)) is not None
    assert await world.state("community", Unit.ANSWERS) == (0, 0)


@pytest.mark.field("F060")
@pytest.mark.parametrize("limits", [PersonLimits(LimitRole.BOOSTED, 2), NO_LIMITS])
async def test_a_user_with_a_larger_role_goes_on_where_another_stops(world: World, limits: PersonLimits) -> None:
    await world.limit(Scope.PERSON, "", Unit.ANSWERS, 2)
    heavy = replace(world.draw(0), limits=limits)
    await spent(world, heavy, 2)
    assert await world.refusal(heavy) is None
    assert await world.refusal(world.draw(0)) is not None


@pytest.mark.field("F060")
async def test_even_an_unlimited_user_stops_at_the_room_while_other_rooms_go_on(world: World) -> None:
    await world.limit(Scope.ROOM, "", Unit.ANSWERS, 2)
    heavy = replace(world.draw(0, 0), limits=NO_LIMITS)
    await spent(world, heavy, 2)
    refused = await world.refusal(heavy)
    assert refused is not None and refused.scope == "room"
    assert await world.refusal(world.draw(1, 1)) is None
