"""How many messages VoidBot takes in and answers over time: does what waits stay as short as it was?"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from benchmarks.rig import (
    PLATFORM,
    Stopwatch,
    all_answered,
    fdatasync_ms,
    load,
    machine,
    offer,
    parser,
    print_line,
    running_app,
    say,
    spread_ms,
    temporary_home,
)
from benchmarks.town import Town, settle_town, talk
from bot.app import App
from bot.clock import SystemClock
from core.domain.messages import InboundMessage

ACCEPTED_PER_S, ANSWERED_PER_S = 200.0, 100.0
STABLE_S = 1.0
"""A queue is stable if its last third waits at most this much longer than its first."""
LOWER_IS_BETTER = ("mixed.accept_ms.p99", "mixed.wait_s.last_third", "answers.wait_s.last_third")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How long each part runs, and the fewest rooms."""

    mixed_s: float
    answers_s: float
    rooms: int
    history: int


FULL = Size(mixed_s=300, answers_s=60, rooms=200, history=20)
QUICK = Size(mixed_s=2, answers_s=1, rooms=50, history=5)


@dataclass(slots=True)
class Tally:
    """What was seen: seconds by message, and every second how long the oldest unanswered message has waited."""

    began: dict[str, float] = field(default_factory=dict)
    taken: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    oldest: list[float] = field(default_factory=list)


async def part(
    app: App, front_end: Stopwatch, town: Town, rate_per_s: float, seconds: float, every: int
) -> dict[str, object]:
    """Offer messages at a steady rate, one in `every` addressed; return what became of them."""
    tally = Tally()

    async def take(message: InboundMessage) -> None:
        tally.began[message.message_id] = began = time.perf_counter()
        accepted = await app.receiver.accept(message)
        tally.taken[message.message_id] = time.perf_counter() - began
        if accepted.outcome == "reply":
            tally.asked[message.message_id] = began
        elif message.addressed_by:
            tally.silent.add(str(accepted.reason))

    before, started, answered = load(), time.perf_counter(), len(front_end.first_call)
    messages = talk(town, SystemClock(), addressed_every=every)
    await _watched(tally, front_end, lambda: offer(messages, rate_per_s, seconds, take))
    accepted_s = time.perf_counter() - started
    await all_answered(front_end, answered + len(tally.asked))
    answered_s = time.perf_counter() - started
    waits = [front_end.first_call[each] - began for each, began in tally.asked.items() if each in front_end.first_call]
    third = max(1, len(tally.oldest) // 3)
    first, last = (round(statistics.fmean(some or [0.0]), 3) for some in (tally.oldest[:third], tally.oldest[-third:]))
    return {
        "offered_per_s": rate_per_s,
        "accepted": len(tally.taken),
        "accepted_per_s": round(len(tally.taken) / accepted_s, 1),
        "accept_ms": spread_ms(list(tally.taken.values())),
        "addressed": len(tally.asked),
        "answered": len(waits),
        "answered_per_s": round(len(waits) / answered_s, 1),
        "answer_ms": spread_ms(waits),
        "silent": sorted(tally.silent),
        "wait_s": {"first_third": first, "last_third": last, "max": round(max(tally.oldest, default=0.0), 3)},
        "stable": last <= first + STABLE_S and len(waits) == len(tally.asked),
        "load": [before, load()],
    }


async def _watched(tally: Tally, front_end: Stopwatch, work: Callable[[], Awaitable[None]]) -> None:
    """Note every second, while `work` runs, how long the oldest message has waited for its first call."""

    async def watch() -> None:
        while True:
            await asyncio.sleep(1)
            open_since = (began for each, began in tally.asked.items() if each not in front_end.first_call)
            tally.oldest.append(time.perf_counter() - min(open_since, default=time.perf_counter()))

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        await work()
        watching.cancel()


async def measure(size: Size, waits: bool) -> dict[str, object]:
    """Run both parts on databases of their own: much talk with few questions, then questions alone."""
    found: dict[str, object] = {}
    parts = (("mixed", ACCEPTED_PER_S, size.mixed_s, 20), ("answers", ANSWERED_PER_S, size.answers_s, 1))
    for name, rate_per_s, seconds, every in parts:
        front_end = Stopwatch(waits=waits)
        with temporary_home() as home:
            async with running_app(home, front_end) as app:
                found["fdatasync_ms"] = fdatasync_ms(home)
                answers = round(rate_per_s * seconds / every)
                town = Town.for_answers(PLATFORM, answers, rooms=size.rooms, history=size.history)
                await settle_town(app.database, town, SystemClock())
                say(f"{name}: {rate_per_s:g} messages a second for {seconds:g} s in {town.rooms} rooms")
                found[name] = await part(app, front_end, town, rate_per_s, seconds, every)
                found["machine"] = await machine(app)
    return found


def main() -> int:
    options = parser(__doc__ or "").parse_args()
    line: dict[str, object] = {"benchmark": "intake", "quick": options.quick}
    line |= asyncio.run(measure(QUICK if options.quick else FULL, options.three_waits))
    print_line(line, options.against, LOWER_IS_BETTER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
