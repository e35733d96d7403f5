"""The archive: once, in order, with the newest words, and nothing of who is gone or may not be heard."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.ids import CommunityId, PersonId, RoomId, RoomKey
from core.domain.retrieval import Query
from core.domain.rooms import ArchiveSwitch, RoomKind, RoomState
from core.retrieval import service
from core.store import access, archive, people, places
from core.store.engine import Database, Tx
from tests.fakes import ManualClock

Home = tuple[CommunityId, RoomId, RoomId, PersonId]


@pytest.fixture
async def home(database: Database) -> Home:
    """A community with two rooms and one person."""
    async with database.transaction() as tx:
        community = await places.add_community(tx, "console", "console", "Here")
        rooms = [
            await places.add_room(
                tx, community, RoomKey("console", name), RoomKind.TERMINAL, name, archive=ArchiveSwitch.ON
            )
            for name in ("one", "two")
        ]
        person = await people.ensure_person(tx, "console", "ana", community, "Ana")
    return community, rooms[0], rooms[1], person.id


async def _say(tx: Tx, home: Home, ref: str, text: str, at: datetime, **more: object) -> object:
    message = archive.NewMessage(
        **{
            "room_id": home[1], "community_id": home[0], "author_id": home[3], "platform_ref": ref,
            "kind": "text", "text": text, "sent_at": at, **more,
        }  # type: ignore[arg-type]  # a test's own changes
    )  # fmt: skip
    return await archive.add_message(tx, message)


async def test_a_message_is_kept_once_and_counted_in_order(database: Database, home: Home, clock: ManualClock) -> None:
    async with database.transaction() as tx:
        for n in range(5):
            assert await _say(tx, home, f"m{n}", f"word {n}", clock.now())
            assert await _say(tx, home, f"m{n}", "again", clock.now()) is None
        rows = await tx.fetch("select archived_seq, text from voidbot.messages order by archived_seq")
        assert [(row["archived_seq"], row["text"]) for row in rows] == [(n + 1, f"word {n}") for n in range(5)]


async def test_the_newest_edit_wins_whatever_the_order(database: Database, home: Home, clock: ManualClock) -> None:
    now = clock.now()
    async with database.transaction() as tx:
        await _say(tx, home, "m1", "first", now)
        assert await archive.edit_message(tx, home[1], "m1", "third", now + timedelta(seconds=2))
        assert not await archive.edit_message(tx, home[1], "m1", "second", now + timedelta(seconds=1))
        assert not await archive.edit_message(tx, home[1], "m1", "third", now + timedelta(seconds=3))
        assert not await archive.edit_message(tx, home[1], "m9", "unknown", now)
        assert await tx.fetchval("select text from voidbot.messages") == "third"
        assert await archive.bury_message(tx, home[1], "m1", "deleted")
        assert not await archive.bury_message(tx, home[1], "m1", "deleted")
        assert not await archive.edit_message(tx, home[1], "m1", "back again", now + timedelta(seconds=9))
        assert await _say(tx, home, "m1", "late create", now) is None
        assert await tx.fetchval("select text from voidbot.messages") == ""
        assert await archive.list_transcript(tx, [home[1]], home[1], limit=9, since=now - timedelta(hours=1)) == []


def _query(home: Home, text: str, *readable: RoomId) -> Query:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    return Query(text=text, community_id=home[0], readable=frozenset(readable), now=at, k=9, floor=0.0)


async def test_reading_stops_at_rooms_sources_and_people(database: Database, home: Home, clock: ManualClock) -> None:
    _, one, two, ana = home
    now = clock.now()
    async with database.transaction() as tx:
        await _say(tx, home, "m1", "plain lantern", now)
        await _say(tx, home, "m2", "borrowed lantern", now, sources=[one, two])
        await _say(tx, home, "m3", "elsewhere lantern", now, room_id=two)

        async def texts(*readable: RoomId) -> set[str]:
            found = {
                message.text
                for message in await archive.list_transcript(tx, readable, one, limit=9, since=now - timedelta(1))
            }
            hits = await service.search(tx, _query(home, "lantern", *readable))
            assert {hit.message.text for hit in hits if hit.message.room_id == one} == found
            return {hit.message.text for hit in hits}

        assert await texts(one) == {"plain lantern"}
        assert await texts(one, two) == {"plain lantern", "borrowed lantern", "elsewhere lantern"}
        assert await texts(two) == {"elsewhere lantern"}
        assert await texts() == set()
        assert await archive.find_message(tx, [two], one, "m1") is None
        assert [each.text for each in await archive.list_chain(tx, [one], one, "m2", depth=3)] == []
        await tx.execute("update voidbot.people set opted_out = true where id = $1", ana)
        assert await texts(one, two) == set()


async def test_a_circle_of_replies_ends(database: Database, home: Home, clock: ManualClock) -> None:
    async with database.transaction() as tx:
        await _say(tx, home, "m1", "one", clock.now(), reply_to_ref="m2")
        await _say(tx, home, "m2", "two", clock.now(), reply_to_ref="m1")
        chain = await archive.list_chain(tx, [home[1]], home[1], "m1", depth=12)
        assert len(chain) == 12


@pytest.mark.parametrize(
    "query",
    ["'", "lamp & !x", "a:*", "\\", "\x00lamp", "\ud800", "lamp' | 'x", "((", "<->", "%", "🎩" * 500, "x" * 5000],
)
async def test_any_question_can_be_searched(database: Database, home: Home, clock: ManualClock, query: str) -> None:
    async with database.transaction() as tx:
        await _say(tx, home, "m1", "the lamp's cord is \x00 blue \ud800", clock.now())
        await service.search(tx, _query(home, query, home[1]))


async def test_a_community_that_was_left_closes_its_rooms(database: Database, home: Home) -> None:
    async with database.transaction() as tx:
        await tx.execute("update voidbot.communities set state = 'left'")
        room = await places.load_room(tx, home[1])
        assert room.state is RoomState.DELETED and not room.archived
        await access.save_access(tx, home[1], home[0], everyone=True)
        world = await access.load_world(tx, home[0], [home[3]])
        assert not world.rooms[home[1]].open
