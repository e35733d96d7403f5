"""Embedding models and what waits to be embedded. Only this module writes these tables; vectors stand elsewhere.

A unit waits here for each model that is written, from the transaction that made, changed or deleted it; a unit
that is gone by then is deleted from the vectors. Reads ask one model alone, whose vectors are complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.units import embedded_text
from core.domain.vectors import EmbeddingModel, UnitId
from core.store.engine import Tx
from core.store.units import BESIDE_CHARS


class ModelState(StrEnum):
    """How far a model's vectors are. One model is read at most; all but the dropped ones are written."""

    READING = "reading"
    BACKFILLING = "backfilling"
    VERIFIED = "verified"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model with its state."""

    model: EmbeddingModel
    state: ModelState


async def list_models(tx: Tx) -> list[StoredModel]:
    """Return every model that has or had vectors."""
    rows = await tx.fetch("select name, dimension, state from voidbot.embedding_models order by at, name")
    return [StoredModel(EmbeddingModel(r["name"], r["dimension"]), ModelState(r["state"])) for r in rows]


async def reading_model(tx: Tx) -> EmbeddingModel | None:
    """Return the model whose vectors are read."""
    row = await tx.fetchrow("select name, dimension from voidbot.embedding_models where state = 'reading'")
    return None if row is None else EmbeddingModel(row["name"], row["dimension"])


_QUEUE_ALL = """
insert into voidbot.embed_queue (model, unit_id, community_id)
select $1, id, community_id from voidbot.units on conflict (model, unit_id) do nothing"""


async def add_model(tx: Tx, model: EmbeddingModel) -> ModelState:
    """Have a model's vectors written from now on, and those of all units that are there.

    The first model is read at once: what it has not yet is found by words meanwhile. A further one is not read
    before it is complete.
    """
    known = {stored.model.name: stored for stored in await list_models(tx)}
    if model.name in known and known[model.name].state is not ModelState.DROPPED:
        return known[model.name].state
    first = all(stored.state is not ModelState.READING for stored in known.values())
    state = ModelState.READING if first else ModelState.BACKFILLING
    await tx.execute(
        "insert into voidbot.embedding_models (name, dimension, state) values ($1, $2, $3)"
        " on conflict (name) do update set dimension = $2, state = $3, at = voidbot.now()",
        model.name,
        model.dimension,
        state,
    )
    await tx.execute(_QUEUE_ALL, model.name)
    return state


async def set_state(tx: Tx, name: str, state: ModelState) -> None:
    """Move a model on; one that is dropped has nothing waiting any more."""
    await tx.execute("update voidbot.embedding_models set state = $2, at = voidbot.now() where name = $1", name, state)
    if state is ModelState.DROPPED:
        await tx.execute("delete from voidbot.embed_queue where model = $1", name)


async def switch_reading(tx: Tx, name: str) -> None:
    """Read this model's vectors from now on, as a whole; the one read before is written still."""
    await tx.execute("update voidbot.embedding_models set state = 'verified' where state = 'reading'")
    await set_state(tx, name, ModelState.READING)


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


# The newest first: what was just said is found before an old history is through.
_TAKE = """
select q.unit_id, q.community_id, q.queued_at, u.room_id, u.message_id, u.author_id, u.sent_at, u.own_hash, u.part,
       coalesce(u.kind, '') as kind,
       substr(m.text, u.quote_from + 1, coalesce(u.quote_to, length(m.text)) - u.quote_from) as words, coalesce(n.name, p.account_ref, '') as speaker,
       coalesce((select string_agg(concat_ws(' ', a.name, a.caption, a.extracted_text), ' ' order by a.ordinal)
                 from voidbot.attachments a where a.message_id = m.id), '') as beside
from (select * from voidbot.embed_queue where model = $1 order by unit_id desc limit $2) q
left join voidbot.units u on u.id = q.unit_id left join voidbot.messages m on m.id = u.message_id
left join voidbot.people p on p.id = u.author_id
left join voidbot.person_names n on n.person_id = p.id and n.kind = 'display' and n.valid_to is null
order by q.unit_id desc"""


async def list_waiting(tx: Tx, model: EmbeddingModel, limit: int) -> list[WaitingUnit]:
    """Return units that wait for this model, newest first."""
    return [
        WaitingUnit(
            unit_id=UnitId(row["unit_id"]),
            community_id=CommunityId(row["community_id"]),
            queued_at=row["queued_at"],
            text=None
            if row["message_id"] is None
            else embedded_text(row["speaker"], row["words"], "" if row["part"] else row["beside"][:BESIDE_CHARS]),
            room_id=row["room_id"],
            message_id=row["message_id"],
            author_id=row["author_id"],
            sent_at=row["sent_at"],
            kind=row["kind"],
            own_hash=row["own_hash"] or "",
        )
        for row in await tx.fetch(_TAKE, model.name, limit)
    ]


async def settle(tx: Tx, model: EmbeddingModel, done: Sequence[WaitingUnit]) -> None:
    """Take units from the queue, unless they have changed again since."""
    await tx.execute(
        "delete from voidbot.embed_queue q using unnest($2::bigint[], $3::timestamptz[]) d(id, at)"
        " where q.model = $1 and q.unit_id = d.id and q.queued_at = d.at",
        model.name,
        [each.unit_id for each in done],
        [each.queued_at for each in done],
    )


async def models_waiting(tx: Tx) -> list[str]:
    """Return the models for which something waits."""
    rows = await tx.fetch(
        "select m.name from voidbot.embedding_models m"
        " where exists (select 1 from voidbot.embed_queue q where q.model = m.name) order by m.name"
    )
    return [row["name"] for row in rows]


async def count_waiting(tx: Tx, name: str) -> int:
    """Return how many units wait for a model."""
    return int(await tx.fetchval("select count(*) from voidbot.embed_queue where model = $1", name))
