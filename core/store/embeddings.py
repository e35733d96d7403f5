"""Embedding models and what waits to be embedded. Only this module writes these tables; vectors stand elsewhere.

A unit waits here for each model that is written, from the transaction that made, changed or deleted it; a unit
that is gone by then is deleted from the vectors. Reads ask one model alone, whose vectors are complete.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.domain.errors import Misconfigured
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.units import embedded_text
from core.domain.vectors import EmbeddingModel, UnitId
from core.store.engine import Row, Tx
from core.store.units import BESIDE_CHARS


class ModelState(StrEnum):
    """How far a model's vectors are. One model is read at most; all but the dropped ones are written."""

    READING = "reading"
    BACKFILLING = "backfilling"
    VERIFIED = "verified"
    RETIRED = "retired"  # another one is read in its place; searches under way may ask it still
    DROPPING = "dropping"
    DROPPED = "dropped"


RETIRED_FOR_S = 60
"""How long a model stays whole after another one took its place: longer than any search remembers which is read."""
BACKLOG_STEP = 20_000


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model with its state. `queueing`: not all units that were there before it are queued yet."""

    model: EmbeddingModel
    state: ModelState
    queueing: bool = False


def _stored(row: Row) -> StoredModel:
    model = EmbeddingModel(row["name"], row["dimension"])
    return StoredModel(model, ModelState(row["state"]), row["backfilled_to"] is not None)


async def list_models(tx: Tx) -> list[StoredModel]:
    """Return every model that has or had vectors."""
    return [_stored(row) for row in await tx.fetch("select * from voidbot.embedding_models order by at, name")]


async def find_model(tx: Tx, name: str) -> StoredModel | None:
    """Return a model by its name; None if it never had vectors."""
    row = await tx.fetchrow("select * from voidbot.embedding_models where name = $1", name)
    return None if row is None else _stored(row)


async def reading_model(tx: Tx) -> EmbeddingModel | None:
    """Return the model whose vectors are read."""
    row = await tx.fetchrow("select name, dimension from voidbot.embedding_models where state = 'reading'")
    return None if row is None else EmbeddingModel(row["name"], row["dimension"])


async def next_unsettled(tx: Tx) -> StoredModel | None:
    """Return the model that has a step to take: units to queue first, then the one that is not read yet."""
    row = await tx.fetchrow(
        "select * from voidbot.embedding_models where backfilled_to is not null and state in"
        " ('reading', 'backfilling') or state in ('backfilling', 'verified') order by backfilled_to is null, at limit 1"
    )
    return None if row is None else _stored(row)


async def add_model(tx: Tx, model: EmbeddingModel) -> StoredModel:
    """Have a model's vectors written from now on; `queue_backlog` queues those of the units that are there.

    The first model is read at once: what it has not yet is found by words meanwhile. A further one is not read
    before it is complete. Another one that was on its way gives way to it.

    Raises:
        Misconfigured: The same name has vectors of another dimension.
    """
    await tx.execute("select pg_advisory_xact_lock(hashtext('voidbot.embedding_models'))")
    await tx.execute(
        "update voidbot.embedding_models set state = 'retired', backfilled_to = null, at = voidbot.now()"
        " where state in ('backfilling', 'verified') and name <> $1",
        model.name,
    )
    known = await find_model(tx, model.name)
    if known is not None and known.model != model and known.state is not ModelState.DROPPED:
        raise Misconfigured(
            "embeddings: this model's name has vectors of another dimension; give the model another name",
            model=model.name,
            asked=model.dimension,
            held=known.model.dimension,
        )
    if known is not None and known.state in (ModelState.READING, ModelState.BACKFILLING, ModelState.VERIFIED):
        return known
    state = ModelState.READING if await reading_model(tx) is None else ModelState.BACKFILLING
    await tx.execute(
        "insert into voidbot.embedding_models (name, dimension, state, backfilled_to) values ($1, $2, $3, 0)"
        " on conflict (name) do update set dimension = $2, state = $3, backfilled_to = 0, trouble = '',"
        " at = voidbot.now()",
        model.name,
        model.dimension,
        state,
    )
    return StoredModel(model, state, queueing=True)


_BACKLOG = """
with model as (
    select name, backfilled_to from voidbot.embedding_models
    where name = $1 and backfilled_to is not null and state in ('reading', 'backfilling') for update),
found as (
    select u.id, u.community_id from voidbot.units u, model m where u.id > m.backfilled_to order by u.id limit $2),
