"""What readiness asks of this process's parts: Postgres, schema, workers, queue, front ends."""

from collections.abc import Mapping

from bot.web.checks import Checks, Figures, FrontEndState
from core.ports import FrontEnd
from core.store import jobs, places
from core.store.engine import Database, current_revision, head_revision

HEARD_WITHIN_S = 120.0
"""A platform that was not heard for longer is not connected; it answers a heartbeat or a poll far sooner."""
_STATES = ("ready", "running", "waiting", "later", "dead")


def checks_of(database: Database, front_ends: Mapping[str, FrontEnd]) -> Checks:
    """Return the questions of `/readyz`; each asks the store anew."""

    async def answers() -> None:
        async with database.transaction(durable=False) as tx:
            await tx.fetchval("select 1")

    async def schema() -> tuple[str | None, str]:
        return await current_revision(database.dsn), head_revision()

    async def tick_age_s() -> float | None:
        async with database.transaction(durable=False) as tx:
            return await jobs.youngest_beat_s(tx)

    async def oldest_ready_s() -> float | None:
        async with database.transaction(durable=False) as tx:
            return await jobs.oldest_ready_s(tx)

    async def heard() -> Mapping[str, FrontEndState]:
        return {name: _state(front_end.silent_s()) for name, front_end in front_ends.items()}

    async def figures() -> Figures:
        async with database.transaction(durable=False) as tx:
            queue: dict[tuple[str, str], int] = {}
            for each in await jobs.stats(tx):
                for state in _STATES:
                    key = (each.pool, state)
                    queue[key] = queue.get(key, 0) + getattr(each, state)
            return Figures(queue, await places.count_rooms(tx))

    return Checks(
        database=answers,
        schema=schema,
        tick_age_s=tick_age_s,
        oldest_ready_s=oldest_ready_s,
        front_ends=heard,
        figures=figures,
    )


def _state(silent_s: float | None) -> FrontEndState:
    if silent_s is None:
        return FrontEndState(True, "in this process")
    return FrontEndState(silent_s <= HEARD_WITHIN_S, f"last heard {silent_s:.0f} s ago")
