"""Rumination: what was said in a group since the last time is thought over, and what comes of it goes to the mind."""

from collections.abc import Awaitable, Callable, Sequence

import structlog

from core.chat.likening import Likening
from core.domain.errors import BadOutput, Refused
from core.domain.ids import MessageId, RoomId
from core.domain.mind.bodies import KIND_OF, CaseStatus, Consumer, LastRun
from core.domain.mind.entries import Key
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.values import EntryId
from core.domain.mind.wording import one_line
from core.domain.operations.batch import Batch, Item
from core.domain.operations.obligations import UpsertOpenCase
from core.domain.operations.runtime import RecordLastRun
from core.domain.passes import (
    MOST_ASKS,
    Advance,
    Fail,
    Finish,
    PassName,
    Phase,
    PhaseResult,
    Run,
    Skip,
    SkipReason,
)
from core.jobs.executor import JobContext
from core.passes.asking import PACKET, VERDICTS, Answer, PassAsking, read_answer
from core.passes.circle import load_circle
from core.passes.deciding import Deciding
from core.passes.gate import Gate
from core.passes.gathering import WINDOW, Gatherer
from core.passes.looking import EMPTY, Looking
from core.passes.paging import Paging, Place
from core.passes.runner import Called, Inside, Outside, PassSpec
from core.passes.screening import counted, told
from core.ports import Clock
from core.state.service import StateService
from core.store import passes, reading, state
from core.store.engine import Tx
from core.store.reading import PAGE, Heard

log = structlog.get_logger()

ROLE = "rumination"
DRY = "dry_run"
"""The reason with which a run ends that only showed what it would have done."""
MOST_IDLE_PAGES = 20
"""How many whole pages without a person one run passes over; its transaction stays short."""
QUESTION_CHARS = 400
"""How much of a question is kept as what is owed, where no model says it in its own words."""
Speak = Callable[[Tx, Run], Awaitable[PhaseResult]]


