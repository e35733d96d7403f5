"""The phase in which something may be said unasked: tidy up what waits, judge it in turn, queue the first that passes.

One transaction, at most one row of the outbox a run. Vectors are asked for before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import assert_never

import structlog

from core.chat.guards import Blocked, GuardContext, Guarded, guard
from core.chat.likening import Likening
from core.chat.promises import Promises
from core.chat.voice import Voice
from core.domain.candidates import answers_obligation, candidate_of, in_turn, stale, wakes
from core.domain.ids import MessageId, PersonId
from core.domain.mind.codes import Accepted
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.speech import Candidate, CandidateStatus
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, Item
from core.domain.operations.speech import AdvanceCandidate, RetireCandidateIntervention
from core.domain.passes import Advance, PhaseResult, Run
from core.domain.rooms import Room
from core.domain.speaking import AwaitApproval, Held, RuleResult, Speak, SpeechRule, SpeechRules, judge
from core.domain.speech import OutboxState
from core.jobs.executor import JobContext
from core.passes.cards import Cards
from core.passes.gate import Gate
from core.passes.runner import Called, Inside, Outside
from core.passes.saying import Saying, queue_speech
from core.passes.situation import NO_VECTORS, Situation, Vectors, look
from core.prompt.stock import StockKey
from core.state.service import StateService
from core.store import passes, state
from core.store.access import ReadableRooms
from core.store.engine import Tx
from core.store.places import Place

log = structlog.get_logger()

DECISION = "decision"
"""The artifact of a run that says of each candidate what every rule said; ids, numbers and codes."""
REPEATS = "repeats_recent_speech"
DELIVERY_FAILED = "delivery_failed"
ALREADY_SAID = "already_said"
TAKEN_BACK_AFTER = timedelta(hours=1)
"""How long delivery has to say itself that something was not sent."""
LAST_OWN = 5
"""How many of the bot's last messages in a room a text may not repeat to the letter."""
EMBEDDED_OWN = 192
"""How many of the bot's own messages are compared by their meaning, the newest; the others by their letters."""
CHUNK = 64


@dataclass(slots=True)
class _Outcome:
    """What came of one candidate. `why`: a code; empty where the rules say it."""

    entry: Entry
    body: Candidate
    outcome: str
    why: str = ""
    results: tuple[RuleResult, ...] = ()

    def shown(self) -> dict[str, object]:
        target = self.body.delivery_target
        return {
            "id": self.entry.id,
            "version": self.entry.version,
            "kind": self.body.kind.value,
            "status": self.body.status.value,
            "room": None if target is None else target.channel_id,
            "priority": self.body.priority,
            "outcome": self.outcome,
            "why": self.why,
            "rules": [
                {"rule": each.rule.value, "passed": each.passed, "detail": each.detail, "asked": each.asked}
                for each in self.results
            ],
        }


