"""The queue beside procrastinate and pgqueuer, on one server in one run; one JSON line a figure.

Run as `make bench`. Repetitions are interleaved, so that what else the machine does meets all alike; each starts
from a clone of the same rows, vacuumed and analysed; completions are counted in the database over a fixed window.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.queue_figures import FULL, GROUPS, QUICK, Group, Size, templates
from benchmarks.queue_server import ROOT, Broken, Commit, Server, System
from benchmarks.queue_statistics import Spread, ratios, short, spread
from benchmarks.rig import fdatasync_ms, load, say, temporary_home

# Start, clone, vacuum and stop of one repetition; filling of one template, by thousand jobs.
FIXED_S, FILL_S = 5.0, 0.25
PAIRS = 5
LOWER_IS_BETTER = ("_ms",)


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure is to reach: its ratio to a system, `best` being the better peer, or its own value."""

    against: System | str
    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        """Return whether the value reaches it."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


BARS: Mapping[str, Sequence[Bar]] = {
    "keyed_200": [Bar(System.PROCRASTINATE, at_least=10)],
    "keyed_1000": [Bar(System.PROCRASTINATE, at_least=20)],
    "noop_2": [Bar(System.PGQUEUER, at_least=0.8)],
    "loaded": [Bar(System.PGQUEUER, at_least=0.8)],
    "loaded_by_empty": [Bar("value", at_least=0.8)],
    "enqueue_serial": [Bar("best", at_least=0.9)],
    "enqueue_20": [Bar("best", at_least=4)],
    "enqueue_bulk": [Bar("best", at_least=1)],
    "idle_p50_ms": [Bar("best", at_most=2.5)],
    "idle_p99_ms": [Bar("best", at_most=1.5), Bar("value", at_most=50)],
    "held_last_by_first": [Bar(System.PGQUEUER, at_least=1)],
    "held_last": [Bar("value", at_least=500)],
    "claim_ms": [Bar("value", at_most=10)],
    "claim_anti_join_by_ours": [Bar("value", at_least=3)],
    "quiet_p99_ms": [Bar("value", at_most=250)],
}

Samples = dict[str, dict[System, list[float]]]


async def measure(server: Server, name: str, group: Group, size: Size, pairs: int, systems: set[System]) -> Samples:
    """Return what each repetition of each system gave, by figure, in the order of the pairs."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    chosen = [system for system in group.systems if system in systems]
    async with templates(server, group, size, chosen) as sources:
        for pair in range(pairs):
            for system in chosen:
                say(f"{name}: pair {pair + 1} of {pairs}, {system} (load {load()})")
                async with server.trial(system, sources[system]) as trial:
                    for figure, value in (await group.measure(trial, size)).items():
                        samples[figure][system].append(value)
    return samples


def row(figure: str, values: Mapping[System, Sequence[float]]) -> dict[str, object]:
    """Return the line of one figure; null where a system cannot do it, or was not asked."""
    spreads = {system: spread(values[system]) for system in System if values.get(system)}
    peers = [system for system in spreads if system is not System.OURS and System.OURS in spreads]
    found: dict[System, Spread] = {system: ratios(values[System.OURS], values[system]) for system in peers}
    lower = figure.endswith(LOWER_IS_BETTER)
    best = (max if lower else min)(found.values(), key=lambda ratio: ratio.median, default=None)
    line: dict[str, object] = {"figure": figure, "better": "lower" if lower else "higher"}
    line |= {system: short(spreads[system].median) if system in spreads else None for system in System}
    line |= {"ratio_best": None if best is None else short(best.median)}
    line |= {"ratios": {system: ratio.as_row() for system, ratio in found.items()}}
    line |= {"pairs": {system: value.as_row() for system, value in spreads.items()}}
    line |= {"level": [system for system, ratio in found.items() if ratio.level]}
    return line | {"bars": [_judged(bar, spreads, found, best) for bar in BARS.get(figure, ())]}


def _judged(
    bar: Bar, spreads: Mapping[System, Spread], found: Mapping[System, Spread], best: Spread | None
) -> dict[str, object]:
    match bar.against:
        case "value":
            value = spreads.get(System.OURS)
        case "best":
            value = best
        case peer:
            value = found.get(System(peer))
    limit = {"at_least": bar.at_least} if bar.at_least is not None else {"at_most": bar.at_most}
    return {"of": bar.against, **limit, "met": None if value is None else bar.met(value.median)}


