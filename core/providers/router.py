"""From a tier to an answer: which model, when to try the next one, and how many calls run at once."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import structlog

from core.domain.errors import BotError, Misconfigured, Refused, TooLong, Unavailable
from core.domain.prompt import Completion, Delta, ModelRequest, Tier, Usage
from core.ports import Clock, ModelProvider
from core.providers.metering import Estimate, estimated
from core.providers.model_settings import LIMITS, Limits, ModelSettings
from core.providers.models import ConnectedModel

log = structlog.get_logger()

FAILURES = 5
FAILURES_WITHIN_S = 60.0
PAUSE_S = 30.0

AT_ONCE = 8
"""Model calls of this process that may run side by side."""

LEAST_INPUT_TOKENS = 4_000
"""Below it a prompt loses what makes an answer worth having; `cheap` asks for less."""

FALLS_TO: Mapping[Tier, tuple[Tier, ...]] = {
    Tier.DEEP: (Tier.DEEP, Tier.FAST, Tier.CHEAP),
    Tier.FAST: (Tier.FAST, Tier.CHEAP),
    Tier.CHEAP: (Tier.CHEAP,),
}

Build = Callable[[ModelSettings], ModelRequest]
"""Makes the prompt for one model's window; pure, and called again for each model tried."""

Connect = Callable[[ModelSettings, Limits], ConnectedModel]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call that was made, for the receipt and the ledger. `error` is the class, None if it went well.

    `usage` of a failed call is what the provider billed or may have billed; often nothing.
    """

    model: str
    sha256: str
    error: str | None
    usage: Usage
    usd_micro: int
    seconds: float


Note = Callable[[Attempt], None]


def forget(attempt: Attempt) -> None:
    """Take note of nothing."""


@dataclass(frozen=True, slots=True)
class WorstCase:
    """What a call with all its fallbacks can use at most: what to reserve."""

    tokens: int
    usd_micro: int


class Breaker:
    """Keeps calls away from an endpoint that keeps failing: 5 failures in 60 s pause it for 30 s.

    After the pause one probe is let through; its success closes the breaker, its failure pauses again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=FAILURES)
        self._open_until: float | None = None
        self._probing = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count what happens inside.

        Raises:
            Unavailable: The endpoint is paused; nothing inside was run.
        """
        self._admit()
        try:
            yield
        except Unavailable:
            self._failed()
            raise
        except BotError:
            self._worked()  # it answered, only not what we wanted
            raise
        except BaseException:
            self._probing = False  # cancelled: nothing is known, the next call may probe
            raise
        self._worked()

    def _admit(self) -> None:
        if self._open_until is None:
            return
        left = self._open_until - self._clock.monotonic()
        if left > 0 or self._probing:
            raise Unavailable("model: paused after failures", retry_after_s=max(left, 1.0))
        self._probing = True

    def _failed(self) -> None:
        now = self._clock.monotonic()
        self._failures.append(now)
        full = len(self._failures) == FAILURES and now - self._failures[0] <= FAILURES_WITHIN_S
        if self._probing or full:
            self._open_until = now + PAUSE_S
        self._probing = False

    def _worked(self) -> None:
        self._probing = False
        self._open_until = None
        self._failures.clear()


class Turnstile:
    """Lets a number of calls through at once; who waits is let in chat first, then by arrival."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._arrivals = 0
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def place(self, chat: bool) -> AsyncIterator[None]:
        """Hold one place."""
        await self._enter(chat)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, chat: bool) -> None:
        if self._free:
            self._free -= 1
            return
        self._arrivals += 1
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (not chat, self._arrivals, called))
        try:
            await called
        except asyncio.CancelledError:
            if not called.cancelled():
                self._leave()  # called and cancelled at once: the place goes to the next
            raise

    def _leave(self) -> None:
        while self._waiting:
            called = heapq.heappop(self._waiting)[2]
            if not called.done():
                called.set_result(None)
                return
        self._free += 1


@dataclass(frozen=True, slots=True)
class _Entry:
    settings: ModelSettings
    provider: ConnectedModel
    breaker: Breaker