queued as (
    insert into voidbot.embed_queue (model, unit_id, community_id) select $1, id, community_id from found
    on conflict (model, unit_id) do nothing)
update voidbot.embedding_models e
set backfilled_to = case when (select count(*) from found) = $2 then (select max(id) from found) end
from model m where e.name = m.name returning e.backfilled_to is not null as more"""


async def queue_backlog(tx: Tx, name: str, *, limit: int = BACKLOG_STEP) -> bool:
    """Queue the next units that were there before the model; return whether there may be more."""
    return bool(await tx.fetchval(_BACKLOG, name, limit))


async def set_state(tx: Tx, name: str, state: ModelState) -> None:
    """Move a model on."""
    await tx.execute("update voidbot.embedding_models set state = $2, at = voidbot.now() where name = $1", name, state)


_LAGS = """
select exists (
    select from voidbot.embed_queue new where new.model = $1 and not exists (
        select from voidbot.embed_queue old join voidbot.embedding_models m on m.name = old.model
        where m.state = 'reading' and old.unit_id = new.unit_id))"""


async def lags(tx: Tx, name: str) -> bool:
    """Return whether the model lacks a vector that the model that is read has."""
    return bool(await tx.fetchval(_LAGS, name))


async def switch_reading(tx: Tx, name: str) -> bool:
    """Read this verified model's vectors from now on, as a whole; the one read before is written still.

    Returns:
        False if nothing was changed: it lacks a vector that the other one has, or is not wanted any more.
    """
    await tx.execute("select pg_advisory_xact_lock(hashtext('voidbot.embedding_models'))")
    known = await find_model(tx, name)
    if known is None or known.state is not ModelState.VERIFIED or await lags(tx, name):
        return False
    await tx.execute(
        "update voidbot.embedding_models set state = 'retired', at = voidbot.now() where state = 'reading'"
    )
    await set_state(tx, name, ModelState.READING)
    return True


async def let_go(tx: Tx) -> int:
    """Have the models dropped that no search can ask any more; return how many there are."""
    return await tx.execute(
        "update voidbot.embedding_models set state = 'dropping', at = voidbot.now()"
        " where state = 'retired' and at < voidbot.now() - make_interval(secs => $1)",
        RETIRED_FOR_S,
    )


async def end_model(tx: Tx, name: str) -> None:
    """Note that a model's vectors are gone, and take what waits for it, unless it is wanted again."""
    await tx.execute(
        "update voidbot.embedding_models set state = 'dropped', trouble = '', at = voidbot.now()"
        " where name = $1 and state = 'dropping'",
        name,
    )
    await tx.execute(
        "delete from voidbot.embed_queue q using voidbot.embedding_models m"
        " where q.model = $1 and m.name = q.model and m.state = 'dropped'",
        name,
    )


async def note_trouble(tx: Tx, name: str, trouble: str) -> None:
    """Keep in words what keeps a model's vectors from being made; empty: nothing any more."""
    await tx.execute(
        "update voidbot.embedding_models set trouble = $2 where name = $1 and trouble <> $2", name, trouble
    )


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """How far a model is. `oldest_s`: how long something has waited at most; `units`: about how many there are."""

    model: EmbeddingModel
    state: ModelState
    waiting: int
    oldest_s: float
    units: int
    trouble: str


_FIGURES = """
select m.name, m.dimension, m.state, m.trouble, q.waiting, q.oldest_s,
       coalesce((select sum(units) from voidbot.index_stats), 0)::bigint as units
from voidbot.embedding_models m cross join lateral (
    select count(*) as waiting,
           coalesce(extract(epoch from voidbot.now() - min(queued_at)), 0)::float8 as oldest_s
    from voidbot.embed_queue where model = m.name) q
where m.state <> 'dropped' order by m.state <> 'reading', m.at"""