@dataclass(slots=True)
class _Decisions:
    """What one run decides: the operations that follow, in order, and what came of each candidate.

    `asking`: what a person has to approve, by the place of its operation.
    """

    operations: list[Operation] = field(default_factory=list)
    outcomes: list[_Outcome] = field(default_factory=list)
    saying: Saying | None = None
    asking: dict[int, Saying] = field(default_factory=dict)

    def note(
        self, entry: Entry, body: Candidate, outcome: str, why: str = "", results: Sequence[RuleResult] = ()
    ) -> None:
        self.outcomes.append(_Outcome(entry, body, outcome, why, tuple(results)))

    def retire(self, entry: Entry, reason: str) -> None:
        self.operations.append(RetireCandidateIntervention(intervention_id=entry.id, reason=reason))

    def advance(self, entry: Entry, to: CandidateStatus, reason: str) -> None:
        self.operations.append(AdvanceCandidate(intervention_id=entry.id, to=to, reason=reason))

    def count(self, outcome: str) -> int:
        return sum(each.outcome == outcome for each in self.outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaking:
    """What speaking needs; one for the process.

    `likening`: compares texts by their meaning; None: by their letters. `system_runs`: `word_runs` of what nobody
    should read out. `operators`: platform:account of those whom `owner_dm` means.
    """

    gate: Gate
    minds: StateService
    readable: ReadableRooms
    voice: Voice
    promises: Promises | None = None
    rules: SpeechRules = field(default_factory=SpeechRules)
    likening: Likening | None = None
    system_runs: frozenset[str] = frozenset()
    operators: Sequence[str] = ()

    def phase(self) -> Inside | Outside:
        """Return the phase as a pass lists it: it calls out only where texts become vectors."""
        vectors_here = self.likening is not None and self.likening.likeness is not None
        return Outside(self.call) if vectors_here else Inside(self)

    async def __call__(self, tx: Tx, run: Run) -> PhaseResult:
        """Say at most one thing that waits, or nothing; write down why."""
        return await self._speak(tx, run, NO_VECTORS)

    async def call(self, ctx: JobContext, run: Run) -> Called:
        """Have the texts made vectors; what this returns does the rest."""
        texts = await ctx.advance(lambda tx: self._texts(tx, run), durable=False)
        vectors = await self._embed(texts)

        async def save(tx: Tx, held: Run) -> PhaseResult:
            return await self._speak(tx, held, vectors)

        return Called(save)

    async def _texts(self, tx: Tx, run: Run) -> list[str]:
        """Return what is to be compared, drafts first; empty if there is nothing to compare."""
        mind = await state.find_mind(tx, run.mind_id)
        found = None if mind is None else await look(tx, run, mind, self.gate, self.readable, self.operators)
        if found is None or not found.own:
            return []
        drafts = {body.draft for entry in found.candidates if (body := candidate_of(entry)) is not None}
        return [*sorted(drafts), *(each.text for each in found.own[:EMBEDDED_OWN])]

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, as far as there is a model that answers; all of one model."""
        known: dict[str, tuple[float, ...]] = {}
        model: str | None = None
        for at in range(0, len(texts), CHUNK):
            found = None if self.likening is None else await self.likening.vectors(set(texts[at : at + CHUNK]))
            if found is None or model not in (None, found[0]):
                break
            model = found[0]
            known |= found[1]
        return known

    async def _speak(self, tx: Tx, run: Run, vectors: Vectors) -> PhaseResult:
        mind = await state.find_mind(tx, run.mind_id)
        if mind is not None and run.writes:  # two groups of one mind count each other's words
            mind = await state.lock_mind(tx, run.mind_id)
        found = None if mind is None else await look(tx, run, mind, self.gate, self.readable, self.operators)
        if found is None:
            return Advance()
        decided = _Decisions()
        waiting = _tidy(found, decided)
        for entry in in_turn(waiting, found.obligations):
            await self._judge(tx, found, decided, entry, vectors)
            if decided.saying is not None:
                break
        said = await self._carry_out(tx, run, found, decided) if run.writes else False
        await _write_down(tx, run, found, decided)
        counts = {"read": len(found.candidates), "delivered": int(said)}
        return Advance(counts | {name: decided.count(name) for name in ("retired", "awaiting_approval", "held")})

    async def _judge(self, tx: Tx, found: Situation, decided: _Decisions, entry: Entry, vectors: Vectors) -> None:
        """Ask every rule about one candidate, and note what follows."""
        body = candidate_of(entry)
        if body is None:
            raise AssertionError("what waits is a candidate")
        place, reply = found.place_of(body), found.reply_of(body)
        if reply is not None and reply.under_way:
            decided.note(entry, body, "held", "answer_under_way")
            return
        # Somebody took back that it was being sent, or people have seen the beginning of it.
        if found.attempt_of(entry, body) is not None or found.was_seen(entry, body):
            decided.note(entry, body, "retired", ALREADY_SAID)
            decided.retire(entry, ALREADY_SAID)
            return
        readable = place is not None and await self._may_hear(tx, place, entry)
        outcome = judge(entry, found.facts(entry, body, readable=readable, vectors=vectors), self.rules)
        match outcome:
            case Speak() | AwaitApproval() if place is not None:
                self._guard(found, decided, entry, body, place, outcome)
            case Speak() | AwaitApproval():
                raise AssertionError("what may be said has a place")
            case Held(results) if SpeechRule.REPETITION in outcome.by and found.run.speaks:
                decided.note(entry, body, "retired", REPEATS, results)
                decided.retire(entry, REPEATS)
            case Held(results):
                decided.note(entry, body, "held", "", results)
            case _:
                assert_never(outcome)

    async def _may_hear(self, tx: Tx, place: Place, entry: Entry) -> bool:
        room = place.room
        return await self.readable.allow(tx, room.community_id, room.id, None, entry.sources, epoch=place.mind_epoch)

    def _guard(
        self, found: Situation, decided: _Decisions, entry: Entry, body: Candidate, place: Place,
        outcome: Speak | AwaitApproval,
    ) -> None:  # fmt: skip
        """Look at the words a last time; what may not be said in any room is given up, and nobody asked about it."""
        guarded = self._guarded(found, body, place.room)
        if isinstance(guarded, Blocked):
            reason = f"guard_{guarded.guard}"
            decided.note(entry, body, "retired", reason, outcome.results)
            decided.retire(entry, reason)
            return
        owed = answers_obligation(entry, found.obligations)
        saying = Saying(entry=entry, body=body, place=place, text=guarded.text, fired=guarded.fired, owed=owed)
        if isinstance(outcome, AwaitApproval):
            decided.asking[len(decided.operations)] = saying
            decided.note(entry, body, CandidateStatus.AWAITING_APPROVAL, "", outcome.results)
            decided.advance(entry, CandidateStatus.AWAITING_APPROVAL, "a person approves such speech first")
            return
        decided.note(entry, body, "spoken", "", outcome.results)
        decided.advance(entry, CandidateStatus.SENDING, "every rule of speech allows it")
        decided.saying = saying

    def _guarded(self, found: Situation, body: Candidate, room: Room) -> Guarded | Blocked:
        own = [each.text for each in found.own if each.room_id == room.id]
        context = GuardContext(
            system_runs=self.system_runs,
            own_messages=tuple(own[:LAST_OWN]),
            # What rests on a memory may speak of remembering it.
            promises=None if body.source_memory_ids else self.promises,
            memory_line=self.voice.say(room.language, StockKey.MEMORY_NOT_KEPT, room.id),
        )
        return guard(body.draft, context)

    async def _carry_out(self, tx: Tx, run: Run, found: Situation, decided: _Decisions) -> bool:
        """Let the mind take what was decided, and queue what is to be said; return whether something is."""
        if not decided.operations:
            return False
        items = tuple(
            Item(operation, f"run:{run.id}:{run.n}:speak:{n}") for n, operation in enumerate(decided.operations)
        )
        actor = Actor(Emitter.PARENT, "speak", run_id=run.id)
        verdict = await self.minds.apply(tx, Batch(mind_id=run.mind_id, actor=actor, items=items))
        cards = Cards(self.readable, self.voice)
        for at, waiting in decided.asking.items():
            if isinstance(verdict.items[at].verdict, Accepted):
                await cards.ask(tx, run, waiting, found)
        if decided.saying is None:
            return False
        if not isinstance(verdict.items[-1].verdict, Accepted):
            raise AssertionError("what was judged under the mind's lock can be sent")
        if await queue_speech(tx, run, decided.saying, found) is None:
            raise AssertionError("a try that was never made has no row in the outbox")
        return True


def _tidy(found: Situation, decided: _Decisions) -> list[Entry]:
    """Give up what is stale, wake what was put off, take back what was not sent; return what waits after that."""
    waiting: list[Entry] = []
    for entry in found.candidates:
        body = candidate_of(entry)
        if body is None:
            continue
        if body.status is CandidateStatus.SENDING:
            _take_back(found, decided, entry, body)
            continue
        reason = stale(entry, found.standing(entry, body), found.now)
        if reason is not None:
            decided.note(entry, body, "retired", reason)
            decided.retire(entry, reason)
            continue
        if wakes(entry, found.now):
            decided.advance(entry, CandidateStatus.QUEUED, "its time has come")
            queued = body.model_copy(update={"status": CandidateStatus.QUEUED, "deferred_until": None})
            entry = replace(entry, body=queued)
        waiting.append(entry)
    return waiting


def _take_back(found: Situation, decided: _Decisions, entry: Entry, body: Candidate) -> None:
    """Queue again what was certainly not sent, where delivery was not there to do so."""
    attempt = found.attempt_of(entry, body)
    lost = attempt is None or attempt.state == OutboxState.FAILED
    if lost and entry.updated_at + TAKEN_BACK_AFTER <= found.now:
        decided.note(entry, body, "queued_again", DELIVERY_FAILED)
        decided.advance(entry, CandidateStatus.QUEUED, DELIVERY_FAILED)


async def _write_down(tx: Tx, run: Run, found: Situation, decided: _Decisions) -> None:
    looked_at = decided.outcomes
    replies = {reply for each in looked_at if (reply := _reply(each.body)) is not None}
    await passes.put(
        tx,
        run.id,
        DECISION,
        {"candidates": [each.shown() for each in looked_at]},
        people=frozenset[PersonId]().union(*(each.entry.people for each in looked_at)),
        messages=replies,
    )
    log.info(
        "speech.decided",
        run=run.id,
        name=run.name.value,
        looked_at=len(looked_at),
        said=decided.saying is not None and run.writes,
        awaiting=decided.count(CandidateStatus.AWAITING_APPROVAL),
    )


def _reply(body: Candidate) -> MessageId | None:
    target = body.delivery_target
    return None if target is None or target.reply_to_message_id is None else MessageId(target.reply_to_message_id)
