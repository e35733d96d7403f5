"""Every predicate of the audience in SQL carries weight: without any one of them a check of this suite fails."""

import copy
import inspect
import random
from datetime import UTC, datetime
from types import ModuleType

import pytest

from core.domain import audience
from core.domain.audience import InRoom, readable_rooms
from core.domain.ids import MessageId
from core.retrieval.indexing import index_all
from core.store import access, addresses, archive, lore_search, unit_search, units
from core.store.engine import Database, Tx
from core.store.unit_search import Filter, Term
from tests.audience.stored import store
from tests.audience.worlds import live, told, venues
from tests.store.test_units import Town

NOW = datetime(2026, 11, 1, tzinfo=UTC)
CUTS: dict[ModuleType, tuple[tuple[str, ...], ...]] = {
    access: (
        ("r.state = 'active' and c.state", "c.state"),
        ("c.state = 'active' and coalesce", "coalesce"),
        (" and coalesce(p.state, 'active') = 'active'", ""),
        ("case when r.kind in ('thread_public', 'forum_post', 'topic') then p.id else r.id end", "r.id"),
        ("c.access_state = 'stale' as stale", "false as stale"),
        ("coalesce(a.known, false) as known", "true as known"),
        (  # either of the two would do
            "where c.mind_id = (select mind_id from home))", "where true)",
            "\n  and c.mind_id = (select mind_id from voidbot.communities where id = $1)\"\"\"", "\n  and $1 > 0\"\"\"",
        ),
        ("where u.room_id = here.by and u.view", "where u.room_id = here.by"),
        ("where u.room_id = here.by and u.history", "where u.room_id = here.by"),
        ("where l.room_id = here.by and l.view", "where l.room_id = here.by"),
        ("where l.room_id = here.by and l.history", "where l.room_id = here.by"),
        ("where m.left_at is null and m.person_id", "where m.person_id"),
        (" and h.valid_to is null", ""),
        (" and r.deleted_at is null) as held", ") as held"),
    ),
    archive: (
        ("m.room_id = any($1::bigint[]) and m.deleted_at", "$1::bigint[] is not null and m.deleted_at"),
        ("m.deleted_at is null and not p.opted_out\n", "not p.opted_out\n"),
        ("m.deleted_at is null and not p.opted_out\n", "m.deleted_at is null\n"),
        ("(m.sources is null or m.sources <@ $1::bigint[])", "true"),
    ),
    unit_search: (
        ("u.room_id = any($2::bigint[]) and", "$2::bigint[] is not null and"),
        ("(u.sources is null or u.sources <@ $3::bigint[])", "$3::bigint[] is not null"),
        (" and q.room_id = any($2::bigint[])", ""),
        ("m.author_id and not p.opted_out join", "m.author_id join"),
        ("d.room_id = any($1::bigint[]) and", ""),
        ("from voidbot.index_stats where room_id = any($1::bigint[])", "from voidbot.index_stats"),
        ("and (b.fresh or m.index_state <> 'queued')", ""),
    ),
    lore_search: (
        (" and r.room_id = any($1::bigint[])", " and $1::bigint[] is not null"),
        (" on h.id = c.community_id\n", " on true\n"),
        ("voidbot.rooms r where r.id = any($1::bigint[]))", "voidbot.rooms r where $1::bigint[] is not null)"),
        ("and (s.all_rooms or exists", "and (true or exists"),
        (" and d.room_id = any($1::bigint[])", " and $1::bigint[] is not null"),
        ("from voidbot.index_stats where room_id = any($1::bigint[])", "from voidbot.index_stats"),
    ),
    addresses: (
        (" and m.room_id = any($2::bigint[])", " and $2::bigint[] is not null"),
        (" and m.deleted_at is null", ""),
        (" and not p.opted_out", ""),
    ),
}  # fmt: skip
"""What is cut out of each module, and what is left in its place."""
MODULES = tuple(CUTS)


def mutant(module: ModuleType, cut: tuple[str, ...] = ()) -> ModuleType:
    """Return the module with one predicate less."""
    source = inspect.getsource(module)
    for old, new in zip(cut[::2], cut[1::2], strict=True):
        assert old in source, old  # a statement that was rewritten needs its cuts rewritten
        source = source.replace(old, new)
    changed = ModuleType("mutated_store")
    changed.__dict__.update(copy.copy(module.__dict__))
    exec(compile(source, "mutated_store", "exec"), changed.__dict__)  # noqa: S102  # our own source, one predicate less
    return changed


