"""A random history in the database: its rows as they were heard of, what was said in its rooms, and its vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.audience import InRoom, Private, Venue
from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.vectors import VectorRow
from core.store import archive, embeddings
from core.store.engine import Database, Tx
from core.store.pgvector import PgVectorStore
from tests.audience.worlds import HANGING, History, Oracle, Reach, TrueRoom, positive
from tests.fakes import WordEmbedder

WORDS = 10
"""So many words are shared by all histories: what is asked for in one was said in others too."""


@dataclass
class Stored:
    """The ids that a history's numbers have in the database, and what was said: by text, the rooms it rests on."""

    homes: dict[int, CommunityId]
    people: dict[int, PersonId]
    roles: dict[int, int]
    rooms: dict[int, RoomId]
    said: dict[str, frozenset[int]]
    word: str

    def venue(self, venue: Venue) -> Venue:
        """Return the venue of the database that a venue of the history stands for."""
        if isinstance(venue, InRoom):
            return InRoom(self.rooms[int(venue.room_id)])
        return Private(self.people[int(venue.person_id)])


async def store(tx: Tx, history: History, n: int, now: datetime) -> Stored:
    """Write a history's rows and one message for each room and answer."""
    heard = history.heard
    homes = {
        home: CommunityId(
            await tx.fetchval(
                "insert into voidbot.communities (platform, chat_ref, mind_id, access_state, state)"
                " values ('w', $1, $2, $3, $4) returning id",
                f"{n}:{home}", f"{n}:{heard.minds[home]}", "stale" if home in heard.stale else "fresh",
                "gone" if home in heard.gone else "active",
            )
        )
        for home in heard.members
    }  # fmt: skip
    people = {
        person: PersonId(
            await tx.fetchval(
                "insert into voidbot.people (platform, account_ref) values ('w', $1) returning id", f"{n}:{person}"
            )
        )
        for person in heard.held
    }
    roles = {
        role: int(
            await tx.fetchval(
                "insert into voidbot.roles (community_id, role_ref) values ($1, $2) returning id",
                homes[role % len(homes) or len(homes)], str(role),
            )
        )
        for role in range(1, 6)
    }  # fmt: skip
    stored = Stored(homes, people, roles, {}, {}, f"lantern{n % WORDS}")
    await tx.executemany(
        "insert into voidbot.memberships (community_id, person_id) values ($1, $2)",
        [(homes[home], people[person]) for home, who in heard.members.items() for person in sorted(who)],
    )
    await tx.executemany(
        "insert into voidbot.membership_roles (person_id, role_id) values ($1, $2)",
        [(people[person], roles[role]) for person, held in heard.held.items() for role in sorted(held)],
    )
    expanded = Oracle(heard)
    for number, room in heard.rooms.items():
        parent = None if room.parent is None else stored.rooms[room.parent]
        stored.rooms[number] = RoomId(
            await tx.fetchval(
                "insert into voidbot.rooms (community_id, platform, chat_ref, kind, state, parent_id)"
                " values ($1, 'w', $2, $3, $4, $5) returning id",
                homes[room.home], f"{n}:{number}", room.kind, "active" if room.open else "deleted", parent,
            )
        )  # fmt: skip
        if room.known and not (room.kind in HANGING and parent is not None):
            await _store_access(tx, stored, room, expanded)
    await _say(tx, history, stored, n, now)
    return stored


async def _store_access(tx: Tx, stored: Stored, room: TrueRoom, expanded: Oracle) -> None:
    view = positive(room, room.view, expanded.view[room.id])
    old = positive(room, room.history, expanded.history[room.id])
    at = stored.rooms[room.id]
    await tx.execute(
        "insert into voidbot.room_access (room_id, known, everyone_view, everyone_history) values ($1, true, $2, $3)",
        at, view.everyone, old.everyone,
    )  # fmt: skip
    for table, column, mine in (("roles", "role_id", stored.roles), ("users", "person_id", stored.people)):
        ids: dict[int, int] = {number: int(found) for number, found in mine.items()}
        some, others = _listed(view, table), _listed(old, table)
        await tx.executemany(
            f"insert into voidbot.room_access_{table} (room_id, {column}, view, history) values ($1, $2, $3, $4)",
            [(at, ids[each], each in some, each in others) for each in sorted(some | others)],
        )


def _listed(reach: Reach, table: str) -> set[int]:
    return reach.roles if table == "roles" else reach.users


async def _say(tx: Tx, history: History, stored: Stored, n: int, now: datetime) -> None:
    who = next(iter(stored.people.values()))
    bot = await tx.fetchval(
        "insert into voidbot.people (platform, account_ref, is_bot) values ('w', $1, true) returning id", f"{n}:bot"
    )
    lines: list[tuple[int, frozenset[int] | None]] = [(number, None) for number in stored.rooms]
    lines += history.said
    for line, (number, sources) in enumerate(lines):
        text = f"{stored.word} said{n}x{line} in{number}"
        stored.said[text] = sources or frozenset({number})
        await archive.add_message(
            tx,
            archive.NewMessage(
                room_id=stored.rooms[number],
                community_id=stored.homes[history.heard.rooms[number].home],
                author_id=who if sources is None else PersonId(bot),
                platform_ref=f"m{line}",
                kind="text" if sources is None else archive.OWN_KIND,
                text=text,
                sent_at=now,
                sources=None if sources is None else [stored.rooms[each] for each in sources],
            ),
        )


async def embed_all(database: Database, vectors: PgVectorStore, embedder: WordEmbedder) -> int:
    """Make every vector that waits; return how many were made."""
    made = 0
    while True:
        async with database.transaction(durable=False) as tx:
            waiting = await embeddings.list_waiting(tx, embedder.model, 500)
        if not waiting:
            return made
        texts = [each.text or "." for each in waiting]
        rows: Sequence[VectorRow] = [
            VectorRow(
                unit_id=each.unit_id, community_id=each.community_id, room_id=each.room_id,
                message_id=each.message_id, author_id=each.author_id, sent_at=each.sent_at, kind=each.kind,
                unit_hash=each.own_hash, vector=vector,
            )
            for each, vector in zip(waiting, await embedder.embed(texts), strict=True)
            if each.room_id is not None and each.sent_at is not None
        ]  # fmt: skip
        await vectors.upsert(embedder.model, rows)
        async with database.transaction(durable=False) as tx:
            await embeddings.settle(tx, embedder.model, waiting)
        made += len(rows)
