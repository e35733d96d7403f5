"""Asking a model for a reply: prompt, call, parse, guards; at most two repairs; every call paid for.

No text of a model leaves this module but what the guards let through.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import structlog

from core.chat.answered import Answered, Settle
from core.chat.citations import Links, cited_line
from core.chat.drafts import BadDraft, Cited, DraftOutput, Parsed, parse_output, resolve_citations
from core.chat.grounding import ground
from core.chat.guards import Blocked, Guard, GuardContext, Guarded, SentenceGate, guard, word_runs
from core.chat.promises import Promises
from core.chat.proposing import Proposed, Shown, propose
from core.chat.stage import Stage
from core.chat.stripping import ReachBack
from core.chat.voice import Voice
from core.domain.budgets import CallResult, Draw, UsageRow
from core.domain.errors import BadOutput, BotError, BudgetRefused
from core.domain.prompt import (
    Completion,
    ModelRequest,
    Prompt,
    PromptKind,
    RepairNote,
    RequestContext,
    Role,
    SourceId,
    SourceKind,
    Usage,
)
from core.domain.rooms import Room
from core.domain.speech import ReceiptSource
from core.jobs.executor import JobContext, Observe
from core.ports import Clock
from core.prompt.builder import PromptBuilder
from core.prompt.fences import marker_of
from core.prompt.stock import StockKey
from core.providers.model_settings import ModelSettings
from core.providers.router import Attempt, Route, ended
from core.store import budgets
from core.store.engine import Database

log = structlog.get_logger()

REPAIRS = 2
"""How often a model is asked again after an output that cannot be used."""
SUMMARY_REPAIRS = 1
"""The same for a summary, which people's own words can stand in for."""
_DULL = frozenset({Guard.EMPTY, Guard.SENTINEL, Guard.REPEAT})
_SOMETHING_ELSE = RepairNote("text", "an answer to the person in your own words, new and not empty")
_UNCITED = RepairNote("text", "sentences that each name in square brackets, as in [k1], the message they rest on")
_SCHEMA: Mapping[str, object] = DraftOutput.model_json_schema()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is asked, of whom, for whom, and what is held for the first call.

    `links`: of the sources that the asker may open now. `kind`: a reply, or a summary, of which only stays what
    cites the messages that it sums up. `shown`: what of the mind the context holds.
    """

    ctx: JobContext
    route: Route
    role: Role
    room: Room
    draw: Draw
    reservation_id: int
    context: RequestContext
    own_texts: tuple[str, ...]
    stage: Stage
    trace: str
    links: Links = field(default_factory=dict)
    kind: PromptKind = PromptKind.REPLY
    shown: Shown = field(default_factory=Shown)


@dataclass(slots=True)
class _Trial:
    """One call as it went: the prompt of the model that answered, and what each attempt cost."""

    prompt: Prompt | None = None
    settings: ModelSettings | None = None
    context: RequestContext | None = None
    attempts: list[Attempt] = field(default_factory=list)
    completion: Completion | None = None
    gate: SentenceGate | None = None
    proposed: Proposed | None = None


@dataclass(frozen=True, slots=True)
class _Unusable:
    """An output that may not be said. `note` is all the model is told."""

    fired: str
    dull: bool
    note: RepairNote


_CUT_OFF = _Unusable("cut_off", False, _SOMETHING_ELSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What asking needs; one for the process."""

    database: Database
    clock: Clock
    builder: PromptBuilder
    voice: Voice
    promises: Promises
    observe: Observe

    async def answer(self, call: Call) -> Answered:
        """Return an answer of the model, or the stock message that stands in for one that cannot be used.

        Raises:
            BotError: No model could be reached, or none takes the prompt; the cost is booked already.
            ClaimLost: Another worker owns the job.
        """
        reservation_id, context = call.reservation_id, call.context
        fired: list[str] = []
        most = SUMMARY_REPAIRS if call.kind is PromptKind.SUMMARIZE else REPAIRS
        for repairs in range(most + 1):
            trial = _Trial()
            try:
                await self._converse(call, context, trial)
                self._measure(call, trial)
            except BotError as exc:
                if not call.stage.shown:
                    await self._book_failure(call, reservation_id, trial, CallResult.FAILED)
                    raise
                log.warning("model.cut_off", error=type(exc).__name__)
                settle = Settle(reservation_id, _usage(call, trial, CallResult.FAILED))
                return self._stand_in(call, trial, _CUT_OFF, [*fired, _CUT_OFF.fired], settle)
            except BaseException:  # cancelled, or a bug: what was spent is booked, then it goes on
                await self._book_failure(call, reservation_id, trial, CallResult.CANCELLED)
                raise
            result = self._judge(call, trial)
            if isinstance(result, Guarded):
                settle = Settle(reservation_id, _usage(call, trial, CallResult.OK))
                answered = self._said(call, trial, result.text, [*fired, *result.fired], settle)
                return replace(answered, proposed=trial.proposed)
            fired.append(result.fired)
            self.observe("guards_total", 1, {"guard": result.fired})
            if call.stage.shown or repairs == most:
                settle = Settle(reservation_id, _usage(call, trial, CallResult.OK))
                return self._stand_in(call, trial, result, fired, settle)
            outcome = CallResult.EMPTY if result.dull else CallResult.DISCARDED
            await self.settle_apart(Settle(reservation_id, _usage(call, trial, outcome)))
            try:
                reservation_id = await self._reserve(call)
            except BudgetRefused:
                return self._stand_in(call, trial, result, fired, None)
            context = replace(call.context, repair=result.note)
        raise AssertionError("the last repair returns")

    async def settle_apart(self, settle: Settle) -> None:
        """Book a call whose answer is not used, at once: it was paid for all the same."""
        async with self.database.transaction() as tx:
            await budgets.settle_usage(tx, settle.reservation_id, settle.usage)

    async def _reserve(self, call: Call) -> int:
        job, now = call.ctx.job, self.clock.now()
        reservation = await call.ctx.advance(
            lambda tx: budgets.reserve(
                tx, call.draw, job_id=job.id, attempt=job.attempt, timeout_s=call.route.longest_s, now=now
            ),
            durable=False,
        )
        return reservation.id

    async def _converse(self, call: Call, context: RequestContext, trial: _Trial) -> None:
        """Call the models of the route in turn; show whole guarded sentences as they come, where that is wanted."""
        trial.context = context
        kind = PromptKind.REPAIR if call.kind is PromptKind.REPLY and context.repair is not None else call.kind

        def build(settings: ModelSettings) -> ModelRequest:
            policy = settings.policy()
            if settings.structured:
                policy = replace(policy, output_schema=_SCHEMA)
            trial.settings = settings
            trial.prompt = self.builder.build(kind, call.role, context, policy)
            return trial.prompt.request

        structured = any(model.structured for model in call.route.models)
        if structured or not call.stage.open:
            trial.completion = await call.route.complete(build, chat=True, note=trial.attempts.append)
            return
        thinks = any(model.thinks_in_text for model in call.route.models)
        reach_back = ReachBack.ONCE if thinks else ReachBack.NEVER
        trial.gate = SentenceGate(self._guards(call, context), context.turn.text, reach_back)
        async with ended(call.route.stream(build, chat=True, note=trial.attempts.append)) as deltas:
            async for delta in deltas:
                if delta.completion is not None:
                    trial.completion = delta.completion
                if delta.text and trial.gate.feed(delta.text) and trial.prompt is not None:
                    cited = resolve_citations(trial.gate.shown, trial.prompt.handles)
                    if isinstance(cited, Cited):
                        await call.stage.show(cited.text, _sources(trial.prompt))
        if trial.completion is None:
            raise BadOutput("model: the stream ended without an answer")

    def _guards(self, call: Call, context: RequestContext) -> GuardContext:
        return GuardContext(
            system_runs=_runs_of_role(call.role.body),
            marker=marker_of(context.nonce),
            # Whoever asks again may hear the same again; a second try is not refused for it.
            own_messages=() if context.repair is not None else call.own_texts,
            promises=self.promises,
            memory_line=self.voice.say(call.room.language, StockKey.MEMORY_NOT_KEPT, call.room.id),
        )

    def _judge(self, call: Call, trial: _Trial) -> Guarded | _Unusable:
        """Parse and guard a whole output; citations become numbers last, so that sources are known to exist."""
        completion, prompt, settings = trial.completion, trial.prompt, trial.settings
        if completion is None or prompt is None or settings is None:
            raise AssertionError("a call that returns has a completion")
        gate = trial.gate
        if gate is not None and gate.shown:
            found = gate.finish()
        else:
            reach_back = ReachBack.ALWAYS if gate is None else gate.reach_back
            parsed = parse_output(completion.text, settings.structured, call.context.turn.text, reach_back)
            if isinstance(parsed, BadDraft):
                return _Unusable(parsed.fault, False, parsed.note)
            found = guard(parsed.text, self._guards(call, trial.context or call.context))
            if parsed.operations and call.kind is not PromptKind.SUMMARIZE:
                trial.proposed = self._propose(call, trial, prompt, parsed)
        if isinstance(found, Blocked):
            return _Unusable(found.guard, found.guard in _DULL, _SOMETHING_ELSE)
        words = found.text
        refused: tuple[str, ...] = ()
        if call.kind is PromptKind.SUMMARIZE:
            said = {passage.key: passage.text for passage in call.context.passages}
            cites = {each: at.key for each, at in prompt.handles.items() if at.kind is SourceKind.PASSAGE}
            grounded = ground(words, {handle: said[key] for handle, key in cites.items()})
            if not grounded.text:
                return _Unusable("uncited", False, _UNCITED)
            words = grounded.text
            refused += (f"uncited:{grounded.dropped}",) if grounded.dropped else ()
        cited = resolve_citations(words, prompt.handles)
        if isinstance(cited, BadDraft):
            return _Unusable(cited.fault, False, cited.note)
        text = self._with_sources(call, prompt, cited)
        if Guard.TOO_LONG in found.fired:
            text = f"{text}\n\n{self.voice.say(call.room.language, StockKey.REPLY_SHORTENED, call.room.id)}"
        return Guarded(text, (*found.fired, *refused))

    def _propose(self, call: Call, trial: _Trial, prompt: Prompt, parsed: Parsed) -> Proposed:
        """Read what a draft proposes; the text with its promises goes along, for the case that something stands."""
        context = trial.context or call.context
        guards = replace(self._guards(call, context), promises=None)
        found = guard(parsed.text, guards)
        cited = resolve_citations(found.text, prompt.handles) if isinstance(found, Guarded) else None
        return propose(
            parsed.operations,
            self._with_sources(call, prompt, cited) if isinstance(cited, Cited) else None,
            ctx=call.ctx,
            role=call.role,
            room=call.room,
            context=context,
            prompt=prompt,
            shown=call.shown,
            guards=guards,
        )

    def _with_sources(self, call: Call, prompt: Prompt, cited: Cited) -> str:
        if not cited.handles:
            return cited.text
        lines = [
            f"[{n}] {cited_line(call.context, prompt.handles[handle], call.links)}"
            for n, handle in enumerate(cited.handles, 1)
        ]
        return "\n".join([cited.text, "", *lines])

    def _measure(self, call: Call, trial: _Trial) -> None:
        for attempt in trial.attempts:
            model, usage = attempt.model, attempt.usage
            result = attempt.error or "ok"
            purpose = _purpose(call)
            self.observe("model_calls_total", 1, {"model": model, "purpose": purpose, "result": result})
            for direction, tokens in (("in", usage.input_tokens), ("out", usage.output_tokens)):
                labels = {"model": model, "purpose": purpose, "direction": direction}
                self.observe("model_tokens_total", tokens, labels)
            self.observe("model_cost_usd_total", attempt.usd_micro / 1_000_000, {})
            self.observe("model_seconds", attempt.seconds, {"model": attempt.model})
        if trial.prompt is not None and trial.completion is not None and not trial.completion.usage.estimated:
            real = max(trial.completion.usage.input_tokens, 1)
            self.observe("estimate_error_ratio", trial.prompt.estimated_tokens / real, {})

    async def _book_failure(self, call: Call, reservation_id: int, trial: _Trial, result: CallResult) -> None:
        self._measure(call, trial)
        settle = Settle(reservation_id, _usage(call, trial, result))
        await asyncio.shield(self.settle_apart(settle))

    def _said(self, call: Call, trial: _Trial, text: str, fired: Sequence[str], settle: Settle | None) -> Answered:
        return Answered(
            text=text,
            provider=trial.settings.kind.value if trial.settings is not None else "code",
            model=trial.settings.name if trial.settings is not None else "",
            sources=() if trial.prompt is None else _sources(trial.prompt),
            prompt=trial.prompt,
            guards=tuple(dict.fromkeys(map(str, fired))),
            settle=settle,
        )

    def _stand_in(
        self, call: Call, trial: _Trial, result: _Unusable, fired: Sequence[str], settle: Settle | None
    ) -> Answered:
        """Say honestly that there is no answer; what people have seen of one stays, with its end marked."""
        language, room = call.room.language, call.room.id
        if call.stage.shown:
            end = self.voice.say(language, StockKey.REPLY_CUT_SHORT, room)
            return self._said(call, trial, f"{call.stage.shown}\n\n{end}", [*fired, "cut_short"], settle)
        if result.dull:
            text = self.voice.say(language, StockKey.REPLY_NOTHING_TO_ADD, room)
        else:
            text = self.voice.say(language, StockKey.ERROR_GENERIC, room, id=call.trace)
        answered = self._said(call, trial, text, fired, settle)
        return replace(answered, provider="code", sources=())


