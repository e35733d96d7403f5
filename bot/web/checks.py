"""What makes this process ready, asked within a limit that holds even if Postgres answers nothing at all."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.domain.errors import BotError

T = TypeVar("T")

ANSWER_S = 2.0
TICK_S = 10.0
OLDEST_READY_S = 300.0


@dataclass(frozen=True, slots=True)
class FrontEndState:
    """Whether a front end hears its platform, and why it says so."""

    ok: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What the health page shows: jobs by (pool, state), and how many rooms there are."""

    queue: Mapping[tuple[str, str], int]
    rooms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What the page asks, given by the composition root. A BotError means that there is no answer.

    `database`: returns if Postgres answers. `schema`: the revision it stands at (None: empty) and the one
    this code needs. `tick_age_s`: seconds since the last tick of any worker (None: never).
    `oldest_ready_s`: how long the oldest ready job has waited (None: there is none). `front_ends`: by name;
    empty in processes without any. `figures`: for the page.
    """

    database: Callable[[], Awaitable[None]]
    schema: Callable[[], Awaitable[tuple[str | None, str]]]
    tick_age_s: Callable[[], Awaitable[float | None]]
    oldest_ready_s: Callable[[], Awaitable[float | None]]
    front_ends: Callable[[], Awaitable[Mapping[str, FrontEndState]]]
    figures: Callable[[], Awaitable[Figures]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check's outcome with its reason in words."""

    name: str
    ok: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """All verdicts, and the figures if Postgres gave them."""

    verdicts: tuple[Verdict, ...]
    figures: Figures | None

    @property
    def ready(self) -> bool:
        """Whether every check is fine."""
        return all(verdict.ok for verdict in self.verdicts)


class Prober:
    """Asks the checks at once; one that does not answer in time is not asked again until it has.

    A question to a stopped server cannot be taken back in time: cancelling it waits for that server. So a
    slow question is left running, later reports say so, and questions never pile up.
    """

    def __init__(self, checks: Checks, answer_s: float = ANSWER_S) -> None:
        self._checks = checks
        self._answer_s = answer_s
        self._asked: dict[str, asyncio.Future[object]] = {}

    async def report(self) -> Report:
        """Return the verdicts; takes at most the limit for one answer."""
        checks = self._checks
        database, schema, tick, oldest, front_ends, figures = await asyncio.gather(
            self._ask("postgres", checks.database),
            self._ask("schema", checks.schema),
            self._ask("worker", checks.tick_age_s),
            self._ask("queue", checks.oldest_ready_s),
            self._ask("front ends", checks.front_ends),
            self._ask("figures", checks.figures),
        )
        verdicts = [
            database if isinstance(database, Verdict) else Verdict("postgres", True, "answers"),
            schema if isinstance(schema, Verdict) else _schema(*schema),
            tick if isinstance(tick, Verdict) else _tick(tick),
            oldest if isinstance(oldest, Verdict) else _oldest(oldest),
            *([front_ends] if isinstance(front_ends, Verdict) else _front_ends(front_ends)),
        ]
        return Report(tuple(verdicts), None if isinstance(figures, Verdict) else figures)

    def close(self) -> None:
        """Give up what still waits for an answer."""
        for asked in self._asked.values():
            asked.cancel()

    async def _ask(self, name: str, check: Callable[[], Awaitable[T]]) -> T | Verdict:
        """Return the check's answer, or a verdict that says why there is none."""
        asked = self._asked.get(name)
        if asked is None or asked.done():
            asked = self._asked[name] = asyncio.ensure_future(_answer(check))
        await asyncio.wait([asked], timeout=self._answer_s)
        if not asked.done():
            return Verdict(name, False, f"no answer within {self._answer_s:g} s")
        if asked.cancelled():
            return Verdict(name, False, "stopping")
        failure = asked.exception()
        if failure is None:
            answer: T = asked.result()  # type: ignore[assignment]  # asked under this check's name
            return answer
        # Only our own errors have messages that are safe to show; a bug shows its class.
        reason = failure.message if isinstance(failure, BotError) else f"failed: {type(failure).__name__}"
        return Verdict(name, False, reason)


async def _answer(check: Callable[[], Awaitable[object]]) -> object:
    return await check()


def _schema(current: str | None, head: str) -> Verdict:
    if current == head:
        return Verdict("schema", True, f"at {head}")
    return Verdict("schema", False, f"at {current or 'nothing'}, needs {head}: run `voidbot db migrate`")


def _tick(age_s: float | None) -> Verdict:
    if age_s is None:
        return Verdict("worker", False, "no worker has ticked yet")
    return Verdict("worker", age_s < TICK_S, f"last tick {age_s:.0f} s ago")


def _oldest(waited_s: float | None) -> Verdict:
    if waited_s is None:
        return Verdict("queue", True, "nothing waits")
    return Verdict("queue", waited_s < OLDEST_READY_S, f"oldest ready job has waited {waited_s:.0f} s")


def _front_ends(states: Mapping[str, FrontEndState]) -> Sequence[Verdict]:
    return [Verdict(f"front end {name}", state.ok, state.reason) for name, state in sorted(states.items())]
