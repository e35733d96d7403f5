"""Nightly comparison of a vector store with the units in Postgres: what differs is queued anew and told."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from core.domain.vectors import EmbeddingModel, UnitId, VectorRow, VectorScope
from core.ports import VectorStore
from core.store import vector_books
from core.store.engine import Database
from core.store.vector_books import RoomBooks, UnitBooks

log = structlog.get_logger()

PARTS = 10
"""In so many nights every unit is compared once."""
AT_ONCE = 500
_END = UnitId(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found. `rooms`: those whose counts differ; `whole`: everything was scanned, not a tenth.

    `missing`: units without a vector; `stale`: vectors of an earlier text; `stray`: vectors without a unit.
    What waits for the job already is in none of them.
    """

    rooms: int = 0
    whole: bool = False
    scanned: int = 0
    missing: int = 0
    stale: int = 0
    stray: int = 0


class _Span(NamedTuple):
    """What both sides hold of the units behind `after` and up to `end`."""

    units: Sequence[UnitBooks]
    vectors: Sequence[VectorRow]
    end: UnitId


async def reconcile(
    database: Database, store: VectorStore, model: EmbeddingModel, *, part: int, at_once: int = AT_ONCE
) -> Compared:
    """Compare counts by room, then every vector of one tenth of the units, or of all where a count differs.

    What differs is queued for the job that makes and deletes vectors.

    Args:
        database: Holds the units.
        store: Is compared with them.
        model: Whose vectors; it must be one of `embedding_models`.
        part: Which tenth, from 0; the caller goes on by one each night. The last one has no upper end.
        at_once: How many vectors are read in one step.

    Raises:
        Unavailable: The store or the database did not answer; what was queued until then stays queued.
    """
    differing = await _differing(database, store, model)
    async with database.transaction(durable=False) as tx:
        last = await vector_books.last_unit(tx)
    size = last // PARTS + 1
    after, upper = UnitId(part % PARTS * size), UnitId((part % PARTS + 1) * size)
    if differing or part % PARTS == PARTS - 1:
        upper = _END
    if differing or part % PARTS == 0:
        after = UnitId(-1)
    found = Compared(rooms=len(differing), whole=bool(differing))
    while after < upper:
        span = await _read(database, store, model, after, upper, at_once)
        found = await _settle(database, model, span, found)
        after = span.end
    tell = log.warning if found.rooms or found.missing or found.stale or found.stray else log.info
    tell(
        "vectors.compared",
        model=model.name,
        rooms=found.rooms,
        whole=found.whole,
        scanned=found.scanned,
        missing=found.missing,
        stale=found.stale,
        stray=found.stray,
    )
    return found


async def _differing(database: Database, store: VectorStore, model: EmbeddingModel) -> Sequence[RoomBooks]:
    """Return the rooms whose counts differ, and differ still when asked again: people go on writing meanwhile."""
    wanted: set[int] | None = None
    differing: list[RoomBooks] = []
    for _ in range(2):
        async with database.transaction(durable=False, long=True) as tx:
            books = await vector_books.rooms(tx, model)
        differing = []
        for room in books:
            if wanted is None or room.room_id in wanted:
                scope = VectorScope(community_id=room.community_id, rooms=frozenset({room.room_id}))
                if not room.agrees_with(await store.count(model, scope)):
                    differing.append(room)
        wanted = {room.room_id for room in differing}
        if not wanted:
            break
    return differing


async def _read(
    database: Database, store: VectorStore, model: EmbeddingModel, after: UnitId, upper: UnitId, at_once: int
) -> _Span:
    """Read both sides up to where the shorter full page ends. The store first: a unit made meanwhile has no vector."""
    vectors = await store.scan(model, after, at_once)
    async with database.transaction(durable=False) as tx:
        units = await vector_books.units_after(tx, model, after, at_once)
    ends = [upper]
    if len(vectors) == at_once:
        ends.append(vectors[-1].unit_id)
    if len(units) == at_once:
        ends.append(units[-1].unit_id)
    end = min(ends)
    return _Span(
        [each for each in units if each.unit_id <= end], [each for each in vectors if each.unit_id <= end], end
    )


async def _settle(database: Database, model: EmbeddingModel, span: _Span, found: Compared) -> Compared:
    units = {each.unit_id for each in span.units}
    hashes = {each.unit_id: each.unit_hash for each in span.vectors}
    unmade = [each for each in span.units if not each.waits]
    missing = [each for each in unmade if each.unit_id not in hashes]
    stale = [each for each in unmade if hashes.get(each.unit_id, each.own_hash) != each.own_hash]
    gone = [each for each in span.vectors if each.unit_id not in units]
    stray = 0
    if missing or stale or gone:
        async with database.transaction() as tx:
            await vector_books.queue(tx, model, [(each.unit_id, each.community_id) for each in (*missing, *stale)])
            stray = await vector_books.queue(tx, model, [(each.unit_id, each.community_id) for each in gone])
    return replace(
        found,
        scanned=found.scanned + len(span.vectors),
        missing=found.missing + len(missing),
        stale=found.stale + len(stale),
        stray=found.stray + stray,
    )