@lru_cache(maxsize=64)
def _runs_of_role(body: str) -> frozenset[str]:
    """Return `word_runs`, once for each role: roles do not change while a process runs."""
    return word_runs(body)


def _purpose(call: Call) -> str:
    return call.kind.value


def _usage(call: Call, trial: _Trial, result: CallResult) -> UsageRow:
    """Return the sum over all attempts of one call: a fallback's failed first choice was paid for too."""
    usages: list[Usage] = [attempt.usage for attempt in trial.attempts]
    job, settings = call.ctx.job, trial.settings
    return UsageRow(
        job_id=job.id,
        attempt=job.attempt,
        purpose=_purpose(call),
        model=settings.name if settings is not None else "",
        provider=settings.kind.value if settings is not None else "",
        tier=call.route.tier.value,
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        cached_tokens=sum(usage.cached_tokens for usage in usages),
        usd_micro=sum(attempt.usd_micro for attempt in trial.attempts),
        priced=settings is not None and settings.prices is not None,
        estimated=any(usage.estimated for usage in usages),
        result=result,
        answers=1,
        person_id=call.draw.person_id,
        room_id=call.draw.room_id,
        community_id=call.draw.community_id,
    )


def _sources(prompt: Prompt) -> tuple[ReceiptSource, ...]:
    """Return everything that stands in the prompt, each thing once, with the rooms it came from."""
    found: dict[SourceId, ReceiptSource] = {}
    for section in prompt.sections:
        for item in section.provenance:
            for source in item.source_ids:
                found.setdefault(source, ReceiptSource(source.kind, source.key, item.audience))
    return tuple(found.values())
