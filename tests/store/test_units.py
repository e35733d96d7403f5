"""The index over a real database: units follow their messages, and a search sees no more than it may."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.domain.ids import CommunityId, PersonId, RoomId, RoomKey
from core.domain.retrieval import Query
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.domain.units import Around, build_units
from core.retrieval import service
from core.retrieval.indexing import index_all
from core.store import archive, people, places, units
from core.store.engine import Database, Tx
from tests.flows.line import until

START = datetime(2026, 5, 7, 9, 0, tzinfo=UTC)


class Town:
    """A community with two rooms and people who talk there."""

    def __init__(self, tx: Tx, community: CommunityId, rooms: Sequence[RoomId]) -> None:
        self.tx = tx
        self.community = community
        self.rooms = rooms
        self.said = 0
        self.people: dict[str, PersonId] = {}

    @classmethod
    async def found(cls, tx: Tx) -> "Town":
        community = await places.add_community(tx, "console", "console", "Here")
        rooms = [
            await places.add_room(
                tx, community, RoomKey("console", name), RoomKind.TERMINAL, name, archive=ArchiveSwitch.ON
            )
            for name in ("one", "two")
        ]
        return cls(tx, community, rooms)

    async def say(self, author: str, text: str, room: int = 0, **changes: Any) -> str:
        if author not in self.people:
            bot = author == "Clank"
            person = await people.ensure_person(self.tx, "console", author, self.community, author, is_bot=bot)
            self.people[author] = person.id
        self.said += 1
        ref = f"m{self.said}"
        fields: dict[str, Any] = {
            "room_id": self.rooms[room], "community_id": self.community, "author_id": self.people[author],
            "platform_ref": ref, "kind": "text", "text": text, "sent_at": START + timedelta(minutes=self.said),
        }  # fmt: skip
        await archive.add_message(self.tx, archive.NewMessage(**{**fields, **changes}))
        return ref

    async def find(self, text: str, *, rooms: Sequence[int] = (0, 1), **changes: Any) -> list[str]:
        fields: dict[str, Any] = {
            "text": text, "community_id": self.community, "readable": frozenset(self.rooms[n] for n in rooms),
            "now": START + timedelta(days=1), "k": 9, "floor": 0.0,
        }  # fmt: skip
        found = await service.search(self.tx, Query(**{**fields, **changes}))
        return [hit.message.platform_ref for hit in found]


async def test_a_message_is_found_before_and_after_its_unit_is_made(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "the lantern hangs in the shed")
        assert await town.find("lantern") == ["m1"]
        assert await index_all(tx) == 1
        assert await town.find("lantern") == ["m1"]
        assert await index_all(tx) == 0


async def test_an_answer_is_found_by_the_words_of_its_question(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "who has seen the soldering iron?")
        await town.say("Ben", "third drawer, left side")
        for n in range(4):
            await town.say("Cem", f"something else entirely, part {n}")
        await index_all(tx)
        assert await town.find("where is the soldering iron?") == ["m1", "m2", "m3"]


async def test_an_edit_and_a_deletion_reach_every_unit_that_held_the_words(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "meet at the windmill")
        await town.say("Ben", "fine with me")
        late = await town.say("Cem", "so be it", reply_to_ref="m1", sent_at=START + timedelta(days=2))
        await index_all(tx)
        assert set(await town.find("windmill")) == {"m1", "m2", late}
        assert await archive.edit_message(tx, town.rooms[0], "m1", "meet at the harbour", START + timedelta(hours=1))
        assert set(await town.find("windmill")) == {"m2", late}
        assert "m1" in await town.find("harbour")  # at once
        await index_all(tx)
        await index_all(tx)
        assert await town.find("windmill") == []
        assert set(await town.find("harbour")) == {"m1", "m2", late}
        assert await archive.bury_message(tx, town.rooms[0], "m1", "deleted")
        assert "m1" not in await town.find("harbour")
        await index_all(tx)
        await index_all(tx)
        assert await town.find("harbour") == []
        assert await tx.fetchval("select count(*) from voidbot.units where tsv @@ 'harbour'::tsquery") == 0


async def test_a_rare_word_counts_more_than_a_common_one(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        for n in range(30):
            await town.say("Ana", f"the garden needs water, bed {n}", sent_at=START + timedelta(hours=2 * n))
        await town.say("Ben", "a hedgehog lives there", sent_at=START + timedelta(hours=90))
        await index_all(tx)
        assert (await town.find("hedgehog in the garden"))[0] == "m31"


async def test_units_and_fresh_words_stop_at_the_readable_rooms(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "open lantern")
        await town.say("Ana", "closed lantern", room=1)
        await town.say("Ana", "borrowed lantern", sources=[town.rooms[0], town.rooms[1]])
        for _ in range(2):  # from the messages, then from the units
            assert await town.find("lantern", rooms=[0]) == ["m1"]
            assert set(await town.find("lantern")) == {"m1", "m2", "m3"}
            assert await town.find("lantern", rooms=[1]) == ["m2"]
            await index_all(tx)


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        ({"since": START + timedelta(minutes=2)}, {"m2", "m3"}),
        ({"until": START + timedelta(minutes=2)}, {"m1"}),
        ({"people_only": True}, {"m1", "m3"}),
        ({"kinds": frozenset({"bot_prompt"})}, {"m3"}),
    ],
)
async def test_a_search_is_narrowed_before_and_after_indexing(
    database: Database, narrowed: dict[str, Any], found: set[str]
) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "lantern oil")
        await town.say("Clank", "lantern wick")
        await town.say("Ben", "lantern glass", kind="bot_prompt")
        for _ in range(2):
            assert set(await town.find("lantern", **narrowed)) == found
            assert set(await town.find("lantern", authors=(town.people["Ben"],))) == {"m3"}
            await index_all(tx)


async def test_identifiers_are_found_as_they_stand_and_by_their_parts(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "the router logs ERR_CONN_RESET twice an hour")
        await town.say("Ben", "reset the clock, Anna", sent_at=START + timedelta(hours=5))
        await index_all(tx)
        assert (await town.find("ERR_CONN_RESET"))[0] == "m1"
        assert set(await town.find("reset")) == {"m1", "m2"}


async def test_words_of_a_script_without_spaces_are_found(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "明日は東京タワーに行きます")
        await town.say("Ben", "何もない", sent_at=START + timedelta(hours=5))
        await index_all(tx)
        assert await town.find("東京タワー") == ["m1"]


async def test_copies_are_shown_once_and_the_question_never(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "who keeps the blue bicycle key?")
        for n in range(3):
            await town.say(
                "Ben",
                "Cem keeps the blue bicycle key in a tin behind the door",
                sent_at=START + timedelta(hours=3 * n + 3),
            )
        await index_all(tx)
        assert await town.find("who keeps the blue bicycle key?") == ["m2"]


async def test_people_who_opted_out_are_neither_found_nor_near(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "the vault code is on the lid")
        await town.say("Ben", "noted")
        await tx.execute("update voidbot.people set opted_out = true where id = $1", town.people["Ana"])
        await index_all(tx)
        assert await town.find("vault code") == []


async def test_a_large_room_is_indexed_in_windows_without_a_seam(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "first")
        await tx.execute(
            "insert into voidbot.messages (community_id, room_id, author_id, platform_ref, archived_seq, text, sent_at,"
            " index_state) select $1, $2, $3, 'b' || n, 100 + n, 'word' || n, $4::timestamptz + n * interval '1 min',"
            " 'queued' from generate_series(1, 1200) n",
            town.community, town.rooms[0], town.people["Ana"], START + timedelta(hours=1),
        )  # fmt: skip
        await index_all(tx)
        short = "select count(*) from voidbot.units u where not u.tsv @@ ('word' || $1::int)::tsquery and message_id ="
        for n in (497, 500, 501, 999, 1000, 1199):
            assert await tx.fetchval(
                f"{short} (select id from voidbot.messages where platform_ref = 'b' || $2::int)", n + 1, n
            ) == 0  # fmt: skip
        assert await tx.fetchval("select count(*) from voidbot.units") == 1201
        assert await tx.fetchval("select count(*) from voidbot.messages where index_state <> 'done'") == 0


async def test_words_deleted_while_their_unit_is_made_do_not_come_back(database: Database) -> None:
    async with database.transaction() as tx:
        town = await Town.found(tx)
        await town.say("Ana", "the lantern hangs in the shed")
    read, buried = asyncio.Event(), asyncio.Event()

    async def bury() -> None:
        await read.wait()
        async with database.transaction() as tx:
            await archive.bury_message(tx, town.rooms[0], "m1", "deleted")
        buried.set()

    async def buried_or_waiting() -> bool:
        async with database.transaction() as tx:
            return buried.is_set() or await tx.fetchval("select exists (select 1 from pg_locks where not granted)")

    async with asyncio.TaskGroup() as group:
        group.create_task(bury())
        late = group.create_task(until(buried_or_waiting))
        async with database.transaction() as tx:
            (room,) = await units.rooms_waiting(tx, 1)
            (waiting,) = await units.read_window(tx, room.room_id)
            read.set()
            await late
            around = Around(before=[], after=[], parent=None)
            await units.write_units(tx, room, [waiting.spoken.id], build_units(waiting.spoken, around))
    async with database.transaction() as tx:
        town.tx = tx
        assert await town.find("lantern") == []
        await index_all(tx)
        assert await tx.fetchval("select count(*) from voidbot.units") == 0