def _whole(provider: ModelProvider, request: ModelRequest) -> AsyncIterator[Delta]:
    """Ask for the whole answer, in the form of a stream of one piece."""

    async def once() -> AsyncIterator[Delta]:
        yield Delta(completion=await provider.complete(request))

    return once()


def _pieces(provider: ModelProvider, request: ModelRequest) -> AsyncIterator[Delta]:
    return provider.stream(request)


@dataclass(frozen=True, slots=True)
class Route:
    """The models of one tier, in the order in which they are tried."""

    tier: Tier
    _entries: tuple[_Entry, ...]
    _turnstile: Turnstile = field(repr=False)
    _clock: Clock = field(repr=False)
    _estimate: Estimate = field(repr=False)

    @property
    def models(self) -> tuple[ModelSettings, ...]:
        """The settings of the models, first choice first."""
        return tuple(entry.settings for entry in self._entries)

    @property
    def longest_s(self) -> float:
        """How long the whole list can take, each model tried twice."""
        limits = LIMITS[self.tier]
        return sum(2 * limits.stretched(model.patience).total_s for model in self.models)

    @property
    def worst(self) -> WorstCase:
        """The sum over the list, for a call that was given up may still be billed."""
        return WorstCase(
            tokens=sum(each.policy().hard_cap for each in self.models),
            usd_micro=sum(each.worst_usd_micro() for each in self.models),
        )

    async def complete(self, build: Build, *, chat: bool = False, note: Note = forget) -> Completion:
        """Return the whole answer of the first model that gives one.

        Args:
            build: Makes the prompt for a model.
            chat: Somebody waits for it: goes before background work.
            note: Told of each call made, failed ones included.

        Raises:
            BotError: As of `ModelProvider`; of several failures the one that is most worth a retry.
        """
        async with ended(self._run(_whole, build, chat, note)) as deltas:
            async for delta in deltas:
                if delta.completion is not None:
                    return delta.completion
        raise Unavailable("model: gave no completion")

    async def stream(self, build: Build, *, chat: bool = False, note: Note = forget) -> AsyncIterator[Delta]:
        """Yield an answer in pieces. After the first piece of text no other model is tried.

        Arguments and errors are those of `complete`. Close the iterator when leaving early (`ended`):
        it holds a place and a connection.
        """
        async with ended(self._run(_pieces, build, chat, note)) as deltas:
            async for delta in deltas:
                yield delta

    async def _run(
        self,
        call: Callable[[ModelProvider, ModelRequest], AsyncIterator[Delta]],
        build: Build,
        chat: bool,
        note: Note,
    ) -> AsyncIterator[Delta]:
        errors: list[BotError] = []
        shown = False
        for entry in self._entries:
            tries = deque((entry.settings, entry.settings.shrunk()))
            while tries:
                settings = tries.popleft()
                try:
                    request = build(settings)
                    async with ended(self._attempt(entry, call, request, chat, note)) as deltas:
                        async for delta in deltas:
                            shown = shown or bool(delta.text)
                            yield delta
                    return
                except TooLong as exc:
                    if shown:
                        raise
                    errors.append(exc)  # once more with a smaller prompt, then the next model
                except (Unavailable, Misconfigured, Refused) as exc:
                    if not shown and settings.vision and _may_mean_images(exc, request):
                        errors.append(exc)
                        tries = deque((settings.blind(),))  # the words can still be answered
                        continue
                    if shown or isinstance(exc, Refused):
                        raise
                    if isinstance(exc, Misconfigured):
                        log.error("model.misconfigured", model=settings.name, what=exc.message)
                    errors.append(exc)
                    break
        raise _most_hopeful(errors)

    async def _attempt(
        self,
        entry: _Entry,
        call: Callable[[ModelProvider, ModelRequest], AsyncIterator[Delta]],
        request: ModelRequest,
        chat: bool,
        note: Note,
    ) -> AsyncIterator[Delta]:
        """Make one call, counted by the breaker and noted however it ends."""
        async with self._turnstile.place(chat):
            with entry.breaker.watch():
                begun = self._clock.monotonic()
                error: str | None = "cancelled"
                text = ""
                usage: Usage | None = None
                usd_micro: int | None = None
                try:
                    async with ended(call(entry.provider, request)) as deltas:
                        async for delta in deltas:
                            text += delta.text
                            if delta.completion is not None:
                                error = None
                                usage, usd_micro = delta.completion.usage, delta.completion.usd_micro
                            yield delta
                except BotError as exc:
                    error = type(exc).__name__
                    billed = exc.attributes.get("usage")
                    usage = billed if isinstance(billed, Usage) else Usage()
                    raise
                finally:
                    if usage is None:  # given up by us: the provider bills what it has done
                        unseen = request.max_output_tokens if call is _whole else 0
                        usage = estimated(request, text, self._estimate, unseen)
                    if usd_micro is None:
                        usd_micro = entry.settings.usd_micro(usage)
                    seconds = self._clock.monotonic() - begun
                    note(Attempt(entry.settings.name, request.sha256, error, usage, usd_micro, seconds))


