"""What platforms report reaches the tables of its owners, once and whole, and outlives restarts."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from core.domain.archiving import ArchivePolicy, is_archived
from core.domain.audience import InRoom
from core.domain.errors import Unavailable
from core.domain.ids import CommunityId, PersonId, RoomId, RoomKey
from core.domain.messages import Address, InboundMessage, MessageKind, Origin
from core.domain.platforms import (
    CommunityReport,
    MemberReport,
    RoleReport,
    RoomReport,
    Surroundings,
    Whoever,
)
from core.domain.rooms import RoomKind
from core.store import access, archive, inbox, people, places
from core.store.engine import Database
from core.store.platforms import StoredPlatformMemory
from tests.fakes import ManualClock

GUILD = "900"
HALL, CRYPT, THREAD = (RoomKey("discord", ref) for ref in ("1", "2", "3"))


def room(key: RoomKey, name: str, view: Whoever | None, *, parent: RoomKey | None = None) -> RoomReport:
    kind = RoomKind.CHANNEL if parent is None else RoomKind.THREAD_PUBLIC
    about = Surroundings(community_ref=GUILD, kind=kind, name=name, parent=parent)
    return RoomReport(key=key, surroundings=about, view=view, history=view)


def guild(**changes: object) -> CommunityReport:
    """A guild with a hall for all, a crypt for keepers, a thread in the hall, and three people."""
    made = CommunityReport(
        platform="discord",
        ref=GUILD,
        name="The House",
        roles=(RoleReport("r1", "keepers"), RoleReport("r2", "stewards", admin=True)),
        members=(
            MemberReport(ref="ana", name="Ana", roles=frozenset({"r1"})),
            MemberReport(ref="bo", name="Bo"),
            MemberReport(ref="cy", name="Cy", roles=frozenset({"r1", "r2"})),
        ),
        rooms=(
            room(THREAD, "aside", Whoever(everyone=True), parent=HALL),
            room(HALL, "hall", Whoever(everyone=True)),
            room(CRYPT, "crypt", Whoever(roles=frozenset({"r1"}))),
        ),
        whole=True,
        members_known=True,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # the fields of a report, by name


@pytest.fixture
def memory(database: Database) -> StoredPlatformMemory:
    return StoredPlatformMemory(database, timezone="Europe/Berlin", language="de")


async def reads(database: Database, venue: RoomKey) -> set[str]:
    """The names of the rooms whose words may be used in this one."""
    async with database.transaction() as tx:
        place = await places.find_place(tx, venue)
        assert place is not None
        found = await access.list_readable(tx, place.community.id, InRoom(place.room.id), None)
        return {(await places.load_room(tx, room_id)).name for room_id in found}


async def person(database: Database, ref: str) -> PersonId:
    async with database.transaction() as tx:
        value: int = await tx.fetchval("select id from voidbot.people where account_ref = $1", ref)
    return PersonId(value)


async def test_a_report_makes_rooms_roles_members_and_readers(database: Database, memory: StoredPlatformMemory) -> None:
    await memory.learn(guild())
    async with database.transaction() as tx:
        place = await places.find_place(tx, HALL)
        thread = await places.find_place(tx, THREAD)
        assert place is not None and thread is not None
        assert (place.community.name, place.community.timezone, place.room.language) == (
            "The House",
            "Europe/Berlin",
            "de",
        )
        parent = await tx.fetchval("select parent_id from voidbot.rooms where id = $1", thread.room.id)
        assert parent == place.room.id
        assert not any(is_archived(room, ArchivePolicy()) for room in (place.room, thread.room))
    assert await reads(database, HALL) == {"hall", "aside"}
    assert await reads(database, CRYPT) == {"hall", "aside", "crypt"}


async def test_the_same_report_twice_changes_nothing(database: Database, memory: StoredPlatformMemory) -> None:
    async def counts() -> list[int]:
        tables = ("communities", "rooms", "roles", "people", "person_names", "memberships", "membership_roles")
        async with database.transaction() as tx:
            return [await tx.fetchval(f"select count(*) from voidbot.{table}") for table in tables]

    await memory.learn(guild())
    before = await counts()
    await memory.learn(guild())
    assert await counts() == before == [1, 3, 2, 3, 3, 3, 3]


async def test_an_overwrite_that_closes_a_room_closes_it_at_once(
    database: Database, memory: StoredPlatformMemory
) -> None:
    await memory.learn(guild())
    await memory.learn(guild(rooms=(room(HALL, "hall", Whoever(accounts=frozenset({"ana"}))),), whole=False))
    assert await reads(database, CRYPT) == {"crypt"}  # Cy sees the crypt and not the hall; the thread is its parent's


async def test_who_lost_a_role_or_left_is_no_reader_any_more(database: Database, memory: StoredPlatformMemory) -> None:
    await memory.learn(guild())
    cy = await person(database, "cy")

    async def stands() -> tuple[int, int]:
        async with database.transaction() as tx:
            home = await places.find_community(tx, "discord", GUILD)
            assert home is not None
            world = await access.load_world(tx, home, [cy])
            return len(world.held.get(cy, ())), sum(cy in members for members in world.members.values())

    assert await stands() == (2, 1)
    demoted = MemberReport(ref="cy", name="Cy", roles=frozenset({"r1"}))
    await memory.learn(guild(members=(demoted,), members_known=False, rooms=(), whole=False))
    assert await stands() == (1, 1)
    await memory.leave("discord", GUILD, "cy")
    await memory.leave("discord", GUILD, "nobody")
    assert await stands() == (0, 0)
    await memory.learn(guild())
    assert await stands() == (2, 1)
    await memory.learn(guild(members=guild().members[:2]))
    assert (await stands())[1] == 0


async def test_a_name_is_dated_and_zero_bytes_do_not_break_it(database: Database, memory: StoredPlatformMemory) -> None:
    await memory.learn(guild())
    await memory.learn(guild(members=(MemberReport(ref="bo", name="B\x00o the Second"),), members_known=False))
    async with database.transaction() as tx:
        names = await tx.fetch(
            "select name, valid_to is null as now from voidbot.person_names where person_id = $1 order by id",
            await tx.fetchval("select id from voidbot.people where account_ref = 'bo'"),
        )
    assert [(row["name"], row["now"]) for row in names] == [("Bo", False), ("Bo the Second", True)]


async def test_rooms_and_communities_that_are_gone_are_closed_and_come_back(
    database: Database, memory: StoredPlatformMemory
) -> None:
    await memory.learn(guild())
    await memory.forget_room(HALL)
    assert await reads(database, CRYPT) == {"crypt"}  # and the thread went with the hall
    await memory.learn(guild())
    assert await reads(database, CRYPT) == {"hall", "aside", "crypt"}
    await memory.forget_community("discord", GUILD)
    assert await reads(database, CRYPT) == set()
    await memory.learn(guild(rooms=(room(CRYPT, "crypt", Whoever(roles=frozenset({"r1"}))),)))
    assert await reads(database, CRYPT) == {"crypt"}  # a whole report without the hall closes it


async def test_readers_that_can_t_be_told_any_more_are_unknown(
    database: Database, memory: StoredPlatformMemory
) -> None:
    await memory.learn(guild())
    await memory.learn(guild(rooms=(room(HALL, "hall", None),), whole=False))
    assert await reads(database, CRYPT) == {"crypt"}
    await memory.learn(guild())
    assert "hall" in await reads(database, CRYPT)


async def test_readers_narrowed_by_hand_stay_narrow(database: Database, memory: StoredPlatformMemory) -> None:
    await memory.learn(guild())
    async with database.transaction() as tx:
        place = await places.find_place(tx, HALL)
        assert place is not None
        await access.save_access(tx, place.room.id, place.community.id, everyone=False, source="admin")
    await memory.learn(guild())
    assert "hall" not in await reads(database, CRYPT)


# Moving


def said(key: RoomKey, ref: str, clock: ManualClock) -> InboundMessage:
    return InboundMessage(
        front_end="telegram",
        room=key,
        message_id=ref,
        event_id=f"{key.chat_ref}/{ref}",
        kind=MessageKind.TEXT,
        person_ref="ana",
        display_name="Ana",
        username="ana",
        origin=Origin.HUMAN,
        text="hello",
        sent_at=clock.now(),
        received_at=clock.now(),
        addressed_by=frozenset({Address.MENTION}),
        surroundings=Surroundings(community_ref=key.chat_ref, kind=RoomKind.GROUP, name="Group"),
    )


async def hear(database: Database, message: InboundMessage) -> tuple[CommunityId, RoomId]:
    """Store what intake would of one message, its archive row included."""
    about = message.surroundings
    assert about is not None
    async with database.transaction() as tx:
        home = await places.add_community(tx, "telegram", about.community_ref, "Group")
        room_id = await places.meet_room(tx, home, message.room, about)
        who = await people.ensure_person(tx, "telegram", message.person_ref, home, "Ana")
        await inbox.add(
            tx, message, community_id=home, room_id=room_id, person_id=who.id, keep_text=True, trace="t"
        )  # fmt: skip
        await archive.add_message(
            tx,
            archive.NewMessage(
                room_id=room_id,
                community_id=home,
                author_id=who.id,
                platform_ref=message.message_id,
                kind="text",
                text=message.text,
                sent_at=message.sent_at,
            ),
        )
    return home, room_id


@pytest.mark.field("F011")
@pytest.mark.parametrize("met_before", [False, True])
async def test_a_moved_group_keeps_everything_and_its_old_id(
    database: Database, memory: StoredPlatformMemory, clock: ManualClock, met_before: bool
) -> None:
    old, new = RoomKey("telegram", "-5"), RoomKey("telegram", "-1005")
    home, room_id = await hear(database, said(old, "1", clock))
    await hear(database, said(old, "2", clock))
    if met_before:
        await hear(database, said(new, "10", clock))
    for _ in range(2):
        await memory.move(old, new)
    async with database.transaction() as tx:
        places_now = [await places.find_place(tx, key) for key in (old, new)]
        assert {(place.room.id, place.room.key, place.community.id) for place in places_now if place} == {
            (room_id, new, home)
        }
        rows = await tx.fetch(
            "select room_id, community_id, platform_ref, archived_seq from voidbot.messages order by archived_seq"
        )
        assert [(row["room_id"], row["community_id"]) for row in rows] == [(room_id, home)] * len(rows)
        assert [row["platform_ref"] for row in rows] == ["-5/1", "-5/2", *(["10"] if met_before else [])]
        assert [row["archived_seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert await tx.fetchval("select count(*) from voidbot.communities") == 1
        assert await tx.fetchval("select chat_ref from voidbot.communities") == "-1005"
        assert await tx.fetchval("select count(distinct room_id) from voidbot.inbox") == 1


# What is remembered


async def test_the_newest_message_of_each_open_room_is_where_a_gap_begins(
    database: Database, memory: StoredPlatformMemory, clock: ManualClock
) -> None:
    one, two = RoomKey("telegram", "-1"), RoomKey("telegram", "-2")
    for key, ref in ((one, "5"), (two, "7"), (one, "6")):
        await hear(database, said(key, ref, clock))
        await clock.advance(1)
    assert [(each.room, each.message_ref) for each in await memory.last_heard("telegram")] == [(one, "6"), (two, "7")]
    await memory.forget_room(one)
    assert [each.room for each in await memory.last_heard("telegram")] == [two]
    assert await memory.last_heard("discord") == []


async def test_a_room_in_which_nothing_was_heard_yet_is_known_to_have_a_gap(
    database: Database, memory: StoredPlatformMemory, clock: ManualClock
) -> None:
    heard, silent = RoomKey("telegram", "-1"), RoomKey("telegram", "-2")
    async with database.transaction() as tx:
        home = await places.learn_community(tx, "telegram", "-2", "House", timezone="UTC", language="en")
        await places.add_room(tx, home, silent, RoomKind.GROUP, "hall")
    await hear(database, said(heard, "5", clock))
    assert [(each.room, each.message_ref) for each in await memory.last_heard("telegram")] == [
        (heard, "5"),
        (silent, ""),
    ]


async def test_small_values_and_starts_outlive_the_process(
    database: Database, memory: StoredPlatformMemory, clock: ManualClock
) -> None:
    assert await memory.recall("print") is None
    await memory.remember("print", "a")
    await memory.remember("print", "b")
    assert await StoredPlatformMemory(database).recall("print") == "b"
    assert [await memory.count_start("bot"), await memory.count_start("bot"), await memory.count_start("other")] == [
        1,
        2,
        1,
    ]
    await clock.advance(timedelta(hours=25).total_seconds())
    assert await memory.count_start("bot") == 1


async def test_one_leads_and_the_next_takes_over(database: Database, memory: StoredPlatformMemory) -> None:
    told: list[str] = []
    leading, over = asyncio.Event(), asyncio.Event()

    async def second() -> None:
        async with memory.lead("token", lambda: told.append("waiting")):
            leading.set()
            await over.wait()

    async with asyncio.TaskGroup() as group:
        async with memory.lead("token", lambda: told.append("never")), memory.lead("other", lambda: told.append("no")):
            task = group.create_task(second())
            async with asyncio.timeout(10):
                while not told:
                    await asyncio.sleep(0.01)
            assert told == ["waiting"] and not leading.is_set()
        async with asyncio.timeout(10):
            await leading.wait()
        over.set()
        await task
    assert told == ["waiting"]


async def test_who_lost_the_connection_of_the_lock_leads_no_more(
    database: Database, memory: StoredPlatformMemory
) -> None:
    with pytest.raises(Unavailable):
        async with memory.lead("token", lambda: None):
            async with database.transaction() as tx:
                await tx.fetchval(
                    "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted"
                    " and pid <> pg_backend_pid() and database = (select oid from pg_database"
                    " where datname = current_database())"
                )
            await asyncio.sleep(30)


async def test_an_error_inside_is_the_error_outside(database: Database, memory: StoredPlatformMemory) -> None:
    with pytest.raises(KeyError, match="own"):
        async with memory.lead("token", lambda: None):
            raise KeyError("own")


# What a reader found


async def test_who_sees_nothing_reads_nothing_back(database: Database, memory: StoredPlatformMemory) -> None:
    """A private channel usually denies only the view, and leaves reading back to everyone."""
    keepers = Whoever(roles=frozenset({"r1"}))
    about = Surroundings(community_ref=GUILD, kind=RoomKind.CHANNEL, name="crypt")
    crypt = RoomReport(key=CRYPT, surroundings=about, view=keepers, history=Whoever(everyone=True))
    await memory.learn(guild(rooms=(room(HALL, "hall", Whoever(everyone=True)), crypt)))
    assert await reads(database, HALL) == {"hall"}
    assert await reads(database, CRYPT) == {"hall", "crypt"}


async def test_after_a_doubt_nothing_goes_from_room_to_room_until_all_is_reported(
    database: Database, memory: StoredPlatformMemory
) -> None:
    await memory.learn(guild())
    await memory.doubt("telegram")
    await memory.doubt("discord", ["another"])
    assert await reads(database, CRYPT) == {"hall", "aside", "crypt"}
    await memory.doubt("discord")
    assert "hall" not in await reads(database, CRYPT)
    await memory.learn(guild(rooms=(), whole=False))
    assert "hall" not in await reads(database, CRYPT)
    await memory.learn(guild())
    assert await reads(database, CRYPT) == {"hall", "aside", "crypt"}


async def test_a_closed_room_is_forgotten_by_whoever_remembered_it(
    database: Database, memory: StoredPlatformMemory
) -> None:
    await memory.learn(guild())
    remembered = access.ReadableRooms()

    async def readable() -> int:
        async with database.transaction() as tx:
            place = await places.find_place(tx, CRYPT)
            assert place is not None
            return len(await remembered.load(tx, place.community.id, InRoom(place.room.id), None))

    assert await readable() == 3
    await memory.forget_room(HALL)
    assert await readable() == 1


async def test_a_gap_begins_where_the_last_reading_of_it_began(
    database: Database, memory: StoredPlatformMemory, clock: ManualClock
) -> None:
    key = RoomKey("telegram", "-1")
    await hear(database, said(key, "5", clock))
    await memory.begin_gap(key, "5")
    await hear(database, said(key, "9", clock))
    assert [each.message_ref for each in await memory.last_heard("telegram")] == ["5"]
    await memory.end_gap(key)
    assert [each.message_ref for each in await memory.last_heard("telegram")] == ["9"]


async def test_a_moved_group_may_count_its_messages_from_the_start_again(
    database: Database, memory: StoredPlatformMemory, clock: ManualClock
) -> None:
    old, new = RoomKey("telegram", "-5"), RoomKey("telegram", "-1005")
    await hear(database, said(old, "1", clock))
    await hear(database, said(new, "1", clock))
    await memory.move(old, new)
    await hear(database, said(new, "2", clock))
    async with database.transaction() as tx:
        rows = await tx.fetch("select platform_ref from voidbot.messages order by archived_seq")
        inbox_refs = await tx.fetch("select message_ref from voidbot.inbox order by id")
    assert [row["platform_ref"] for row in rows] == ["-5/1", "1", "2"]
    assert [row["message_ref"] for row in inbox_refs] == ["-5/1", "1", "2"]


async def test_a_topic_met_under_the_new_id_alone_keeps_its_words(
    database: Database, memory: StoredPlatformMemory, clock: ManualClock
) -> None:
    old, new = RoomKey("telegram", "-5"), RoomKey("telegram", "-1005")
    home, _ = await hear(database, said(old, "1", clock))
    topic = replace(said(new, "7", clock), room=replace(new, topic_ref="3"))
    await hear(database, topic)
    await memory.move(old, new)
    async with database.transaction() as tx:
        rows = await tx.fetch("select community_id, platform_ref from voidbot.messages order by id")
    assert [(row["community_id"], row["platform_ref"]) for row in rows] == [(home, "-5/1"), (home, "7")]


async def test_the_newest_archived_messages_are_named_without_those_known_to_be_deleted(
    database: Database, memory: StoredPlatformMemory, clock: ManualClock
) -> None:
    await memory.learn(guild())
    async with database.transaction() as tx:
        place = await places.find_place(tx, HALL)
        assert place is not None
        who = await people.ensure_person(tx, "discord", "1", place.community.id, "Ana")
        at = clock.now()
        for n, ref in enumerate(("101", "102", "own:103", "104")):
            said = archive.NewMessage(
                room_id=place.room.id, community_id=place.community.id, author_id=who.id, platform_ref=ref,
                kind="text", text="word", sent_at=at + timedelta(seconds=n),
            )  # fmt: skip
            await archive.add_message(tx, said)
        await archive.bury_message(tx, place.room.id, "102", "missed")
    assert await memory.last_kept(HALL, 9) == ["104", "103", "101"]
    assert await memory.last_kept(HALL, 1) == ["104"]
