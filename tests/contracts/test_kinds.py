"""Every kind of job with every way to end: the queue does what the table of errors says."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest

from bot.kinds import kinds_of
from core.domain.errors import (
    BadOutput,
    BudgetRefused,
    Conflict,
    InputRejected,
    Misconfigured,
    Refused,
    StaleState,
    TimedOut,
    TooLong,
    Unavailable,
)
from core.domain.jobs import Cancel, Discard, NewJob, Ok, Outcome, Retry, Snooze
from core.jobs.executor import AnyKind, JobContext
from core.store import jobs
from core.store.engine import Database
from tests.fakes import ScriptedModel
from tests.flows.line import running_line
from tests.queue.harness import at_work, put, until, worker

SPENT = BudgetRefused("room", 10, 10, "answers", datetime(2099, 1, 1, tzinfo=UTC))
FAR = timedelta(minutes=20).total_seconds()


@dataclass(frozen=True)
class Case:
    """A way to end a run, and the states in which it leaves the job."""

    name: str
    how: Outcome | Exception
    ends: tuple[str, ...]


CASES = [
    Case("ok", Ok(), ("done",)),
    Case("cancel", Cancel("withdrawn"), ("cancelled",)),
    Case("discard", Discard("no use"), ("discarded",)),
    Case("snooze", Snooze(3600), ("waiting", "delayed")),
    Case("retry", Retry(3600, "later"), ("waiting", "delayed")),
    Case("last retry", Retry(0, "never", at_most=1), ("dead",)),
    Case("input rejected", InputRejected("input: no"), ("discarded",)),
    Case("too long", TooLong("input: long"), ("discarded",)),
    Case("bad output", BadOutput("output: bad"), ("discarded",)),
    Case("refused", Refused("model: refused"), ("discarded",)),
    Case("misconfigured", Misconfigured("model: no key"), ("discarded",)),
    Case("stale", StaleState("turn: changed"), ("waiting", "delayed", "running", "ready", "dead")),
    Case("conflict", Conflict("row: lost"), ("waiting", "delayed", "running", "ready", "dead")),
    Case("down", Unavailable("model: down", retry_after_s=500.0), ("waiting", "delayed")),
    Case("down for long", Unavailable("model: down", retry_after_s=FAR), ("waiting", "delayed")),
    Case("timed out", TimedOut("model: slow", retry_after_s=500.0), ("waiting", "delayed")),
    Case("spent", SPENT, ("discarded",)),
]


@pytest.fixture
async def kinds(fresh_dsn: str) -> AsyncIterator[tuple[dict[str, AnyKind], Database]]:
    """Every kind that the composition root makes, and its database; nothing works there."""
    async with running_line(fresh_dsn, model=ScriptedModel(), works=False) as line:
        yield kinds_of(line.app.parts), line.database


def _payload(kind: AnyKind) -> dict[str, object]:
    required = {name: field.annotation for name, field in kind.payload.model_fields.items() if field.is_required()}
    some = {str: "one", int: 1}
    fields = {
        name: next(iter(annotation))
        if isinstance(annotation, type) and issubclass(annotation, StrEnum)
        else some.get(annotation, (1,))
        for name, annotation in required.items()
    }
    return dict(kind.payload.model_validate(fields).model_dump(mode="json"))


async def test_every_kind_ends_as_the_table_says(kinds: tuple[dict[str, AnyKind], Database]) -> None:
    table, database = kinds
    assert set(table) >= {"reply", "command", "send", "upkeep"}
    runs: dict[int, Case] = {}

    async def run(ctx: JobContext, _: object) -> Outcome:
        case = runs[int(ctx.job.id)]
        if isinstance(case.how, Exception):
            raise case.how
        return case.how

    made = [replace(kind, run=run, pool="chat") for kind in table.values()]
    new, wanted = [], []
    for kind in made:
        for case in CASES:
            wanted.append((kind.name, case))
            new.append(
                NewJob(
                    kind=kind.name, lane=f"{kind.name}:{case.name}", pool="chat", payload=_payload(kind), max_attempts=3
                )
            )
    ids = await put(database, *new)
    runs.update({int(job_id): case for job_id, (_, case) in zip(ids, wanted, strict=True)})
    names = [f"{name}: {case.name}" for name, case in wanted]
    ends = {name: case.ends for name, (_, case) in zip(names, wanted, strict=True)}
    states: dict[str, str | None] = {}

    async def settled() -> bool:
        async with database.transaction(durable=False) as tx:
            shown = [await jobs.show(tx, job_id) for job_id in ids]
        states.update(zip(names, (None if each is None else each.state.value for each in shown), strict=True))
        under_way = [name for name, state in states.items() if state in ("ready", "running") and not _soon(name)]
        return not under_way and "queued" not in states.values()

    async with at_work(worker(database, *made)):
        await until(settled)
    assert {name: state for name, state in states.items() if state not in ends[name]} == {}


def _soon(name: str) -> bool:
    """Return whether it is tried again at once, so that it may be anywhere on its way."""
    return name.endswith((": stale", ": conflict"))