@asynccontextmanager
async def ended(deltas: AsyncIterator[Delta]) -> AsyncIterator[AsyncIterator[Delta]]:
    """Close a stream of answers on the way out, so that its call ends now and not when it is collected."""
    try:
        yield deltas
    finally:
        if isinstance(deltas, AsyncGenerator):
            await deltas.aclose()


def _may_mean_images(error: BotError, request: ModelRequest) -> bool:
    """Return whether a call may have failed for its images alone, before it cost anything."""
    broken = error.attributes.get("status") == HTTPStatus.INTERNAL_SERVER_ERROR  # as some servers answer a bad image
    return bool(request.images) and (isinstance(error, Refused) or broken) and "usage" not in error.attributes


def _most_hopeful(errors: Sequence[BotError]) -> BotError:
    """Return the failure that a later try may mend soonest; else the last one."""
    waits = [each for each in errors if isinstance(each, Unavailable)]
    return min(waits, key=lambda each: each.retry_after_s or 0.0) if waits else errors[-1]


class Router:
    """All configured models by tier. Without any, `route` is None and the caller answers with quotes."""

    def __init__(
        self,
        tiers: Mapping[Tier, Sequence[ModelSettings]],
        connect: Connect,
        clock: Clock,
        estimate: Estimate,
        at_once: int = AT_ONCE,
    ) -> None:
        """Connect every configured model; the SDKs they need are imported here.

        Args:
            tiers: The models of each tier, first choice first.
            connect: `models.connect` with all but its first two arguments given.
            clock: Measures pauses and calls.
            estimate: Tokens of a text, for calls that are given up.
            at_once: Calls that may run side by side.

        Raises:
            Misconfigured: A model of `deep` or `fast` has too small a window.
        """
        self._turnstile = Turnstile(at_once)
        self._clock = clock
        self._estimate = estimate
        breakers: dict[str, Breaker] = {}
        self._entries: dict[Tier, tuple[_Entry, ...]] = {}
        for tier, models in tiers.items():
            for settings in models:
                if tier is not Tier.CHEAP and settings.input_tokens < LEAST_INPUT_TOKENS:
                    raise Misconfigured("model: window too small for its tier", model=settings.name, tier=tier)
            self._entries[tier] = tuple(
                _Entry(
                    settings,
                    connect(settings, LIMITS[tier]),
                    breakers.setdefault(settings.endpoint, Breaker(clock)),
                )
                for settings in models
            )

    def route(self, tier: Tier) -> Route | None:
        """Return the models for `tier` or else for the next lower one; None: none is configured."""
        for each in FALLS_TO[tier]:
            if entries := self._entries.get(each):
                return Route(tier, entries, self._turnstile, self._clock, self._estimate)
        return None

    async def aclose(self) -> None:
        """Close all connections."""
        for entries in self._entries.values():
            for entry in entries:
                await entry.provider.aclose()
