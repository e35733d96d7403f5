"""Which vectors there should be: units and what waits for a vector store, for comparing with what the store holds."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.domain.ids import CommunityId, RoomId
from core.domain.vectors import EmbeddingModel, UnitId
from core.store.engine import Tx

_ROOMS = """
with waiting as (select q.unit_id, q.community_id from voidbot.embed_queue q where q.model = $1),
     gone as (select w.community_id, count(*) as units from waiting w
              where not exists (select 1 from voidbot.units u where u.id = w.unit_id) group by w.community_id)
select r.community_id, r.id as room_id, count(u.id) as units, count(w.unit_id) as waiting,
       coalesce(max(g.units), 0) as gone
from voidbot.rooms r
left join voidbot.units u on u.room_id = r.id
left join waiting w on w.unit_id = u.id
left join gone g on g.community_id = r.community_id
group by r.id order by r.id
"""
_AFTER = """
select u.id, u.community_id, u.own_hash, q.unit_id is not null as waits
from voidbot.units u left join voidbot.embed_queue q on q.model = $1 and q.unit_id = u.id
where u.id > $2 order by u.id limit $3
"""
_QUEUE = """
insert into voidbot.embed_queue (model, unit_id, community_id)
select $1, new.unit_id, new.community_id from unnest($2::bigint[], $3::bigint[]) as new (unit_id, community_id)
on conflict (model, unit_id) do nothing
"""


@dataclass(frozen=True, slots=True)
class RoomBooks:
    """A room's units. `waiting`: of them, those whose vector is to be made anew.

    `gone`: units of its community that are gone and whose vectors are still to be deleted; which rooms they were
    in is not known any more.
    """

    community_id: CommunityId
    room_id: RoomId
    units: int
    waiting: int
    gone: int

    def agrees_with(self, vectors: int) -> bool:
        """Return whether so many vectors are right, given what waits."""
        return self.units - self.waiting <= vectors <= self.units + self.gone


@dataclass(frozen=True, slots=True)
class UnitBooks:
    """A unit with the hash of the text that its vector is made from. `waits`: it is to be made anew already."""

    unit_id: UnitId
    community_id: CommunityId
    own_hash: str
    waits: bool


async def rooms(tx: Tx, model: EmbeddingModel) -> Sequence[RoomBooks]:
    """Return the books of every room, those without units too."""
    return [
        RoomBooks(CommunityId(row["community_id"]), RoomId(row["room_id"]), row["units"], row["waiting"], row["gone"])
        for row in await tx.fetch(_ROOMS, model.name)
    ]


async def last_unit(tx: Tx) -> UnitId:
    """Return the newest unit; 0 where there is none."""
    return UnitId(await tx.fetchval("select coalesce(max(id), 0) from voidbot.units"))


async def units_after(tx: Tx, model: EmbeddingModel, after: UnitId, limit: int) -> Sequence[UnitBooks]:
    """Return units in their order, those behind `after`."""
    return [
        UnitBooks(UnitId(row["id"]), CommunityId(row["community_id"]), row["own_hash"], row["waits"])
        for row in await tx.fetch(_AFTER, model.name, after, limit)
    ]


async def queue(tx: Tx, model: EmbeddingModel, units: Sequence[tuple[UnitId, CommunityId]]) -> int:
    """Have the vectors of these units made or deleted anew; return how many did not wait for that already."""
    return await tx.execute(_QUEUE, model.name, [unit for unit, _ in units], [community for _, community in units])
