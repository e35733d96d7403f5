"""What is kept no longer goes with all that was made from it, oldest first, in batches that can be resumed."""

from datetime import UTC, datetime, timedelta

from core.domain.ids import RoomKey
from core.domain.retrieval import Query
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.retrieval import service
from core.retrieval.indexing import index_all
from core.store import access, archive, people, places, retention
from core.store.engine import Database, Tx
from core.store.platforms import StoredPlatformMemory
from tests.fakes import ManualClock

HALL, NICHE = RoomKey("discord", "1"), RoomKey("discord", "2")


class House:
    """A community with a hall and a thread of it, in which Ana said one thing a day."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx

    async def build(self, days: int) -> "House":
        tx = self.tx
        self.community = await places.add_community(tx, "discord", "9", "House")
        self.hall, self.niche = [
            await places.add_room(tx, self.community, key, kind, key.chat_ref, archive=ArchiveSwitch.ON)
            for key, kind in ((HALL, RoomKind.CHANNEL), (NICHE, RoomKind.THREAD_PUBLIC))
        ]
        await tx.execute("update voidbot.rooms set parent_id = $1 where id = $2", self.hall, self.niche)
        ana = (await people.ensure_person(tx, "discord", "7", self.community, "Ana")).id
        self.now: datetime = await tx.fetchval("select voidbot.now()")
        for room in (self.hall, self.niche):
            await access.save_access(tx, room, self.community, everyone=True)
            for day in range(days):
                at = self.now - timedelta(days=day, minutes=1)
                said = archive.NewMessage(
                    room_id=room, community_id=self.community, author_id=ana, platform_ref=f"{room}-{day}",
                    kind="text", text=f"lantern number{day} of {room}", sent_at=at,
                )  # fmt: skip
                await archive.add_message(tx, said)
        await index_all(tx)
        return self

    async def left(self) -> list[tuple[int, int]]:
        """Return how many messages and units each room has."""
        rows = await self.tx.fetch(
            "select (select count(*) from voidbot.messages m where m.room_id = r.id) as messages,"
            " (select count(*) from voidbot.units u where u.room_id = r.id) as units from voidbot.rooms r order by r.id"
        )
        return [(row["messages"], row["units"]) for row in rows]

    async def found(self) -> int:
        who = frozenset([self.hall, self.niche])
        query = Query(text="lantern", community_id=self.community, readable=who, now=self.now, k=50, floor=0.0)
        return len(await service.search(self.tx, query))


async def test_messages_past_their_time_go_oldest_first_and_a_thread_follows_its_room(database: Database) -> None:
    async with database.transaction() as tx:
        house = await House(tx).build(6)
        await tx.execute("insert into voidbot.embedding_models (name, dimension) values ('small', 8)")
        await places.save_retention(tx, house.hall, 3)
        assert await retention.delete_overdue(tx, 4) == 4
        assert await tx.fetchval("select count(*) from voidbot.messages where platform_ref like '%-5'") == 0
        assert await retention.delete_overdue(tx, 4) == 2
        assert await retention.delete_overdue(tx, 4) == 0
        assert await house.left() == [(3, 3), (3, 3)]
        # The vectors of units that are gone are looked at, and words that nobody else has used leave the dictionary.
        assert await tx.fetchval("select count(*) from voidbot.embed_queue") == 6
        assert await tx.fetchval("select count(*) from voidbot.units where tsv @@ 'number4'") == 0
        await places.save_retention(tx, house.niche, 1)
        await index_all(tx)
        assert await retention.delete_overdue(tx) == 2
        assert await house.left() == [(3, 3), (1, 1)]


async def test_a_deleted_room_is_closed_at_once_and_emptied_after_a_week(
    database: Database, clock: ManualClock
) -> None:
    memory = StoredPlatformMemory(database)
    async with database.transaction() as tx:
        house = await House(tx).build(2)
        assert (await access.load_world(tx, house.community, [])).rooms[house.niche].open
    await memory.forget_room(NICHE)
    async with database.transaction() as tx:
        house.tx = tx
        world = await access.load_world(tx, house.community, [])
        assert not world.rooms[house.niche].open and world.rooms[house.hall].open
        assert await tx.fetchval("select count(*) from voidbot.room_access where room_id = $1", house.niche) == 0
        assert await retention.delete_overdue(tx) == 0
    await clock.advance(8 * 24 * 3600)
    async with database.transaction() as tx:
        house.tx = tx
        assert await retention.delete_overdue(tx) == 2
        assert await house.left() == [(2, 2), (0, 0)]


async def test_a_room_that_comes_back_in_time_keeps_its_words(database: Database, clock: ManualClock) -> None:
    async with database.transaction() as tx:
        house = await House(tx).build(1)
        await places.close_room(tx, HALL)
        await tx.execute("update voidbot.rooms set state = 'active', closed_at = null where id = $1", house.hall)
    await clock.advance(8 * 24 * 3600)
    async with database.transaction() as tx:
        house.tx = tx
        await retention.delete_overdue(tx)
        assert (await house.left())[0] == (1, 1)


async def test_what_is_hidden_is_found_by_nobody(database: Database) -> None:
    async with database.transaction() as tx:
        house = await House(tx).build(2)
        assert await house.found() == 4
        await places.save_mode(tx, house.hall, searchable=False)
        assert await house.found() == 2
        recent = datetime(2020, 1, 1, tzinfo=UTC)
        assert await archive.list_transcript(tx, [house.hall], house.hall, limit=9, since=recent) == []
