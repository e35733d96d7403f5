"""How much unattended work costs before any model: ticks, skips, steps of the mood, packets, and a whole run.

On a mind of 10,000 entries and an archive of 100,000 messages. One JSON line a figure, times in milliseconds. The
server is the embedded one, with fsync, unless DATABASE_URL is set.
"""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks import state as minds
from benchmarks.rig import InstantModel, load, say, spread_ms, temporary_home
from bot.app import App, Role, open_app
from bot.kinds import kinds_of, passes_of
from bot.model_list import Model
from bot.settings import Settings
from core.chat.lastwords import LastWords
from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import Body, PressureItem, Thread
from core.domain.mind.bodies import PressureKind as Pressing
from core.domain.mind.entries import Entry, entry_hash
from core.domain.mind.speech import Candidate, CandidateKind
from core.domain.mind.values import EntryId, Target, TargetKind
from core.domain.passes import WHOLE_MIND, Origin, PassName, Run, slot_key
from core.domain.prompt import Completion, Finish, ModelRequest, Usage
from core.jobs.executor import Executor, JobContext
from core.passes.runner import start
from core.providers.model_settings import ModelSettings
from core.store import passes, state
from core.store.engine import Database
from core.store.jobs import Settlement
from core.store.leases import Incarnation
from core.store.passes import NewRun

MINDS, MESSAGES, TIMES = 1_000, 100_000, 60
QUICK_MINDS, QUICK_MESSAGES, QUICK_TIMES = 20, 2_000, 3
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
_MANY = """
insert into voidbot.communities (platform, chat_ref, name, mind_id)
select 'many', 'm' || n, 'Many ' || n, 'many:' || n from generate_series(1, $1::int) n"""
_TALK = """
with spread as (select r.id, r.community_id, r.last_archived_seq as before from unnest($1::bigint[]) w(id)
                join voidbot.rooms r on r.id = w.id)
insert into voidbot.messages (community_id, room_id, author_id, platform_ref, archived_seq, kind, text, sent_at, origin,
                              index_state)
select s.community_id, s.id, $3, 'b' || n, s.before + n, 'text', 'we talk of ' || n || ' and of ' || s.id,
       voidbot.now() - interval '1 hour' + make_interval(secs => n), 'live', 'done'
from spread s cross join generate_series(1, $2::int) n"""
_LONG_AGO = """
update voidbot.state_entries set body = body || jsonb_build_object('needToSpeak', 0.1, 'steppedAt',
  to_char((voidbot.now() - interval '5 minutes') at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
where mind_id = $1 and type = 'pressure'"""
_WRITTEN = "select count(*) from voidbot.state_operations where mind_id = $1 and op = 'update_speaking_pressure'"
_COUNTED = """
update voidbot.rooms r set last_archived_seq = coalesce((select max(archived_seq) from voidbot.messages m
  where m.room_id = r.id), 0) where r.id = any($1::bigint[])"""


class SilentModel(InstantModel):
    """A model that takes no time and proposes nothing."""

    async def complete(self, request: ModelRequest) -> Completion:
        """Return an empty list."""
        return Completion("[]", Usage(100, 1), self.model, Finish.STOP)


@dataclass(frozen=True, slots=True)
class Bench:
    """An app without a worker: its jobs are run by hand, so that each can be timed."""

    app: App
    mind: minds.Bench
    executor: Executor
    times: int
    many: int
    names: "itertools.count[int]"
    worker: Incarnation
    """One for all runs: a worker does not prepare its statements anew for each job either."""

    @property
    def database(self) -> Database:
        """The open database."""
        return self.app.database

    async def begin(self, name: PassName, group: str, mind_id: str | None = None) -> Run:
        """Claim a run by hand."""
        mind_id = mind_id or self.mind.mind_id
        label = f"bench{next(self.names)}"
        new = NewRun(
            mind_id=mind_id, name=name, group=group, slot_key=slot_key(mind_id, name, group, label),
            slot=self.app.clock.now(), label=label, origin=Origin.MANUAL,
        )  # fmt: skip
        async with self.database.transaction() as tx:
            (run,) = await passes.claim(tx, [new])
            place = await passes.find_place(tx, mind_id)
            if place is None:
                raise AssertionError("a mind has a home")
            await start(tx, [run], {mind_id: place.home})
        return run

    async def work(self) -> dict[str, float]:
        """Run what is due until nothing is; return the seconds that each phase took, queue included."""
        took: dict[str, float] = {}
        ended: list[Settlement] = []
        while True:
            began = time.perf_counter()
            turnover = await self.worker.cycle(ended, {"pass": 1})
            if not turnover.granted:
                return took
            (claim,) = turnover.granted
            settled = await self.executor.run(JobContext(claim, self.database))
            ended = [] if settled is None else [settled]
            took[str(claim.payload["phase"])] = time.perf_counter() - began