class Rumination:
    """The pass. `speak`: the phase in which something is said; gone through in every run that may write.

    What may be said in which mode is that phase's to decide.
    """

    def __init__(
        self, *, gate: Gate, asking: PassAsking, minds: StateService, likening: Likening, clock: Clock,
        speak: Speak | Inside | Outside, own_repo: str = "",
    ) -> None:  # fmt: skip
        every = gate.policy.rumination_every
        self._gate, self._asking, self._minds, self._likening = gate, asking, minds, likening
        self._speak = speak if isinstance(speak, Inside | Outside) else Inside(speak)
        self._clock, self._every = clock, every
        self._looking = Looking(gate.groups, clock, every)
        self._gatherer = Gatherer(gate, clock)
        self._paging = Paging(minds, Consumer.RUMINATION)
        self._deciding = Deciding(
            minds=minds, groups=gate.groups, paging=self._paging, clock=clock, own_repo=own_repo
        )  # fmt: skip

    def spec(self) -> PassSpec:
        """Return its phases. What it shows of the mind is read as it asks, so there is no phase that saves it."""
        return PassSpec(
            PassName.RUMINATION,
            {
                Phase.GATE: Inside(self._open, durable=False),
                Phase.POLL: Inside(self._poll, durable=False),
                Phase.ASK: Outside(self._ask),
                Phase.APPLY: Outside(self._apply, durable=False),
                Phase.SPEAK: self._speak,
                Phase.RECORD: Inside(self._record, durable=False),
            },
        )

    async def _open(self, tx: Tx, run: Run) -> PhaseResult:
        opened = await self._gate.open(
            tx, run, self._looking.look, every=self._every, quiet=True,
            draw=lambda seen: self._asking.worst_draw(run, seen.place.home, ROLE)
            if self._asking.has_model(ROLE) else None,
        )  # fmt: skip
        return opened if isinstance(opened, Skip) else Advance()

    async def _poll(self, tx: Tx, run: Run) -> PhaseResult:
        """Choose the messages that the run is about, by id and revision."""
        seen = await self._gate.see(tx, run)
        circle = None if seen is None else await load_circle(tx, self._gate.groups, run, seen.every)
        if circle is None or seen is None:
            return Skip(SkipReason.AUDIENCE_UNKNOWN)
        page = await self._page(tx, run, circle.of(seen.rooms))
        heard = [[each.room_id, each.id, each.revision, each.human] for each in page]
        await passes.put(tx, run.id, WINDOW, {"heard": heard})
        return Advance({"read": len(page)}, Phase.RECORD if _idle(page) else None)

    async def _page(self, tx: Tx, run: Run, rooms: Sequence[RoomId]) -> list[Heard]:
        """Return the next page; whole ones without a person are passed over, so that what people said is reached."""
        page = await self._paging.turn(tx, run, rooms)
        for n in range(MOST_IDLE_PAGES if run.writes else 0):
            if not _idle(page):
                break
            places = [(each.room_id, each.id, each.revision) for each in page]
            if await self._paging.passed(tx, run, places, (), f"idle:{n}") is not None:
                break  # the record of the run tells why
            page = await self._paging.turn(tx, run, rooms)
        return page

    async def _ask(self, ctx: JobContext, run: Run) -> Called:
        if not self._asking.has_model(ROLE):
            return Called(self._by_rule)
        try:
            return await self._asking.ask(ctx, run, ROLE, self._gatherer.gather)
        except BadOutput:
            return Called(self._nothing_said, asked=True)
        except Refused as exc:
            log.warning("pass.model_refused", run=run.id, name=run.name.value, error=str(exc))
            return Called(self._not_taken, asked=True)

    async def _nothing_said(self, tx: Tx, run: Run) -> PhaseResult:
        """Ask again where a model gave no answer; the second time it is a failure of its own."""
        if run.asks + 1 < MOST_ASKS:
            return Advance(to=Phase.ASK)
        await self._paging.failed(tx, run, await self._window(tx, run))
        return Fail("model_output_missing")

    async def _not_taken(self, tx: Tx, run: Run) -> PhaseResult:
        """End a run whose prompt no provider takes: something in its window may be what their filters withhold."""
        await self._paging.failed(tx, run, await self._window(tx, run))
        return Fail("refused")

    async def _by_rule(self, tx: Tx, run: Run) -> PhaseResult:
        """Open an obligation for each question to the bot that nobody answered; without a model nothing is thought."""
        asked = await reading.list_open_questions(tx, [MessageId(id_) for _, id_, _ in await self._window(tx, run)])
        keys = {id_: Key(KIND_OF["case"], EntryId(f"case:{id_}")) for id_, _ in asked}
        known = {each.entry.key for each in await state.load_entries(tx, run.mind_id, keys.values())}
        items = tuple(
            Item(
                UpsertOpenCase(
                    source_message_id=id_, status=CaseStatus.PENDING, summary=one_line(text)[:QUESTION_CHARS]
                ),
                f"run:{run.id}:rule:{id_}",
            )
            for id_, text in asked
            if keys[id_] not in known
        )
        if not run.writes or not items:
            return Advance(to=Phase.SPEAK if run.writes else Phase.RECORD)
        actor = Actor(Emitter.PARENT, "open_question", run_id=run.id)
        verdict = await self._minds.apply(tx, Batch(mind_id=run.mind_id, actor=actor, items=items))
        rows = told(items, verdict)
        await passes.put(tx, run.id, VERDICTS, {"items": rows})
        return Advance(counted(rows), Phase.SPEAK)

    async def _apply(self, ctx: JobContext, run: Run) -> Called:
        role = self._asking.catalog.roles[ROLE]

        async def load(tx: Tx) -> Answer | None:
            return await read_answer(tx, run, role)

        answer = await ctx.advance(load, durable=False)
        if answer is None:
            return Called(_erased)
        similarity = await self._likening.compare(run.mind_id, answer.items, answer.packet)

        async def save(tx: Tx, held: Run) -> PhaseResult:
            if await passes.get(tx, held.id, PACKET) is None:
                return await _erased(tx, held)
            return await self._deciding.decide(tx, held, role, answer, similarity)

        return Called(save)

    async def _record(self, tx: Tx, run: Run) -> PhaseResult:
        """Move the cursors to the last message that was shown, and note how the run went."""
        if not run.writes:
            return Finish(DRY)
        verdicts, page = await passes.get(tx, run.id, VERDICTS), await self._window(tx, run)
        if verdicts is not None and "shown" in verdicts:
            page = [(room, id_, revision) for room, id_, revision in verdicts["shown"]]
        rows = [] if verdicts is None else verdicts["items"]
        empty = not rows and verdicts is not None
        counts = counted(rows) | {"read": len(page)}
        last = LastRun(
            pass_=run.name.value,
            run_id=run.id,
            slot=run.slot.isoformat(),
            ran_at=self._clock.now(),
            outcome=EMPTY if empty else "done",
            summary=", ".join(f"{name} {count}" for name, count in sorted(counts.items())),
        )
        refused = await self._paging.passed(tx, run, page, [RecordLastRun(last_run=last)])
        if refused is not None:
            return Fail(refused.code.value)
        return Finish(EMPTY if empty else "", {"read": len(page)})

    async def _window(self, tx: Tx, run: Run) -> list[Place]:
        window = await passes.get(tx, run.id, WINDOW)
        return [(room, id_, revision) for room, id_, revision, _ in (window or {"heard": ()})["heard"]]


def _idle(page: Sequence[Heard]) -> bool:
    return len(page) == PAGE and not any(each.human for each in page)


async def _erased(_: Tx, __: Run) -> PhaseResult:
    return Fail("person_erased")
