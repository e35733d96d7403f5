"""What front ends must not forget, and how a platform's report reaches the tables of its owners."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from core.domain.errors import BotError, Unavailable
from core.domain.ids import RoomKey
from core.domain.platforms import CommunityReport, LastHeard
from core.domain.rooms import RoomKind
from core.ports import PlatformMemory
from core.store import access, archive, budgets, decisions, inbox, moving, outbox, people, places
from core.store.engine import Connection, Database, Tx, database_errors

LEAD_AGAIN_S = 1.0
LEAD_WATCH_S = 3.0
LEAD_ANSWER_S = 5.0
"""How long the lock's own connection may take to answer before the right is given up."""

_LAST_HEARD = """
select r.platform, r.chat_ref, r.topic_ref, r.kind, coalesce(gap.value, i.message_ref, '') as message_ref, i.sent_at
from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
left join lateral (
    select message_ref, sent_at from voidbot.inbox where room_id = r.id and kind = 'text' order by id desc limit 1
) i on true
left join voidbot.platform_memory gap on gap.name = 'gap:' || r.platform || ':' || r.chat_ref and gap.value <> ''
where r.platform = $1 and r.state = 'active' and c.state = 'active'
order by i.sent_at desc nulls last, r.id"""


_LAST_KEPT = """
select regexp_replace(m.platform_ref, '^own:', '') as ref from voidbot.messages m
join voidbot.rooms r on r.id = m.room_id
where r.platform = $1 and r.chat_ref = $2 and r.topic_ref = $3 and m.deleted_at is null
order by m.sent_at desc, m.id desc limit $4"""
CATCH_UP = "catch_up"
"""Under which name, after the platform's, it is remembered what the last gap came to."""


@dataclass(frozen=True, slots=True)
class GapRead:
    """What the last gap of a platform came to, in figures."""

    platform: str
    figures: str
    at: datetime


async def list_gaps(tx: Tx) -> list[GapRead]:
    """Return what the last gap of each platform came to."""
    rows = await tx.fetch(
        "select name, value, at from voidbot.platform_memory where name like '%:' || $1 and value <> '' order by name",
        CATCH_UP,
    )
    return [GapRead(row["name"].partition(":")[0], row["value"], row["at"]) for row in rows]


