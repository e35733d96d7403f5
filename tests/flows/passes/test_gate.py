"""The gate: each reason for which a run does nothing, before anything may cost."""

from collections.abc import Awaitable, Callable
from datetime import time, timedelta
from typing import Any

import pytest

from core.domain.archiving import ROOMS_ALONE
from core.domain.budgets import Draw
from core.domain.ids import RoomKey
from core.domain.passes import Origin, PassName, PassPolicy, Run, RunState, Skip, SkipReason, slot_key
from core.domain.rooms import ArchiveSwitch, QuietHours, RoomKind
from core.passes.gate import Gate, Opened
from core.store import access, passes, places, state
from core.store.engine import Database, Tx
from core.store.mind_facts import AudienceGroups
from core.store.passes import NewRun
from tests.fakes import ManualClock

MIND = "console:home"
HALF = timedelta(minutes=30)
ALWAYS = QuietHours(time(0, 0), time(23, 59, 59, 999999))
Change = Callable[[Tx], Awaitable[object]]


async def something(_: Tx, __: Run, ___: Opened) -> Skip | None:
    return None


async def nothing(_: Tx, __: Run, ___: Opened) -> Skip | None:
    return Skip(SkipReason.NOTHING_NEW)


async def settle(tx: Tx) -> str:
    """Make a room that is archived and known; return its group."""
    home = await places.add_community(tx, "console", "home", "Home")
    room = await places.add_room(tx, home, RoomKey("console", "r"), RoomKind.CHANNEL, "r", archive=ArchiveSwitch.ON)
    await access.save_access(tx, room, home, everyone=True)
    return (await AudienceGroups().load(tx, MIND))[room]


async def claim(tx: Tx, group: str, n: int, origin: Origin = Origin.SCHEDULED) -> Run:
    name, label = PassName.RUMINATION, str(n)
    new = NewRun(
        mind_id=MIND, name=name, group=group, slot_key=slot_key(MIND, name, group, label),
        slot=await state.now(tx), label=label, origin=origin,
    )  # fmt: skip
    (run,) = await passes.claim(tx, [new])
    return run


async def end(tx: Tx, run: Run, how: RunState) -> None:
    await tx.execute(
        "update voidbot.pass_runs set state = $2, finished_at = voidbot.now() where id = $1", run.id, how.value
    )


async def look(
    database: Database, change: Change | None = None, *, policy: PassPolicy | None = None, group: str = "",
    origin: Origin = Origin.SCHEDULED, **more: Any,
) -> Opened | Skip:  # fmt: skip
    """Settle a room, change something, and look through the gate."""
    gate = Gate(policy=policy or PassPolicy(), archive=ROOMS_ALONE, groups=AudienceGroups(), clock=ManualClock())
    async with database.transaction() as tx:
        name = await settle(tx)
        if change is not None:
            await change(tx)
        run = await claim(tx, group or name, 99, origin)
        return await gate.open(tx, run, more.pop("see", something), every=HALF, **more)


def sql(statement: str) -> Change:
    return lambda tx: tx.execute(statement)


async def paused(tx: Tx) -> None:
    await state.lock_mind(tx, MIND)
    await state.set_paused(tx, MIND, True)


async def test_with_nothing_in_its_way_a_run_goes_on(database: Database) -> None:
    opened = await look(database, quiet=True)
    assert isinstance(opened, Opened)
    assert [room.name for room in opened.rooms] == ["r"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (sql("update voidbot.rooms set archive = 'off'"), SkipReason.NO_ROOMS),
        (sql("update voidbot.rooms set paused = true"), SkipReason.NO_ROOMS),
        (sql("update voidbot.communities set state = 'left'"), SkipReason.AUDIENCE_UNKNOWN),
        (lambda tx: passes.pause(tx, MIND, PassName.RUMINATION, None, "tired"), SkipReason.PAUSED),
        (lambda tx: passes.pause(tx, MIND, None, None, "tired"), SkipReason.PAUSED),
        (paused, SkipReason.PAUSED),
        (sql("insert into voidbot.pass_controls (mind_id, pass, paused) values ('console:home', 'ruminatoin', false)"),
         SkipReason.CONTROL_UNREADABLE),
    ],
)  # fmt: skip
async def test_what_holds_a_run_back_is_named(database: Database, change: Change, reason: SkipReason) -> None:
    assert await look(database, change) == Skip(reason)