@asynccontextmanager
async def opened(*, quick: bool) -> AsyncIterator[Bench]:
    """Fill a database and open an app on it."""
    many, messages, times = (QUICK_MINDS, QUICK_MESSAGES, QUICK_TIMES) if quick else (MINDS, MESSAGES, TIMES)
    rooms, entries = (minds.QUICK_ROOMS, minds.QUICK_ENTRIES) if quick else (minds.ROOMS, minds.ENTRIES)
    async with minds.opened_database() as database:
        say("filling a mind and an archive")
        mind = await minds.fill(database, rooms=rooms, entries=entries, times=times)
        async with database.transaction(long=True) as tx:
            await tx.execute(_TALK, list(mind.rooms), messages // rooms, mind.people[0])
            await tx.execute(_COUNTED, list(mind.rooms))
            await tx.execute("analyze")
        model = ModelSettings(name="instant", base_url="http://127.0.0.1:9/v1")
        with temporary_home() as home:
            settings = Settings.model_validate({"home": home, "database_url": database.dsn, "sample": False})
            async with open_app(
                settings.model_copy(update={"models": (Model(model),)}),
                frozenset({Role.WORKER}),
                say=say,
                front_ends=lambda database, clock, readable: [],
                connect_model=lambda settings, limits: SilentModel(),
                log_file=home / "voidbot.log",
            ) as app:
                parts = app.parts
                executor = Executor(
                    app.database, kinds_of(parts), app.clock, LastWords(parts.notices), parts.metrics.observe
                )
                worker = await Incarnation.open(app.database, {}, None)
                try:
                    yield Bench(app, mind, executor, times, many, itertools.count(1), worker)
                finally:
                    await worker.leave()
                    worker.close()


async def group_of(bench: Bench, place: int) -> str:
    """Return the audience group of one of the rooms."""
    async with bench.database.transaction(durable=False) as tx:
        groups = await bench.app.parts.minds.loader.groups.load(tx, bench.mind.mind_id)
    return groups[bench.mind.rooms[place]]


async def skip(bench: Bench) -> Mapping[str, object]:
    """A run that the gate ends: nothing new was said in its group."""
    group, took = await group_of(bench, 1), []
    async with bench.database.transaction() as tx:
        await tx.execute("delete from voidbot.messages where room_id = $1", bench.mind.rooms[1])
        await tx.execute(
            "update voidbot.state_entries set retired_at = updated_at, retired_reason = 'x'"
            " where sources && array[$1::bigint] and retired_at is null",
            bench.mind.rooms[1],
        )
    calls = 0
    for _ in range(bench.times):
        run = await bench.begin(PassName.RUMINATION, group)
        took.append((await bench.work())["gate"])
        async with bench.database.transaction(durable=False) as tx:
            found = await passes.find(tx, run.id)
        calls += 0 if found is None else found.asks
    return {**spread_ms(took), "calls": calls}


async def whole_run(bench: Bench) -> Mapping[str, object]:
    """A run of thinking in the largest group, with a model that takes no time; and its packet."""
    group, took, tokens = await group_of(bench, 0), [], 0
    by_phase: dict[str, list[float]] = {}
    for _ in range(bench.times):
        run = await bench.begin(PassName.RUMINATION, group)
        phases = await bench.work()
        took.append(sum(phases.values()))
        for phase, seconds in phases.items():
            by_phase.setdefault(phase, []).append(seconds)
        async with bench.database.transaction(durable=False) as tx:
            rows = await passes.list_phases(tx, run.id)
        tokens = max(tokens, *(row.use.tokens_in for row in rows))
    return {**spread_ms(took), "phases": {phase: spread_ms(each)["p50"] for phase, each in by_phase.items()}}


async def mood_step(bench: Bench) -> Mapping[str, object]:
    """A step with 32 candidates, 64 pressures and 64 threads, commit included: one that is written, and one at rest."""
    mind_id = "many:1"
    took: list[float] = []
    rest: list[float] = []
    await _many(bench)
    async with bench.database.transaction() as tx:
        mind = await state.lock_mind(tx, mind_id)
        every = [*_threads(64), *_pressures(64), *_candidates(32)]
        await state.save(tx, mind, [(each, entry_hash(each), 1) for each in every])
    for _ in range(bench.times):
        async with bench.database.transaction() as tx:  # so long ago that the next step is written
            await tx.execute(_LONG_AGO, mind_id)
        for steps in (took, rest):
            await bench.begin(PassName.MOOD, WHOLE_MIND, mind_id)
            steps.append((await bench.work())["apply"])
    async with bench.database.transaction(durable=False) as tx:
        written = await tx.fetchval(_WRITTEN, mind_id)
    if written < bench.times:
        raise AssertionError("a step that is measured as written is written")
    return {**spread_ms(took), "at_rest": spread_ms(rest)}


async def tick(bench: Bench) -> Mapping[str, object]:
    """A tick of the scheduler over so many minds: one at which nothing is due, and one at which every mood is."""
    await _many(bench)
    planner, now = passes_of(bench.app.parts).planner, bench.app.clock.now()
    idle: list[float] = []
    busy: list[float] = []
    for n in range(4):
        at = now + n * timedelta(minutes=5)
        for took in (busy, idle):
            began = time.perf_counter()
            async with bench.database.transaction() as tx:
                await planner.claim_due(tx, at)
            took.append(time.perf_counter() - began)
        async with bench.database.transaction() as tx:
            await tx.execute("update voidbot.pass_runs set state = 'finished' where state = 'ready'")
    return {"minds": bench.many, "busy": spread_ms(busy), "idle": spread_ms(idle)}


async def _many(bench: Bench) -> None:
    async with bench.database.transaction() as tx:
        if await tx.fetchval("select count(*) from voidbot.communities where platform = 'many'") == 0:
            await tx.execute(_MANY, bench.many)


FIGURES: Mapping[str, Callable[[Bench], Awaitable[Mapping[str, object]]]] = {
    "run": whole_run,
    "skip": skip,
    "mood_step": mood_step,
    "tick": tick,
}
_THOUGHT = {
    "target": Target(kind=TargetKind.LORE, id="amps"),
    "summary": "The amps are heavy.",
    "claim": "Two people carry one.",
    "action_implication": "Find a trolley.",
    "anchors_missing": True,
}


def _entry(id_: str, body: Body) -> Entry:
    return Entry(
        id=EntryId(id_), version=1, body=body, sources=frozenset({RoomId(1)}), people=frozenset({PersonId(1)}),
        created_at=STARTED, updated_at=STARTED,
    )  # fmt: skip


def _threads(count: int) -> list[Entry]:
    body = Thread(topic="amps", desire_to_speak=0.4, tension="Nobody has one.", **_THOUGHT)  # type: ignore[arg-type]  # fields as they are
    return [_entry(f"thread{n}", body) for n in range(count)]


def _pressures(count: int) -> list[Entry]:
    body = PressureItem(kind=Pressing.ACTIVE_TENSION, intensity=0.2, **_THOUGHT)  # type: ignore[arg-type]  # fields as they are
    return [_entry(f"pressure{n}", body) for n in range(count)]


def _candidates(count: int) -> list[Entry]:
    body = Candidate(
        kind=CandidateKind.RIPE_THOUGHT_SHARE, summary="A trolley", draft="Who has a trolley?", priority=0.2,
        expires_at=datetime.now(UTC) + timedelta(days=1),  # noqa: TID251  # a benchmark lives by the real clock
    )  # fmt: skip
    return [_entry(f"say{n}", body) for n in range(count)]


async def _run(names: list[str], *, quick: bool) -> None:
    async with opened(quick=quick) as bench:
        for name in names:
            say(f"measuring {name}")
            line = await FIGURES[name](bench)
            print(json.dumps({"figure": name, **line, "load": load()}), flush=True)


def main() -> None:
    """Print a line for each figure that is asked for; all of them if none is."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--quick", action="store_true", help="a small mind: shows that it runs, no more")
    flags.add_argument("figure", nargs="*", choices=[*FIGURES, []], help="which figures; all of them by default")
    given = flags.parse_args()
    asyncio.run(_run(given.figure or list(FIGURES), quick=given.quick))


if __name__ == "__main__":
    main()