class StoredPlatformMemory(PlatformMemory):
    """The platforms' memory in the database. `timezone`, `language`: of communities never seen before."""

    def __init__(self, database: Database, *, timezone: str = "UTC", language: str = "en") -> None:
        self._database, self._timezone, self._language = database, timezone, language

    async def learn(self, report: CommunityReport) -> None:
        """Bring communities, rooms, roles, members and access to what the platform says now."""
        platform, members = report.platform, sorted(report.members, key=lambda member: member.ref)
        async with self._database.transaction(long=True) as tx:
            community_id = await places.learn_community(
                tx, platform, report.ref, report.name, timezone=self._timezone, language=self._language
            )
            await access.learn_roles(tx, community_id, report.roles, whole=report.whole)
            await people.learn_members(tx, community_id, platform, members, everyone=report.members_known)
            await access.learn_holders(tx, community_id, platform, members)
            kept = []
            # What others hang on comes first.
            for room in sorted(report.rooms, key=lambda room: room.surroundings.parent is not None):
                kept.append(await places.meet_room(tx, community_id, room.key, room.surroundings))
                await access.learn_access(tx, community_id, kept[-1], room)
            if report.whole:
                await access.forget_access(tx, await places.close_others(tx, community_id, kept))
            await access.raise_epoch(tx, community_id)
            if report.whole:
                await places.trust(tx, community_id)

    async def doubt(self, platform: str, refs: Sequence[str] | None = None) -> None:
        """Use nothing of one room in another until the platform has reported the community whole again."""
        async with self._database.transaction() as tx:
            await places.doubt(tx, platform, refs)

    async def begin_gap(self, room: RoomKey, after: str) -> None:
        """Note where the reading of a gap begins, so that a process that dies in it begins there again."""
        await self.remember(f"gap:{room.platform}:{room.chat_ref}", after or "0")

    async def end_gap(self, room: RoomKey) -> None:
        """Note that the gap was read to its end."""
        await self.remember(f"gap:{room.platform}:{room.chat_ref}", "")

    async def forget_room(self, room: RoomKey) -> None:
        """Close the room and what hangs on it; what was to be said there is dropped when its turn comes."""
        async with self._database.transaction() as tx:
            await access.forget_access(tx, await places.close_room(tx, room))

    async def forget_community(self, platform: str, ref: str) -> None:
        """Close the community until a report opens it again."""
        async with self._database.transaction() as tx:
            await places.close_community(tx, platform, ref)

    async def leave(self, platform: str, community_ref: str, account_ref: str) -> None:
        """End the membership and the roles held in it; who was never met has nothing to lose."""
        async with self._database.transaction() as tx:
            community_id = await places.find_community(tx, platform, community_ref)
            if community_id is None:
                return
            person = await people.find_person(tx, platform, account_ref, community_id)
            if person is not None and person.member:
                await people.leave(tx, community_id, person.id)

    async def move(self, old: RoomKey, new: RoomKey) -> None:
        """Give the chat, its topics and its community the new id; told twice it does nothing more."""
        async with self._database.transaction() as tx:
            for room_id in await moving.list_moving(tx, old):
                # A moved chat counts its messages from the start again: the old numbers say whose they are.
                await archive.mark_refs(tx, room_id, old.chat_ref)
                await inbox.mark_refs(tx, room_id, old.chat_ref)
            for room in await moving.list_met_twice(tx, old, new):
                await archive.rehome(tx, room.newer, room.older, room.community_id)
                await inbox.rehome(tx, room.newer, room.older, room.community_id)
                await decisions.rehome(tx, room.newer, room.older)
                await outbox.rehome(tx, room.newer, room.older, room.community_id)
                await budgets.rehome(tx, room.newer, room.older, room.community_id)
                await moving.remove_room(tx, room.newer)
            adopted = await moving.move_chat(tx, old, new)
            for room_id, community_id in adopted:
                await archive.adopt(tx, room_id, community_id)
                await inbox.rehome(tx, room_id, room_id, community_id)
                await outbox.rehome(tx, room_id, room_id, community_id)
                await budgets.rehome(tx, room_id, room_id, community_id)
            await moving.drop_moved(tx, old, new)

    async def last_heard(self, platform: str) -> Sequence[LastHeard]:
        """Return the open rooms with the newest stored message of each, the liveliest first, the silent ones last."""
        async with self._database.transaction(durable=False) as tx:
            rows = await tx.fetch(_LAST_HEARD, platform)
        return [
            LastHeard(
                RoomKey(row["platform"], row["chat_ref"], row["topic_ref"]),
                row["message_ref"],
                row["sent_at"],
                RoomKind(row["kind"]),
            )
            for row in rows
        ]

    async def last_kept(self, room: RoomKey, limit: int) -> Sequence[str]:
        """Return the ids of the newest archived messages of a room, our own among them."""
        async with self._database.transaction(durable=False) as tx:
            rows = await tx.fetch(_LAST_KEPT, room.platform, room.chat_ref, room.topic_ref, limit)
        return [row["ref"] for row in rows]

    async def recall(self, name: str) -> str | None:
        """Return the value kept under this name."""
        async with self._database.transaction(durable=False) as tx:
            value: str | None = await tx.fetchval("select value from voidbot.platform_memory where name = $1", name)
        return value

    async def remember(self, name: str, value: str) -> None:
        """Keep the value under this name."""
        async with self._database.transaction() as tx:
            await tx.execute(
                "insert into voidbot.platform_memory (name, value) values ($1, $2)"
                " on conflict (name) do update set value = $2, at = voidbot.now()",
                name,
                value,
            )

    async def count_start(self, account: str) -> int:
        """Count one more start; what is older than two days is forgotten."""
        async with self._database.transaction() as tx:
            await tx.execute("delete from voidbot.platform_starts where at < voidbot.now() - interval '2 days'")
            await tx.execute("insert into voidbot.platform_starts (account) values ($1)", account)
            return int(
                await tx.fetchval(
                    "select count(*) from voidbot.platform_starts"
                    " where account = $1 and at > voidbot.now() - interval '24 hours'",
                    account,
                )
            )

    @asynccontextmanager
    async def lead(self, key: str, waiting: Callable[[], None]) -> AsyncIterator[None]:
        """Hold an advisory lock on a connection of its own, which is asked every few seconds whether it lives."""
        connection = await self._database.connect()
        try:
            told = False
            while not await _ask(connection, "select pg_try_advisory_lock(hashtextextended($1, 0))", key):
                if not told:
                    told = True
                    waiting()
                await asyncio.sleep(LEAD_AGAIN_S)
            try:
                async with asyncio.timeout(None) as scope:
                    watching = _watch(connection, scope)
                    watch = asyncio.create_task(watching)  # noqa: TID251  # a group would wrap what the block raises
                    try:
                        yield
                    finally:
                        watch.cancel()
                        with suppress(asyncio.CancelledError):
                            await watch
            except TimeoutError as exc:
                if scope.expired():
                    raise Unavailable("database: connection lost") from exc
                raise
        finally:
            connection.terminate()


async def _ask(connection: Connection, sql: str, *args: object) -> object:
    with database_errors():
        return await connection.fetchval(sql, *args, timeout=LEAD_ANSWER_S)


async def _watch(connection: Connection, scope: asyncio.Timeout) -> None:
    """End the scope once the connection that holds the lock does not answer."""
    while True:
        await asyncio.sleep(LEAD_WATCH_S)
        try:
            await _ask(connection, "select 1")
        except (BotError, asyncpg.PostgresError, asyncpg.InterfaceError):
            # Whatever it was: the lock may be somebody else's by now.
            scope.reschedule(asyncio.get_running_loop().time())
            return