def estimate_s(chosen: Mapping[str, Group], size: Size, pairs: int, systems: set[System]) -> float:
    """Return about how many seconds a run takes on a quiet machine."""
    total = 10.0
    for group in chosen.values():
        number = len(systems.intersection(group.systems))
        scale = 1.0 if size is FULL else 0.25
        fill = group.fill or {}
        jobs = (fill.get("pending", 0) + fill.get("history", 0) / 20) / 1000
        total += number * (jobs * FILL_S * size.jobs + FIXED_S + pairs * (group.seconds * scale + FIXED_S))
    return total


def peers_versions(peers: Path) -> dict[str, str]:
    """Return what the peers' environment has."""
    script = (
        "import importlib.metadata as m, json, psycopg;"
        "print(json.dumps({n: m.version(n) for n in ('procrastinate', 'pgqueuer', 'asyncpg', 'psycopg', 'uvloop')}"
        " | {'psycopg_implementation': psycopg.pq.__impl__}))"
    )
    found = subprocess.run([peers / "bin" / "python", "-c", script], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(found.stdout)
    return versions


def commit() -> str:
    """Return the revision that is measured."""
    found = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip()


def arguments() -> argparse.Namespace:
    """Return the flags."""
    flags = argparse.ArgumentParser(prog="python -m benchmarks.queue", description=__doc__)
    flags.add_argument("--figure", action="append", choices=GROUPS, help="only this group, may be repeated")
    flags.add_argument("--system", action="append", choices=list(System), type=System, help="only this system")
    flags.add_argument("--pairs", type=int, help=f"repetitions of each system; {PAIRS}, with --quick 1")
    flags.add_argument("--quick", action="store_true", help="small and short: shows that it works, not how fast")
    flags.add_argument("--peers", type=Path, default=ROOT / ".venv-bench", help="the peers' environment")
    waits = flags.add_mutually_exclusive_group()
    waits.add_argument("--as-shipped", action="store_true", help="our transactions wait for the disk as in the product")
    waits.add_argument("--no-wait", action="store_true", help="synchronous_commit is off for all")
    return flags.parse_args()


async def run(given: argparse.Namespace) -> None:
    """Measure what is asked for and print a line as soon as a figure is known."""
    size, pairs = (QUICK, given.pairs or 1) if given.quick else (FULL, given.pairs or PAIRS)
    waits = Commit.SHIPPED if given.as_shipped else Commit.OFF if given.no_wait else Commit.ON
    systems = set(given.system or System)
    chosen = {name: GROUPS[name] for name in given.figure or GROUPS}
    say(f"about {estimate_s(chosen, size, pairs, systems) / 60:.0f} min for {', '.join(chosen)}")
    with temporary_home() as home:
        about: dict[str, object] = {
            "about": "queue",
            "commit": commit(),
            "synchronous_commit": waits,
            "cores": os.cpu_count(),
            "fdatasync_ms": fdatasync_ms(home),
            "load": load(),
            "pairs": pairs,
            "quick": given.quick,
            "python": platform.python_version(),
            **peers_versions(given.peers),
        }
        async with Server.running(home, given.peers, waits) as server:
            print(json.dumps(about | await server.facts()), flush=True)
            ours: dict[str, list[float]] = {}
            for name, group in chosen.items():
                try:
                    samples = await measure(server, name, group, size, pairs, systems)
                except Broken as exc:
                    print(json.dumps({"figure": name, "error": str(exc)}), flush=True)
                    continue
                for figure, values in samples.items():
                    ours[figure] = values.get(System.OURS, [])
                    print(json.dumps(row(figure, values) | {"load": load()}), flush=True)
            if ours.get("loaded") and ours.get("noop_2"):
                derived = ratios(ours["loaded"], ours["noop_2"])
                values = {System.OURS: [derived.median, derived.least, derived.greatest]}
                print(json.dumps(row("loaded_by_empty", values)), flush=True)


if __name__ == "__main__":
    asyncio.run(run(arguments()))
