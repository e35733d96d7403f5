"""Sleep: while the mind naps, the notes of the day become lasting memory or go with a reason; nothing else is lost.

A model proposes, for some notes at a time; what it proposes stands as a whole or not at all. It never speaks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import structlog

from core.chat.likening import Likening
from core.domain.clusters import clusters, packed
from core.domain.ids import RoomId
from core.domain.mind.entries import Entry
from core.domain.mind.values import EntryId, Thought
from core.domain.passes import Advance, Origin, PassName, Phase, PhaseResult, Run, RunState, Skip, SkipReason
from core.jobs.executor import JobContext
from core.passes.asking import Gathered, PassAsking, read_answer
from core.passes.bedtime import Bedtime
from core.passes.dreaming import DEALT, LOOKED_AT, MOST_TRIES, Dreaming
from core.passes.gate import Gate, Opened
from core.passes.heaps import Heap, load_heaps
from core.passes.night import Night, gathered, proof_of, related
from core.passes.runner import Called, Inside, Outside, PassSpec
from core.passes.screening import Piece
from core.passes.weighing import compare, read_sources
from core.ports import Clock
from core.state.service import StateService
from core.store import mind_views, passes, places
from core.store.engine import Tx

log = structlog.get_logger()

ROLE = "sleep"
EVERY = timedelta(hours=1)
"""From which runs that keep failing become rarer; naps are further apart than this makes them at first."""
MOST_CALLS = 6
"""How often a model is asked in one nap and group, where each answer so far did stand; the rest waits for the next."""
ALMOST_FULL = 44
"""From how many notes of one audience on the operator is told that nobody makes memory of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """What sleep needs; one for the process. `likening`: says by an embedder how much of its notes a memory keeps."""

    gate: Gate
    asking: PassAsking
    minds: StateService
    likening: Likening
    clock: Clock

    @property
    def dreaming(self) -> Dreaming:
        """What decides about answers."""
        return Dreaming(self.minds, self.asking.catalog.roles[ROLE])

    def spec(self) -> PassSpec:
        """Return its phases."""
        bedtime = Bedtime(self.minds, self.gate.groups)
        phases: Mapping[Phase, Inside | Outside] = {
            Phase.GATE: Inside(self._gate, durable=False),
            Phase.ASK: Outside(self._ask),
            Phase.APPLY: Outside(self._apply, durable=False),
            Phase.RECORD: Inside(bedtime.record, durable=False),
        }
        return PassSpec(PassName.SLEEP, phases, ended=bedtime.ended)

    async def _gate(self, tx: Tx, run: Run) -> PhaseResult:
        opened = await self.gate.open(
            tx, run, self._look, every=EVERY, draw=lambda seen: self.asking.worst_draw(run, seen.place.home, ROLE)
        )
        if isinstance(opened, Skip):
            return opened
        heaps = await self._heaps(tx, run)
        asks = any(heap.notes for heap in heaps) or bool(await self._new_doubts(tx, run, heaps))
        return Advance({"read": sum(heap.pressure for heap in heaps)}, None if asks else Phase.RECORD)

    async def _look(self, tx: Tx, run: Run, _: Opened) -> Skip | None:
        sleep, now = await mind_views.find_sleep(tx, run.mind_id), self.clock.now()
        napping = sleep.is_napping and sleep.nap_ends_at is not None and now < sleep.nap_ends_at
        if run.origin is not Origin.MANUAL and not (napping and run.slot_key.endswith(f"/{sleep.nap_id}")):
            return Skip(SkipReason.NOT_DUE)
        heaps = await self._heaps(tx, run)
        most = max((len(heap.notes) for heap in heaps), default=0)
        asks = most > 0 or bool(await self._new_doubts(tx, run, heaps))
        if not asks and not any(heap.over(now) for heap in heaps):
            return Skip(SkipReason.NOTHING_NEW)
        if asks and not self.asking.has_model(ROLE):
            if most >= ALMOST_FULL:
                log.warning("sleep.notes_pile_up", mind=run.mind_id, group=run.group, notes=most)
            return Skip(SkipReason.NO_MODEL)
        return None

    async def _ask(self, ctx: JobContext, run: Run) -> Called:
        if not self.asking.has_model(ROLE):  # there was one as the run began
            return _saving(Skip(SkipReason.NO_MODEL))
        return await self.asking.ask(ctx, run, ROLE, self.gather)

    async def gather(self, tx: Tx, run: Run) -> Gathered | PhaseResult:
        """Return what the next call is shown; that there is nothing left, or that the pass is held back by now."""
        now = self.clock.now()
        held = await self.gate.held_back(tx, run, now)
        place = await passes.find_place(tx, run.mind_id, run.group)
        if held is not None or place is None:
            return held or Skip(SkipReason.NO_ROOMS)
        night = await self._next(tx, run, now, ZoneInfo(place.zone))
        if night is None:
            return Advance(to=Phase.RECORD)
        memories = await related(tx, run.mind_id, night, await self.gate.groups.load(tx, run.mind_id))
        rooms = await places.list_mind_rooms(tx, run.mind_id)
        names: dict[RoomId, str] = {room.id: room.name for room in rooms if room.id in night.heap.rooms}
        return gathered(night, memories, await proof_of(tx, night, memories), names)

    async def _apply(self, ctx: JobContext, run: Run) -> Called:
        async def load(tx: Tx) -> tuple[Sequence[Piece], dict[EntryId, Thought]]:
            answer = await read_answer(tx, run, self.dreaming.role)
            items = () if answer is None else answer.items
            return items, await read_sources(tx, run.mind_id, items)

        items, sources = await ctx.advance(load, durable=False)
        similarity = await compare(self.likening, items, sources)

        async def save(tx: Tx, held: Run) -> PhaseResult:
            return await self.dreaming.decide(tx, held, similarity)

        return Called(save)

    async def _next(self, tx: Tx, run: Run, now: datetime, zone: ZoneInfo) -> Night | None:
        """Return what the next call is to deal with; None if nothing is left for this nap."""
        done = await passes.get(tx, run.id, DEALT) or {"notes": [], "doubted": []}
        if run.asks >= MOST_CALLS:
            return None
        must = run.origin is not Origin.MANUAL
        heaps = await self._heaps(tx, run)
        for heap in heaps:
            notes = [entry for entry in heap.notes if entry.id not in done["notes"]]
            if notes:
                doubted = [entry for entry in heap.doubted if entry.id not in done["doubted"]]
                return Night(
                    heap=heap, clusters=packed(clusters(notes)), doubted=doubted, must=must, now=now, zone=zone
                )
        new = {entry.id for entry in await self._new_doubts(tx, run, heaps)} - set(done["doubted"])
        for heap in heaps if run.asks < MOST_TRIES else ():
            doubted = [entry for entry in heap.doubted if entry.id in new]
            if doubted:
                return Night(heap=heap, clusters=(), doubted=doubted, must=must, now=now, zone=zone)
        return None

    async def _heaps(self, tx: Tx, run: Run) -> list[Heap]:
        return await load_heaps(tx, run.mind_id, self.gate.groups, run.group)

    async def _new_doubts(self, tx: Tx, run: Run, heaps: Sequence[Heap]) -> list[Entry]:
        """Return what has come into doubt since a model last looked at this group: what it left then it would again."""
        earlier = await passes.list_runs(
            tx, mind_id=run.mind_id, name=run.name, group=run.group, before=run.id, limit=LOOKED_AT
        )
        looked = [each.created_at for each in earlier if each.state is RunState.FINISHED and each.asks]
        doubted = [entry for heap in heaps for entry in heap.doubted]
        return [entry for entry in doubted if not looked or entry.updated_at > looked[0]]


def _saving(result: PhaseResult) -> Called:
    async def save(_: Tx, __: Run) -> PhaseResult:
        return result

    return Called(save)