async def test_a_pause_whose_time_is_over_holds_nothing_back(database: Database) -> None:
    async def pause(tx: Tx) -> None:
        await passes.pause(tx, MIND, None, await state.now(tx) - HALF, "an hour ago")

    assert isinstance(await look(database, pause), Opened)


async def test_what_is_off_is_off_also_by_hand(database: Database) -> None:
    off = PassPolicy(on=frozenset({PassName.MOOD}))
    assert await look(database, policy=off, origin=Origin.MANUAL) == Skip(SkipReason.OFF)


async def test_a_group_that_is_none_any_more_is_of_unknown_readers(database: Database) -> None:
    assert await look(database, group="1:r9u") == Skip(SkipReason.AUDIENCE_UNKNOWN)


@pytest.mark.field("F056")
@pytest.mark.parametrize(
    ("origin", "thinks", "goes_on"),
    [(Origin.SCHEDULED, False, False), (Origin.SCHEDULED, True, True), (Origin.MANUAL, False, True)],
)
async def test_quiet_hours_hold_back_unless_somebody_wants_it(
    database: Database, origin: Origin, thinks: bool, goes_on: bool
) -> None:
    policy = PassPolicy(quiet=ALWAYS, thinks_when_quiet=thinks)
    found = await look(database, policy=policy, origin=origin, quiet=True)
    assert isinstance(found, Opened) if goes_on else found == Skip(SkipReason.QUIET)


async def test_the_quiet_hours_of_all_its_rooms_are_a_groups(database: Database) -> None:
    quiet = sql("update voidbot.rooms set quiet_from = '00:00', quiet_to = '23:59:59.999999'")
    assert await look(database, quiet, quiet=True) == Skip(SkipReason.QUIET)


async def test_nothing_to_do_comes_before_what_it_would_cost(database: Database) -> None:
    def draw(_: Opened) -> Draw:
        raise AssertionError("nobody asks for the price of nothing")

    assert await look(database, see=nothing, draw=draw) == Skip(SkipReason.NOTHING_NEW)


async def test_a_purse_that_is_used_up_ends_the_run_and_holds_nothing(database: Database) -> None:
    def draw(opened: Opened) -> Draw:
        return Draw(
            person_id=None, room_id=None, community_id=opened.place.home, pass_class="rumination", tokens=10**12
        )  # fmt: skip

    limit = sql(
        "insert into voidbot.purses (scope, scope_id, unit, window_kind, limit_amount)"
        " values ('pass_class', 'rumination', 'tokens', 'day', 1000)"
    )
    assert await look(database, limit, draw=draw) == Skip(SkipReason.BUDGET)
    async with database.transaction() as tx:
        assert await tx.fetchval("select count(*) from voidbot.reservations") == 0


@pytest.mark.parametrize(("failures", "held"), [(2, False), (3, True)])
async def test_after_three_failures_in_a_row_the_next_ones_are_rarer(
    database: Database, failures: int, held: bool
) -> None:
    async def fail(tx: Tx) -> None:
        group = (await AudienceGroups().load(tx, MIND)).popitem()[1]  # type: ignore[attr-defined]  # a dict
        for n in range(failures):
            await end(tx, await claim(tx, group, n), RunState.FAILED)
        await end(tx, await claim(tx, group, 50), RunState.SKIPPED)

    found = await look(database, fail)
    assert found == Skip(SkipReason.BACKING_OFF) if held else isinstance(found, Opened)
