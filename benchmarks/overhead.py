"""Time that VoidBot itself adds to an answer, from `accept` to the first call of the platform; start-up and memory."""

import asyncio
import sys
import time
from argparse import Namespace
from dataclasses import dataclass

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
from benchmarks.startup import start_up
from benchmarks.town import Town, settle_town, talk
from bot.clock import SystemClock
from core.domain.messages import InboundMessage

TARGET = {"p50_ms": 10.0, "p99_ms": 30.0}
AT_WORST = {"p50_ms": 15.0, "p99_ms": 60.0}
LOWER_IS_BETTER = (
    "overhead_ms.p50",
    "overhead_ms.p99",
    "accept_ms.p50",
    "start.cold_s",
    "start.warm_s",
    "start.idle_mb",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured; what is sent during the warm-up does not count."""

    rate_per_s: float
    seconds: float
    warm_up_s: float
    rooms: int
    history: int


FULL = Size(rate_per_s=20, seconds=60, warm_up_s=5, rooms=50, history=200)
QUICK = Size(rate_per_s=20, seconds=2, warm_up_s=0.5, rooms=10, history=20)


async def measure(size: Size, waits: bool) -> dict[str, object]:
    """Run the app, talk to it at a steady rate, and return the spread of its own time."""
    front_end, clock = Stopwatch(waits=waits), SystemClock()
    with temporary_home() as home:
        before = load()
        async with running_app(home, front_end) as app:
            disk = fdatasync_ms(home)
            answers = round(size.rate_per_s * (size.seconds + size.warm_up_s))
            town = Town.for_answers(PLATFORM, answers, rooms=size.rooms, history=size.history)
            await settle_town(app.database, town, clock)
            say(f"{town.rooms} rooms, {size.rate_per_s:g} messages a second for {size.seconds:g} s")
            began: dict[str, float] = {}
            taken: dict[str, float] = {}
            silent: list[str] = []

            async def take(message: InboundMessage) -> None:
                began[message.message_id] = time.perf_counter()
                accepted = await app.receiver.accept(message)
                taken[message.message_id] = time.perf_counter() - began[message.message_id]
                if accepted.outcome != "reply":
                    silent.append(str(accepted.reason))

            messages = talk(town, clock, addressed_every=1)
            await offer(messages, size.rate_per_s, size.warm_up_s, take)
            warm = set(began)
            cpu_before = time.process_time()
            await offer(messages, size.rate_per_s, size.seconds, take)
            await all_answered(front_end, len(began) - len(silent))
            cpu_s = time.process_time() - cpu_before
            counted = [each for each in began if each not in warm]
            calls = front_end.first_call
            overhead = spread_ms([calls[each] - began[each] for each in counted if each in calls])
            return {
                "messages": len(counted),
                "answered": sum(each in calls for each in counted),
                "silent": sorted(set(silent)),
                "rate_per_s": size.rate_per_s,
                "rooms": town.rooms,
                "overhead_ms": overhead,
                "accept_ms": spread_ms([taken[each] for each in counted]),
                "cpu_ms": round(cpu_s / len(counted) * 1000, 2),
                "fdatasync_ms": disk,
                "waits_for_disk": 3 if waits else 2,
                "load": [before, load()],
                "machine": await machine(app),
                "verdict": verdict(overhead) if all(each in calls for each in counted) else "missed",
            }


def verdict(overhead: dict[str, float]) -> str:
    """Return `target`, `at worst` or `missed`, by which limits hold."""
    for word, limits in (("target", TARGET), ("at worst", AT_WORST)):
        if overhead["p50"] <= limits["p50_ms"] and overhead["p99"] <= limits["p99_ms"]:
            return word
    return "missed"


def main() -> int:
    flags = parser(__doc__ or "")
    flags.add_argument("--no-start", action="store_true", help="leave out start-up and memory")
    options: Namespace = flags.parse_args()
    line: dict[str, object] = {"benchmark": "overhead", "quick": options.quick}
    line |= asyncio.run(measure(QUICK if options.quick else FULL, options.three_waits))
    line["start"] = None if options.quick or options.no_start else start_up()
    print_line(line, options.against, LOWER_IS_BETTER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