async def is_right(database: Database, module: ModuleType, which: ModuleType) -> bool:
    """Return whether a module's statements show what they should; nothing of what is tried stays."""
    checks = {access: _access, archive: _archive, unit_search: _units, lore_search: _lore, addresses: _addresses}
    right = False
    try:
        async with database.transaction(durable=False) as tx:
            right = await checks[which](tx, module)
            raise _Undo
    except _Undo:
        return right


class _Undo(Exception):
    """What was tried is taken back."""


async def _access(tx: Tx, module: ModuleType) -> bool:
    rng = random.Random(31)
    for n in range(40):
        history = live(rng)
        stored = await store(tx, history, n, NOW)
        person = next(iter(stored.people.values()))
        # What is over opens nothing: a membership, a role that was taken, a role that is gone.
        for community in stored.homes.values():
            await tx.execute(
                "insert into voidbot.memberships (community_id, person_id, left_at) values ($1, $2, voidbot.now())",
                community, person,
            )  # fmt: skip
        for role in stored.roles.values():
            await tx.execute(
                "insert into voidbot.membership_roles (person_id, role_id, valid_to) values ($1, $2, voidbot.now())",
                person, role,
            )  # fmt: skip
        if n % 5 == 0:
            every = list(stored.roles.values())
            await tx.execute("update voidbot.roles set deleted_at = voidbot.now() where id = any($1::bigint[])", every)
            for held in history.heard.held.values():
                held.clear()
        world = told(history.truth, history.heard, audience)
        for venue in venues(history.truth, audience):
            home = history.truth.rooms[int(venue.room_id)].home if isinstance(venue, InRoom) else 1
            found = await module.list_readable(tx, stored.homes[home], stored.venue(venue), None)
            mind = history.truth.minds[home]
            if found != {
                stored.rooms[int(room)]
                for room in readable_rooms(venue, None, world)
                if history.truth.minds[history.truth.rooms[int(room)].home] == mind
            }:
                return False
    return True


async def _town(tx: Tx) -> Town:
    """Two rooms of which the first is readable; in it words of others, of a tombstone, of one who opted out."""
    town = await Town.found(tx)
    await town.say("Ana", "lantern one")
    await town.say("Ana", "lantern two", 1)
    await town.say("Ana", "lantern three, borrowed", sources=[town.rooms[0], town.rooms[1]])
    await town.say("Shy", "lantern four")
    await town.say("Ana", "lantern five, edited")
    return town


async def _spoil(tx: Tx, town: Town) -> None:
    await tx.execute("update voidbot.people set opted_out = true where id = $1", town.people["Shy"])
    await tx.execute("update voidbot.messages set deleted_at = voidbot.now() where platform_ref = 'm5'")


async def _archive(tx: Tx, module: ModuleType) -> bool:
    town = await _town(tx)
    await _spoil(tx, town)
    rooms, every = [town.rooms[0]], [MessageId(row["id"]) for row in await tx.fetch("select id from voidbot.messages")]
    read = {message.platform_ref for message in (await module.read_messages(tx, rooms, every)).values()}
    since = datetime(2026, 1, 1, tzinfo=UTC)
    lines = {each.platform_ref for each in await module.list_transcript(tx, rooms, rooms[0], limit=9, since=since)}
    return read == {"m1"} == lines


async def _addresses(tx: Tx, module: ModuleType) -> bool:
    town = await _town(tx)
    await _spoil(tx, town)
    refs = {row["id"]: row["platform_ref"] for row in await tx.fetch("select id, platform_ref from voidbot.messages")}
    found = await module.links_of(tx, list(refs), [town.rooms[0]])
    return {refs[each] for each in found} == {"m1", "m3"}  # a link leads into its room, whatever it was made from


async def _found(tx: Tx, module: ModuleType, town: Town, word: str = "lantern") -> set[str]:
    narrowed = Filter(community_id=town.community, rooms=[town.rooms[0]], readable=[town.rooms[0]], languages=["en"])
    units = await module.search_units(tx, f"'{word}'", [Term((word,), 1.0)], 1.0, narrowed, limit=99)
    refs = {row["id"]: row["platform_ref"] for row in await tx.fetch("select id, platform_ref from voidbot.messages")}
    return {refs[each.message_id] for each in units}


