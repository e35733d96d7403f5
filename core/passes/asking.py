"""The phase that asks a model: a prompt, exactly its cost reserved, one call, the answer saved before it is used."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.chat.stripping import strip_reasoning
from core.domain.budgets import CallResult, Draw, UsageRow
from core.domain.errors import BadOutput
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.mind.facts import Packet
from core.domain.operations.batch import Item, Refused
from core.domain.packets import PassContext
from core.domain.passes import Advance, Fail, PhaseResult, Run
from core.domain.prompt import Handle, ModelRequest, Prompt, RepairNote, Role, SourceId, SourceKind, Usage
from core.jobs.executor import JobContext, Observe
from core.passes.runner import Called
from core.ports import Clock
from core.prompt.builder import PromptBuilder
from core.prompt.catalog import Catalog
from core.providers.model_settings import ModelSettings
from core.providers.router import Attempt, Route, Router
from core.state.parser import Reading, read_pieces, read_text
from core.store import budgets, mind_facts, passes
from core.store.engine import Database, Tx
from core.store.passes import PhaseUse

OUTPUT_TOKENS = 2_000
"""What an answer of a pass may take, where the model's window leaves that much: it may hold many operations."""
PACKET, ANSWER, VERDICTS, REPAIR = "packet", "answer", "verdicts", "repair"
"""The artifacts of a run: what was shown (ids alone), what was answered, what became of it, what was wrong before."""
_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"operations": {"type": "array", "items": {"type": "object"}}},
    "required": ["operations"],
    "additionalProperties": False,
}
_ERASED = "person_erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a pass shows: the context, and what of it must be known when the answer is applied.

    `rooms`, `people`: from which all of it was made. `messages`: those whose words are in it, or in
    what it shows of the mind. `versions`: of the
    entries shown. `extra`: what the pass itself wants to know later; ids and numbers.
    """

    context: PassContext
    rooms: frozenset[RoomId]
    people: frozenset[PersonId]
    messages: frozenset[MessageId] = frozenset()
    versions: Mapping[str, int] = field(default_factory=dict)
    here: RoomId | None = None
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A saved answer, read: its operations, and what its model had read. `kept`: how many pieces of each part."""

    items: tuple[Item | Refused, ...]
    packet: Packet
    kept: Mapping[str, int]
    extra: Mapping[str, Any]

    @property
    def unusable(self) -> tuple[Refused, ...]:
        """The refusals of an answer that could not be read at all."""
        whole = len(self.items) == 1 and isinstance(self.items[0], Refused) and not self.items[0].name
        return tuple(each for each in self.items if isinstance(each, Refused)) if whole else ()