async def list_figures(tx: Tx) -> list[ModelFigures]:
    """Return how far each model is that is written, the one that is read first."""
    return [
        ModelFigures(
            model=EmbeddingModel(row["name"], row["dimension"]),
            state=ModelState(row["state"]),
            waiting=row["waiting"],
            oldest_s=row["oldest_s"],
            units=row["units"],
            trouble=row["trouble"],
        )
        for row in await tx.fetch(_FIGURES)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingUnit:
    """A unit that waits for its vector. `text` None: it is gone, and so its vector has to."""

    unit_id: UnitId
    community_id: CommunityId
    queued_at: datetime
    text: str | None
    room_id: RoomId | None
    message_id: MessageId | None
    author_id: PersonId | None
    sent_at: datetime | None
    kind: str
    own_hash: str


_TEXTS = """
select q.unit_id, q.community_id, q.queued_at, u.room_id, u.message_id, u.author_id, u.sent_at, u.own_hash, u.part,
       coalesce(u.kind, '') as kind,
       substr(m.text, u.quote_from + 1, coalesce(u.quote_to, length(m.text)) - u.quote_from) as words,
       coalesce(n.name, p.account_ref, '') as speaker,
       coalesce((select string_agg(concat_ws(' ', a.name, a.caption, a.extracted_text), ' ' order by a.ordinal)
                 from voidbot.attachments a where a.message_id = m.id), '') as beside
from {source} q
left join voidbot.units u on u.id = q.unit_id left join voidbot.messages m on m.id = u.message_id
left join voidbot.people p on p.id = u.author_id
left join voidbot.person_names n on n.person_id = p.id and n.kind = 'display' and n.valid_to is null
order by q.unit_id desc"""
# The newest first: what was just said is found before an old history is through.
_TAKE = _TEXTS.format(source="(select * from voidbot.embed_queue where model = $1 order by unit_id desc limit $2)")
_ALL_OVER = """
select distinct u.id as unit_id, u.community_id, u.sent_at as queued_at
from (select coalesce(max(id), 0) as id from voidbot.units) last
cross join generate_series(1, $2::bigint) n
cross join lateral (
    select * from voidbot.units each where each.id >= last.id * n.n / $2 order by each.id limit 1) u
where not exists (select from voidbot.embed_queue w where w.model = $1 and w.unit_id = u.id)"""
_SAMPLE = _TEXTS.format(source=f"({_ALL_OVER})")


async def list_waiting(tx: Tx, model: EmbeddingModel, limit: int) -> list[WaitingUnit]:
    """Return units that wait for this model, newest first."""
    return [_waiting(row) for row in await tx.fetch(_TAKE, model.name, limit)]


async def sample_units(tx: Tx, model: EmbeddingModel, count: int) -> list[WaitingUnit]:
    """Return at most so many units whose vectors are made, from all over the archive; no draw of lots."""
    return [_waiting(row) for row in await tx.fetch(_SAMPLE, model.name, count)]


def _waiting(row: Row) -> WaitingUnit:
    beside = "" if row["part"] else row["beside"][:BESIDE_CHARS]
    return WaitingUnit(
        unit_id=UnitId(row["unit_id"]),
        community_id=CommunityId(row["community_id"]),
        queued_at=row["queued_at"],
        text=None if row["message_id"] is None else embedded_text(row["speaker"], row["words"], beside),
        room_id=row["room_id"],
        message_id=row["message_id"],
        author_id=row["author_id"],
        sent_at=row["sent_at"],
        kind=row["kind"],
        own_hash=row["own_hash"] or "",
    )


async def settle(tx: Tx, model: EmbeddingModel, done: Sequence[WaitingUnit]) -> None:
    """Take units from the queue, unless they have changed again since."""
    await tx.execute(
        "delete from voidbot.embed_queue q using unnest($2::bigint[], $3::timestamptz[]) d(id, at)"
        " where q.model = $1 and q.unit_id = d.id and q.queued_at = d.at",
        model.name,
        [each.unit_id for each in done],
        [each.queued_at for each in done],
    )


async def models_with_work(tx: Tx, names: Collection[str]) -> list[str]:
    """Return those of these models for which something waits, and every model that is to be dropped."""
    rows = await tx.fetch(
        "select m.name from voidbot.embedding_models m where m.state = 'dropping' or m.name = any($1::text[])"
        " and exists (select from voidbot.embed_queue q where q.model = m.name) order by m.name",
        sorted(names),
    )
    return [row["name"] for row in rows]


async def count_waiting(tx: Tx, name: str) -> int:
    """Return how many units wait for a model."""
    return int(await tx.fetchval("select count(*) from voidbot.embed_queue where model = $1", name))


async def queue_anew(tx: Tx, room_id: RoomId) -> int:
    """Have a room's vectors made anew, by every model that is written; return how many."""
    return await tx.execute(
        "insert into voidbot.embed_queue (model, unit_id, community_id) select m.name, u.id, u.community_id"
        " from voidbot.units u cross join voidbot.embedding_models m"
        " where m.state in ('reading', 'backfilling', 'verified')"
        " and u.room_id = $1"
        " on conflict (model, unit_id) do update set queued_at = voidbot.now()",
        room_id,
    )
