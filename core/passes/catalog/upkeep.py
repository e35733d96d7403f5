"""Upkeep of one mind: what is over ends, what is too old or too much goes, and the journal is told anew each night.

No model is asked. Each task is a transaction of its own and may run twice; what one run leaves, the next one does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from zoneinfo import ZoneInfo

import structlog

from core.domain.mind.codes import Accepted, Rejected
from core.domain.mind.facts import Actor, Emitter, Facts
from core.domain.mind.view import View
from core.domain.operations.batch import Batch, Item
from core.domain.operations.keeping import SUPPORTING
from core.domain.passes import Advance, PassName, Phase, PhaseResult, Run, Skip
from core.domain.tidying import (
    EVICTED,
    MOST,
    RECEIPTS_COUNT,
    TOMBSTONES_SPEAK,
    UNTOUCHED,
    Earlier,
    Planned,
    Task,
    awake,
    crowded,
    due,
    evictions,
    over,
    retiring,
    scrubbing,
)
from core.jobs.executor import JobContext, Observe
from core.passes.gate import Gate, Opened
from core.passes.planning import UPKEEP_EVERY
from core.passes.runner import Called, Inside, Outside, PassSpec
from core.ports import Clock
from core.state.replay import Replayed, SlicedReplay
from core.state.service import StateService
from core.store import budgets, mind_facts, mind_keeping, pass_books, passes, state
from core.store.engine import Tx

log = structlog.get_logger()

REMEMBERED = 200
"""How many earlier runs are looked at for when a task was done: eight days of them."""
PRUNED = 1000
"""How many old runs one run deletes."""
VERIFY_S = 40.0
"""How long a journal is folded; less than any phase may take. At 2,370 operations a second that is 90,000 of them."""
LASTING = ("verify_wrong", "verify_unfinished")
"""What was found in the night, which stands until the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MindUpkeep:
    """What upkeep of minds needs. `verify_s`: how long a journal may be folded."""

    gate: Gate
    minds: StateService
    clock: Clock
    observe: Observe
    verify_s: float = VERIFY_S

    def spec(self) -> PassSpec:
        """Return its phases."""
        return PassSpec(PassName.UPKEEP, {Phase.GATE: Inside(self._gate), Phase.APPLY: Outside(self._apply)})

    async def _gate(self, tx: Tx, run: Run) -> PhaseResult:
        opened = await self.gate.open(tx, run, _always, every=UPKEEP_EVERY, grouped=False)
        return opened if isinstance(opened, Skip) else Advance()

    async def _apply(self, ctx: JobContext, run: Run) -> Called:
        """Do what is due, task by task: nothing is called, but one transaction for all would hold the mind too long."""
        earlier, tasks = await ctx.advance(partial(self._due, run=run), durable=False)
        counts: Counter[str] = Counter()
        for task in tasks:
            match task:
                case Task.EXPIRY:
                    counts += await ctx.advance(partial(self._expire, run=run))
                case Task.RECEIPTS:
                    counts += await ctx.advance(partial(self._retire_receipts, run=run))
                case Task.MEMORY:
                    counts += await ctx.advance(partial(self._make_room, run=run))
                case Task.RUNS:
                    counts += await ctx.advance(partial(_prune, run=run))
                case Task.VERIFY:
                    counts += await self._verify(ctx, run)

        async def save(tx: Tx, run: Run) -> PhaseResult:
            return Advance(dict(counts) | await _digest(tx, run, counts, earlier))

        return Called(save)

    async def _due(self, tx: Tx, run: Run) -> tuple[Sequence[Earlier], Sequence[Task]]:
        earlier = await pass_books.list_counts(tx, run.mind_id, PassName.UPKEEP, Phase.APPLY, REMEMBERED)
        place = await passes.find_place(tx, run.mind_id)
        return earlier, () if place is None else due(earlier, await state.now(tx), ZoneInfo(place.zone))

    async def _expire(self, tx: Tx, run: Run) -> Counter[str]:
        mind = await state.lock_mind(tx, run.mind_id)
        held = await state.list_live(tx, mind.id, ("candidate", "proposal"))
        waiting = [each.entry for each in held]
        waiting += await mind_keeping.list_untouched(tx, mind.id, "case", mind.now - UNTOUCHED, MOST)
        ending = over(waiting, mind.now)[:MOST]
        waking = awake(waiting, mind.now)[: MOST - len(ending)]
        # That a candidate's time has come is for the bookkeeping to say, as its sending is.
        return await self._propose(tx, run, "expiry", ending) + await self._propose(
            tx, run, "waking", waking, by=Emitter.PARENT
        )

    async def _retire_receipts(self, tx: Tx, run: Run) -> Counter[str]:
        mind = await state.lock_mind(tx, run.mind_id)
        old = await mind_keeping.list_untouched(tx, mind.id, "receipt", mind.now - RECEIPTS_COUNT, MOST)
        counts = await self._propose(tx, run, "receipts", retiring(old))
        return counts + _done(Task.RECEIPTS, len(old) < MOST)

    async def _make_room(self, tx: Tx, run: Run) -> Counter[str]:
        mind = await state.lock_mind(tx, run.mind_id)
        actor = Actor(Emitter.UPKEEP, run.name.value, run_id=run.id)
        groups = await self.minds.loader.groups.load(tx, mind.id)
        facts = Facts(now=mind.now, actor=actor, groups=groups)
        counted: Counter[tuple[str, frozenset[str]]] = Counter()
        for type_, sources, count in await state.count_live(tx, mind.id, EVICTED):
            counted[type_, facts.group(sources)] += count
        going: list[Planned] = []
        for type_ in crowded((type_, count) for (type_, _), count in counted.items()):
            going += await _evictions(tx, facts, mind.id, type_, MOST - _named(going))
        old = await mind_keeping.list_tombstones(tx, mind.id, mind.now - TOMBSTONES_SPEAK, MOST - _named(going))
        counts = await self._propose(tx, run, "memory", going + scrubbing(old))
        return counts + _done(Task.MEMORY, _named(going) + len(old) < MOST)

    async def _verify(self, ctx: JobContext, run: Run) -> Counter[str]:
        """Fold the journal anew, in short reads: a night with much to fold holds nobody up."""
        until = self.clock.monotonic() + self.verify_s
        replay = SlicedReplay(run.mind_id)
        found: Replayed | None = None
        while found is None and self.clock.monotonic() < until and not ctx.cancelled:
            found = await ctx.advance(replay.go_on, durable=False)
        counts = Counter({Task.VERIFY.done: 1, "verified": replay.folded})
        if found is None:
            log.warning("mind.verify_unfinished", mind=run.mind_id, rows=replay.folded)
            self.observe("mind_verified_total", 1, {"result": "unfinished"})
            counts["verify_unfinished"] = 1
        elif found.difference is not None:
            log.error("mind.differs", mind=run.mind_id, row=found.difference.seq, what=found.difference.what)
            self.observe("mind_verified_total", 1, {"result": "differs"})
            counts["verify_wrong"] = 1
        else:
            self.observe("mind_verified_total", 1, {"result": "same"})
        return counts

    async def _propose(
        self, tx: Tx, run: Run, task: str, planned: Sequence[Planned], by: Emitter = Emitter.UPKEEP
    ) -> Counter[str]:
        """Have the mind decide, and count what became of it.

        Keys go by entry: a repetition finds what is left, which has other places in the list.
        """
        if not planned:
            return Counter()
        items = tuple(
            Item(each.operation, _key(run, task, each), {entry.id: entry.version for entry in each.entries})
            for each in planned
        )
        batch = Batch(mind_id=run.mind_id, actor=Actor(by, run.name.value, run_id=run.id), items=items)
        verdict = await self.minds.apply(tx, batch) if run.writes else (await self.minds.preview(tx, batch))[0]
        counts: Counter[str] = Counter()
        for recorded in verdict.items:
            match recorded.verdict:
                case Accepted(effect, entries):
                    counts[f"{task}_{effect}"] += len(entries)
                case Rejected():
                    counts[f"{task}_refused"] += 1
        return counts