Gather = Callable[[Tx, Run], Awaitable[Gathered | PhaseResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassAsking:
    """What asking needs; one for the process."""

    database: Database
    clock: Clock
    builder: PromptBuilder
    catalog: Catalog
    router: Router
    observe: Observe

    def has_model(self, role_name: str) -> bool:
        """Return whether there is a model to ask."""
        return self.router.route(self.catalog.roles[role_name].tier) is not None

    def draw(self, run: Run, home: CommunityId, tokens: int = 0, usd_micro: int = 0) -> Draw:
        """Return what a call of a run takes, and from whose purses."""
        return Draw(
            person_id=None, room_id=None, community_id=home, pass_class=run.name.value, tokens=tokens,
            usd_micro=usd_micro,
        )  # fmt: skip

    def worst_draw(self, run: Run, home: CommunityId, role_name: str) -> Draw:
        """Return what a call can take at most, for a look before there is a prompt."""
        route = self.router.route(self.catalog.roles[role_name].tier)
        return (
            self.draw(run, home) if route is None else self.draw(run, home, route.worst.tokens, route.worst.usd_micro)
        )

    async def ask(self, ctx: JobContext, run: Run, role_name: str, gather: Gather) -> Called:
        """Gather, build, reserve and call. The answer is saved by what this returns, and applied by a later phase.

        Raises:
            BudgetRefused, BudgetHeld: Nothing was called.
            BotError: No model gave an answer; what it cost is settled.
            ClaimLost: The claim is over.
        """
        role = self.catalog.roles[role_name]
        route = self.router.route(role.tier)
        if route is None:
            raise AssertionError("a pass without a model does not ask")
        gathered = await ctx.advance(lambda tx: self._gather(tx, run, gather), durable=False)
        if not isinstance(gathered, Gathered):
            result = gathered

            async def pass_on(_: Tx, __: Run) -> PhaseResult:
                return result

            return Called(pass_on)
        call = _Call(self, run, role, route, gathered, CommunityId(ctx.job.community_id), ctx)
        await call.reserve()
        return await call.complete()

    async def _gather(self, tx: Tx, run: Run, gather: Gather) -> Gathered | PhaseResult:
        gathered = await gather(tx, run)
        if not isinstance(gathered, Gathered):
            return gathered
        note = await passes.get(tx, run.id, REPAIR)
        if note is None:
            return gathered
        repair = tuple(RepairNote(each["path"], each["expected"]) for each in note["notes"])
        return replace(gathered, context=replace(gathered.context, repair=repair))


class _Call:
    """One call of a pass: its prompts, its reservation, and what it cost."""

    def __init__(
        self, asking: PassAsking, run: Run, role: Role, route: Route, gathered: Gathered, home: CommunityId,
        ctx: JobContext,
    ) -> None:  # fmt: skip
        self._asking, self._run, self._role, self._route = asking, run, role, route
        self._gathered, self._home, self._ctx = gathered, home, ctx
        self._prompts: dict[tuple[str, int], Prompt] = {}
        self._reservation_id = 0
        self._attempts: list[Attempt] = []
        self._prompt: Prompt | None = None
        self._settings: ModelSettings | None = None

    def build(self, settings: ModelSettings) -> ModelRequest:
        """Return the request for one model, the same one again if it was built before."""
        key = (settings.name, settings.window_tokens)
        if key not in self._prompts:
            policy = settings.policy()
            longest = min(max(policy.max_output_tokens, OUTPUT_TOKENS), policy.window_tokens // 3)
            schema = _SCHEMA if settings.structured else None
            policy = replace(policy, max_output_tokens=longest, output_schema=schema)
            self._prompts[key] = self._asking.builder.build_pass(self._role, self._gathered.context, policy)
        self._prompt, self._settings = self._prompts[key], settings
        return self._prompt.request

    async def reserve(self) -> None:
        """Hold what these very prompts can cost, one for each model that may be tried."""
        tokens = usd_micro = 0
        for settings in self._route.models:
            request = self.build(settings)
            bound = self._prompts[settings.name, settings.window_tokens].bound_tokens
            tokens += bound
            usage = Usage(bound - request.max_output_tokens, request.max_output_tokens)
            usd_micro += settings.usd_micro(usage)
        draw = self._asking.draw(self._run, self._home, tokens, usd_micro)
        job, now = self._ctx.job, self._asking.clock.now()
        held = await self._ctx.advance(
            lambda tx: budgets.reserve(
                tx, draw, job_id=job.id, attempt=job.attempt, timeout_s=self._route.longest_s, now=now
            ),
            durable=False,
        )
        self._reservation_id = held.id

    async def complete(self) -> Called:
        """Call the models in turn; book a call that gave nothing at once."""
        try:
            completion = await self._route.complete(self.build, note=self._attempts.append)
        except BaseException as exc:
            result = CallResult.FAILED if isinstance(exc, Exception) else CallResult.CANCELLED
            await self._settle_apart(result)
            raise
        self._measure()
        prompt, settings = self._prompt, self._settings
        if prompt is None or settings is None:
            raise BadOutput("model: answered nothing that was asked")
        text = completion.text

        async def save(tx: Tx, run: Run) -> PhaseResult:
            return await self._save(tx, run, prompt, text)

        return Called(save, self._use(prompt), True, self._settle, self._settle_apart_if_lost)

    async def _save(self, tx: Tx, run: Run, prompt: Prompt, text: str) -> PhaseResult:
        gathered = self._gathered
        if await mind_facts.list_erased(tx, gathered.people):
            return Fail(_ERASED)  # what was read is to be nowhere
        packet = {
            "handles": {handle: [source.kind.value, source.key] for handle, source in prompt.handles.items()},
            "versions": dict(gathered.versions),
            "rooms": sorted(gathered.rooms),
            "people": sorted(gathered.people),
            "kept": {section.name: section.items_kept for section in prompt.sections},
            "here": gathered.here,
            "prompt": prompt.sha256,
            "n": run.n,
            **gathered.extra,
        }
        for name, body in ((PACKET, packet), (ANSWER, {"text": storable(text)})):
            await passes.put(tx, run.id, name, body, people=gathered.people, messages=gathered.messages)
        return Advance({"proposed": 1, "shown": sum(section.items_kept for section in prompt.sections)})

    def _use(self, prompt: Prompt) -> PhaseUse:
        usage = self._usage(CallResult.OK)
        return PhaseUse(usage.model, usage.input_tokens, usage.output_tokens, usage.usd_micro, prompt.sha256)

    async def _settle(self, tx: Tx) -> None:
        await budgets.settle_usage(tx, self._reservation_id, self._usage(CallResult.OK))

    async def _settle_apart_if_lost(self) -> None:
        await self._settle_apart(CallResult.DISCARDED)

    async def _settle_apart(self, result: CallResult) -> None:
        async with self._asking.database.transaction() as tx:
            await budgets.settle_usage(tx, self._reservation_id, self._usage(result))

    def _measure(self) -> None:
        purpose = f"pass_{self._run.name}"
        for attempt in self._attempts:
            labels = {"model": attempt.model, "purpose": purpose, "result": attempt.error or "ok"}
            self._asking.observe("model_calls_total", 1, labels)
            self._asking.observe("model_cost_usd_total", attempt.usd_micro / 1_000_000, {})

    def _usage(self, result: CallResult) -> UsageRow:
        usages = [attempt.usage for attempt in self._attempts]
        settings, job = self._settings, self._ctx.job
        return UsageRow(
            job_id=job.id,
            attempt=job.attempt,
            purpose=f"pass_{self._run.name}",
            model=settings.name if settings is not None else "",
            provider=settings.kind.value if settings is not None else "",
            tier=self._route.tier.value,
            input_tokens=sum(usage.input_tokens for usage in usages),
            output_tokens=sum(usage.output_tokens for usage in usages),
            cached_tokens=sum(usage.cached_tokens for usage in usages),
            usd_micro=sum(attempt.usd_micro for attempt in self._attempts),
            priced=settings is not None and settings.prices is not None,
            estimated=any(usage.estimated for usage in usages),
            result=result,
            community_id=self._home,
            pass_class=self._run.name.value,
        )


async def read_answer(tx: Tx, run: Run, role: Role) -> Answer | None:
    """Return what a run's model proposed, and what it had read; None if that was erased meanwhile."""
    packet, answer = await passes.get(tx, run.id, PACKET), await passes.get(tx, run.id, ANSWER)
    return None if packet is None or answer is None else answer_of(run, role, packet, answer["text"])


def answer_of(run: Run, role: Role, packet: Mapping[str, Any], text: str) -> Answer:
    """Return what a text proposes to whoever was shown `packet`, an artifact of the run."""
    handles = {Handle(name): SourceId(SourceKind(kind), key) for name, (kind, key) in packet["handles"].items()}
    reading = Reading(
        allowed=role.operations,
        key=f"run:{run.id}:{packet['n']}",
        handles=handles,
        here=None if packet["here"] is None else RoomId(packet["here"]),
        expect=packet["versions"],
    )
    shown = Packet(
        rooms=frozenset(map(RoomId, packet["rooms"])),
        people=frozenset(map(PersonId, packet["people"])),
        refs=frozenset(ref for source in handles.values() if (ref := _ref(source)) is not None),
    )
    return Answer(_items(text, reading), shown, packet["kept"], packet)


def _items(text: str, reading: Reading) -> tuple[Item | Refused, ...]:
    """Return the operations of an answer: a list, one operation, or an object whose one field is the list."""
    text = strip_reasoning(text).text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return read_text(text, reading)
    if isinstance(value, dict) and value.keys() == {"operations"}:
        return read_pieces(value["operations"], reading)
    return read_text(text, reading)


def storable(text: str) -> str:
    """Return a model's words as the database can keep them; what no text can hold is marked as unreadable."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def notes_of(refused: tuple[Refused, ...]) -> dict[str, object]:
    """Return what a model is told of an answer that could not be used: places and what was expected, no words of it."""
    notes = [{"path": each.verdict.path or "answer", "expected": each.verdict.message} for each in refused[:4]]
    return {"notes": notes}


def _ref(source: SourceId) -> str | None:
    match source.kind:
        case SourceKind.MESSAGE | SourceKind.PASSAGE if source.key.isdecimal():
            return f"message:{source.key}"
        case SourceKind.MEMORY:
            return f"memory:{source.key}"
    return None