async def _units(tx: Tx, module: ModuleType) -> bool:
    town = await _town(tx)
    waiting = await _found(tx, module, town) == {"m1", "m4", "m5"}
    await tx.execute("update voidbot.people set opted_out = true where id = $1", town.people["Shy"])
    waiting = waiting and await _found(tx, module, town) == {"m1", "m5"}
    await index_all(tx)
    await archive.edit_message(tx, town.rooms[0], "m5", "something else", datetime(2026, 12, 1, tzinfo=UTC))
    indexed = await _found(tx, module, town) == {"m1"}
    terms = await module.read_terms(tx, [town.rooms[0]], ["en"], "lantern", [])
    counted = (terms.df, terms.units) == ((2,), 2)
    for n in range(unit_search.UNINDEXED + 1):  # what waits elsewhere takes no place from what waits here
        await town.say("Ana", f"kettle {n}", 1)
    await town.say("Ana", "kettle here", sent_at=NOW.replace(year=2025))
    return waiting and indexed and counted and await _found(tx, module, town, "kettl") == {f"m{town.said}"}


async def _lore(tx: Tx, module: ModuleType) -> bool:
    town = await _town(tx)
    other = await tx.fetchval(
        "insert into voidbot.communities (platform, chat_ref, mind_id) values ('w', 'w', 'w') returning id"
    )
    for n, (home, room, everywhere) in enumerate(
        ((town.community, 0, False), (town.community, 1, False), (town.community, None, False),
         (town.community, None, True), (other, None, True))
    ):  # fmt: skip
        source = await tx.fetchval(
            "insert into voidbot.sources (kind, location, name, all_rooms)"
            " values ('folder', '/x', $1, $2) returning id",
            f"s{n}", everywhere,
        )  # fmt: skip
        await tx.execute(
            "insert into voidbot.source_communities (source_id, community_id) values ($1, $2)", source, home
        )
        if room is not None:
            await tx.execute(
                "insert into voidbot.source_rooms (source_id, room_id) values ($1, $2)", source, town.rooms[room]
            )
        await tx.execute(
            "with f as (insert into voidbot.source_files (source_id, path, blob_hash)"
            " values ($1, 'p', $2) returning id)"
            " insert into voidbot.source_chunks"
            " (source_id, file_id, ordinal, line_start, line_end, blob_hash, text, len, tsv)"
            " select $1, f.id, 0, 1, 1, $2, $2, 1, to_tsvector('english', 'lantern') from f",
            source, f"h{n}",
        )  # fmt: skip
    await tx.execute(
        "insert into voidbot.rooms (community_id, platform, chat_ref, kind) values ($1, 'w', 'w', 'channel')", other
    )
    await index_all(tx)
    await units.count_words(tx, town.rooms[0])
    where = ([town.rooms[0]], town.community)
    hits = await module.search_chunks(tx, *where, "lantern kettle", 9)
    for n in range(9):  # what is said where one may not read weighs nothing
        await town.say("Ana", f"kettle {n}", 1)
    await index_all(tx)
    for room in town.rooms:
        await units.count_words(tx, room)
    again = await module.search_chunks(tx, *where, "lantern kettle", 9)
    rows = await tx.fetch("select id, source_id from voidbot.source_chunks")
    read = await module.read_chunks(tx, *where, [row["id"] for row in rows])
    named = await module.name_sources(tx, *where, [row["source_id"] for row in rows])
    found = [{hit.source for hit in hits}, {hit.source for hit in read.values()}, set(named.values())]
    return found == [{"s0", "s3"}] * 3 and hits == again


@pytest.mark.parametrize(
    "module",
    [pytest.param(each, marks=pytest.mark.long if each is access else ()) for each in MODULES],
    ids=lambda module: module.__name__,
)
async def test_the_statements_as_they_are_pass(database: Database, module: ModuleType) -> None:
    assert await is_right(database, mutant(module), module)


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "cut"), [(module, cut) for module, cuts in CUTS.items() for cut in cuts], ids=lambda each: str(each)[:60]
)
async def test_a_predicate_less_is_noticed(database: Database, module: ModuleType, cut: tuple[str, ...]) -> None:
    assert not await is_right(database, mutant(module, cut), module)
