"""Which slots are claimed when: groups with news first, missed time told and made up for apart, jumps not believed."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.archiving import ROOMS_ALONE
from core.domain.ids import RoomId, RoomKey
from core.domain.passes import Origin, PassName, PassPolicy, Run, RunState
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.passes.planning import MOST_GROUPS, Clockwork, Planner
from core.store import access, archive, passes, people, places
from core.store.engine import Database

AT = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
HALF = timedelta(minutes=30)


async def settle(database: Database, rooms: int, *, kind: RoomKind = RoomKind.CHANNEL) -> list[RoomId]:
    """Make a community with so many rooms, each with readers of its own; in the n-th, n things were said."""
    async with database.transaction() as tx:
        home = await places.add_community(tx, "console", "home", "Home")
        made = []
        for n in range(rooms):
            room = await places.add_room(tx, home, RoomKey("console", f"r{n}"), kind, f"r{n}", archive=ArchiveSwitch.ON)
            who = (await people.ensure_person(tx, "console", f"p{n}", home, f"P{n}")).id
            await access.save_access(tx, room, home, everyone=False, users=[who])
            for k in range(n):
                await archive.add_message(
                    tx,
                    archive.NewMessage(
                        room_id=room, community_id=home, author_id=who, platform_ref=f"{n}:{k}", kind="text",
                        text="something", sent_at=AT,
                    ),
                )  # fmt: skip
            made.append(room)
    return made


def planner(*names: PassName) -> Planner:
    return Planner(policy=PassPolicy(on=frozenset(names)), archive=ROOMS_ALONE)


async def tick(database: Database, plans: Planner, at: datetime) -> list[Run]:
    async with database.transaction() as tx:
        runs = await plans.claim_due(tx, at)
        await tx.execute("update voidbot.pass_runs set state = 'finished' where state = 'ready'")
    return runs


async def rows(database: Database) -> list[Run]:
    async with database.transaction() as tx:
        return await passes.list_runs(tx, limit=1000)


async def test_the_groups_with_most_news_come_first_and_the_others_in_the_next_tick(database: Database) -> None:
    made = await settle(database, 5)
    plans = planner(PassName.RUMINATION)
    first = await tick(database, plans, AT)
    second = await tick(database, plans, AT + timedelta(minutes=1))
    assert (len(first), len(second)) == (MOST_GROUPS, 2)
    async with database.transaction() as tx:
        groups = await plans.groups.load(tx, "console:home")
    assert {run.group for run in first} == {groups[room] for room in made[2:]}
    assert await tick(database, plans, AT + timedelta(minutes=2)) == []


async def test_talks_with_one_person_are_no_group_to_think_over(database: Database) -> None:
    await settle(database, 2, kind=RoomKind.DM)
    assert await tick(database, planner(PassName.RUMINATION), AT) == []


async def test_what_is_off_is_not_planned(database: Database) -> None:
    await settle(database, 1)
    assert [run.name for run in await tick(database, planner(PassName.UPKEEP), AT)] == [PassName.UPKEEP]


@pytest.mark.field("F054")
async def test_after_twelve_days_one_run_makes_up_and_every_slot_is_accounted_for(database: Database) -> None:
    await settle(database, 1)
    plans = planner(PassName.RUMINATION, PassName.UPKEEP, PassName.MOOD)
    await tick(database, plans, AT)
    late = await tick(database, planner(*PassName), AT + timedelta(days=12))
    assert {run.name: run.origin for run in late} == {
        PassName.RUMINATION: Origin.CATCH_UP,
        PassName.UPKEEP: Origin.CATCH_UP,
        PassName.MOOD: Origin.SCHEDULED,
    }
    missed = [run for run in await rows(database) if run.state is RunState.SKIPPED and run.name is PassName.RUMINATION]
    assert len(missed) == 48 + 1
    (older,) = [run.reason for run in missed if run.reason != "missed"]
    assert older == f"missed:{12 * 48 - 48 - 1}"
    async with database.transaction() as tx:
        waits = await tx.fetch("select due_at - voidbot.now() as wait from queue.later where kind = 'pass' order by 1")
    assert [round(row["wait"].total_seconds()) for row in waits] == [30]


async def test_a_clock_that_went_back_starts_nothing_twice(database: Database) -> None:
    await settle(database, 1)
    await tick(database, planner(PassName.RUMINATION), AT)
    assert await tick(database, planner(PassName.RUMINATION), AT - 5 * HALF) == []
    assert len(await tick(database, planner(PassName.RUMINATION), AT + HALF)) == 1


def test_a_clock_that_jumps_ahead_is_believed_when_it_says_so_twice() -> None:
    clockwork = Clockwork()
    assert clockwork.believes(AT, 100.0)
    assert clockwork.believes(AT + timedelta(minutes=1), 160.0)
    assert not clockwork.believes(AT + timedelta(hours=3), 220.0)
    assert clockwork.believes(AT + timedelta(hours=3, minutes=1), 280.0)