async def _evictions(tx: Tx, facts: Facts, mind_id: str, type_: str, most: int) -> list[Planned]:
    """Return what makes room among the entries of a type, weighed as the mind will weigh them."""
    beside = SUPPORTING if type_ == "durable" else frozenset[str]()
    entries = [held.entry for held in await state.list_live(tx, mind_id, beside | {type_})]
    ids = [entry.id for entry in entries if entry.type == type_]
    recalled = await mind_facts.list_recalled(tx, mind_id, ids)
    return evictions(View(entries), replace(facts, recalled=recalled), type_, most)


async def _prune(tx: Tx, run: Run) -> Counter[str]:
    if not run.writes:
        return Counter()
    deleted = await pass_books.prune(tx, PRUNED)
    return Counter({"runs_deleted": deleted}) + _done(Task.RUNS, deleted < PRUNED)


async def _digest(tx: Tx, run: Run, counts: Mapping[str, int], earlier: Sequence[Earlier]) -> dict[str, int]:
    """Return how things stand, and log it if that has changed since the last run said so."""
    health = asdict(await pass_books.find_health(tx, run.mind_id))
    health["books_wrong"] = len(await budgets.invariants(tx))
    before = earlier[0].counts if earlier else {}
    found = counts if counts.get(Task.VERIFY.done) else before
    health |= {name: found.get(name, 0) for name in LASTING}
    if run.writes and any(before.get(name, 0) != count for name, count in health.items()):
        tx.on_commit(lambda: log.warning("upkeep.digest", mind=run.mind_id, **health))
    return health


def _key(run: Run, task: str, planned: Planned) -> str:
    entry = planned.entries[0]
    return f"run:{run.id}:{run.n}:{task}:{entry.type}:{entry.id}"


def _named(planned: Sequence[Planned]) -> int:
    return sum(len(each.entries) for each in planned)


def _done(task: Task, nothing_left: bool) -> Counter[str]:
    return Counter({task.done: int(nothing_left)})


async def _always(_: Tx, __: Run, ___: Opened) -> Skip | None:
    return None
