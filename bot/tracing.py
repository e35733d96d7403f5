"""The id given at intake, on every log line of a job's run."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel

from bot.observability import correlated
from core.domain.jobs import Outcome
from core.jobs.executor import JobContext

P = TypeVar("P", bound=BaseModel)
Run = Callable[[JobContext, P], Awaitable[Outcome]]


def traced(run: Run[P]) -> Run[P]:
    """Let every log line of a run carry the id given at intake."""

    async def with_id(ctx: JobContext, payload: P) -> Outcome:
        with correlated(ctx.job.trace or f"job-{ctx.job.id}", room=ctx.job.room_id, attempt=ctx.job.attempt):
            return await run(ctx, payload)

    return with_id
