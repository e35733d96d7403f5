"""The archive: once, in order, with the newest words, and nothing of who is gone or may not be heard."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.archiving import ArchivePolicy, is_archived
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId, RoomKey
from core.domain.messages import Attachment
from core.domain.retrieval import Query
from core.domain.rooms import ArchiveSwitch, RoomKind, RoomState
from core.retrieval import service
from core.retrieval.indexing import index_all
from core.store import access, archive, people, places, reactions
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
        assert room.state is RoomState.DELETED and not is_archived(room, ArchivePolicy())
        await access.save_access(tx, home[1], home[0], everyone=True)
        world = await access.load_world(tx, home[0], [home[3]])
        assert not world.rooms[home[1]].open


async def test_an_answer_is_joined_to_what_it_answers_whichever_comes_first(
    database: Database, home: Home, clock: ManualClock
) -> None:
    async with database.transaction() as tx:
        await _say(tx, home, "m2", "an answer", clock.now(), reply_to_ref="m1")
        await _say(tx, home, "m1", "a question", clock.now())
        await _say(tx, home, "own:m3", "my answer", clock.now(), reply_to_ref="m1")
        await _say(tx, home, "m4", "thanks", clock.now(), reply_to_ref="m3")
        rows = await tx.fetch(
            "select m.platform_ref as a, t.platform_ref as q from voidbot.messages m"
            " join voidbot.messages t on t.id = m.reply_to_id order by m.id"
        )
        assert [tuple(row) for row in rows] == [("m2", "m1"), ("own:m3", "m1"), ("m4", "own:m3")]


FILES = (Attachment("image", "lamp.png", "image/png", 90_000, handle="1/2/3"), Attachment("file", "plan.txt"))


async def test_a_tombstone_keeps_its_place_and_nothing_that_was_said(
    database: Database, home: Home, clock: ManualClock
) -> None:
    async with database.transaction() as tx:
        said = await _say(tx, home, "m1", "the lamp", clock.now(), files=FILES, forwarded_from="Ben", reply_to_ref="m0")
        await tx.execute("update voidbot.message_revisions set text = 'the lump'")
        await tx.execute("update voidbot.attachments set caption = 'a lamp', extracted_text = 'lamp'")
        await reactions.add(tx, MessageId(int(str(said))), home[3], ["👍", "🎉"])
        assert await index_all(tx) == 1
        assert await archive.bury_messages(tx, home[1], ["m1", "m7"], "deleted", unheard_at=clock.now()) == 1
        for table in ("attachments", "reactions", "units"):
            assert await tx.fetchval(f"select count(*) from voidbot.{table}") == 0
        assert await tx.fetchval("select count(*) from voidbot.message_revisions where text is not null") == 0
        rows = await tx.fetch(
            "select platform_ref, author_id, text || forwarded_from, reply_to_ref from voidbot.messages"
            " where delete_reason = 'deleted' order by id"
        )
        assert [tuple(row) for row in rows] == [("m1", home[3], "", "m0"), ("m7", None, "", None)]
        assert await _say(tx, home, "m7", "late", clock.now()) is None
        assert await archive.is_gone(tx, home[1], "m7") and await archive.is_gone(tx, home[1], "m8") is None
        assert not await archive.edit_message(tx, home[1], "m7", "back", clock.now())
        await index_all(tx)
        assert await tx.fetchval("select count(*) from voidbot.units") == 0


async def test_a_storm_of_edits_leaves_three_revisions_a_minute_and_the_last_words(
    database: Database, home: Home, clock: ManualClock
) -> None:
    async with database.transaction() as tx:
        await _say(tx, home, "m1", "word", clock.now())
        for n in range(20):
            assert await archive.edit_message(tx, home[1], "m1", f"word {n}", clock.now() + timedelta(seconds=n))
        assert await tx.fetchval("select text from voidbot.messages") == "word 19"
        rows = await tx.fetch("select revision, archived_seq from voidbot.message_revisions order by revision")
        assert [tuple(row) for row in rows] == [(0, 1), (1, 2), (2, 3), (20, 21)]
        assert await tx.fetchval("select revision from voidbot.messages") == 20
    await clock.advance(61)
    async with database.transaction() as tx:
        assert await archive.edit_message(tx, home[1], "m1", "later", clock.now())
        assert await tx.fetchval("select count(*) from voidbot.message_revisions") == 5


async def test_files_follow_the_edit_and_what_was_read_of_one_stays(
    database: Database, home: Home, clock: ManualClock
) -> None:
    async with database.transaction() as tx:
        await _say(tx, home, "m1", "two files", clock.now(), files=FILES)
        await tx.execute("update voidbot.attachments set extracted_text = 'read ' || ordinal")
        await archive.edit_message(tx, home[1], "m1", "one file", clock.now(), FILES[:1])
        rows = await tx.fetch("select kind, name, mime, bytes, fetch_handle, extracted_text from voidbot.attachments")
        assert [tuple(row) for row in rows] == [("image", "lamp.png", "image/png", 90_000, "1/2/3", "read 0")]


async def test_each_reaction_counts_once_and_can_be_taken_back(
    database: Database, home: Home, clock: ManualClock
) -> None:
    async def held(tx: Tx) -> list[str]:
        return [row["emoji"] for row in await tx.fetch("select emoji from voidbot.reactions order by emoji")]

    async with database.transaction() as tx:
        await _say(tx, home, "m1", "the lamp", clock.now())
        target = await reactions.find_target(tx, home[1], "m1")
        assert target is not None
        for _ in range(2):
            await reactions.add(tx, target, home[3], ["a", "b", "c"])
        assert await held(tx) == ["a", "b", "c"]
        await reactions.take_back(tx, target, home[3], ["b"])
        assert await held(tx) == ["a", "c"]
        await reactions.take_back(tx, target, None, None)
        assert await held(tx) == []
        await archive.bury_message(tx, home[1], "m1", "deleted")
        assert await reactions.find_target(tx, home[1], "m1") is None
