"""A process that forks whole bots that think by themselves, or plan it, each told in which phase to die."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import structlog

from bot.app import Role, open_app
from bot.pass_settings import PassSettings
from core.jobs.executor import Fault
from tests.crash.child import main, on_its_platform
from tests.fakes import ManualClock
from tests.flows.line import SETTINGS, settings_for

TICKED = "ticked"
"""Where a planning process says that it has planned."""
SHIFT = "select shift from voidbot_test.clock"
DRAWN = {"quiet_hours": "", "speech_threshold": 0, "speech_threshold_open": 0}
"""Passes of a mind that thinks at any hour, and says what it has to say as soon as nothing else is in the way."""


def by_phase(fault: Fault, phase: int) -> Fault:
    """Return a hook that says where a point is: `4:settle.before` in the fourth phase of a run, `4:done` at its end.

    What a run has said has points such as `said:send.called`. `phase`: with which one the first run goes on.
    """
    phases: dict[str, int] = {}
    settling: set[str] = set()

    def hook(point: str) -> None:
        held = structlog.contextvars.get_contextvars()
        trace = str(held.get("correlation_id", ""))
        if not trace.startswith("run:"):
            fault(point)
        elif held.get("room") is not None:
            fault(f"said:{point}")
        else:
            at = phases.setdefault(trace, phase if not phases else 1)
            done = point == "commit.after" and trace in settling
            fault(f"{at}:{'done' if done else point}")
            if point == "settle.after":
                settling.add(trace)
            elif done:
                settling.discard(trace)
                phases[trace] = at + 1

    return hook


async def live(order: dict[str, Any], fault: Callable[[str], None]) -> None:
    """Think, or plan, by an order."""
    if order.get("plans"):
        await plan(order)
    else:
        await think(order, by_phase(fault, order.get("phase", 1)))


async def think(order: dict[str, Any], fault: Fault) -> None:
    """Carry out what is due, and send what comes of it."""
    clock = ManualClock()
    await clock.advance(order.get("skew_s", 0.0))
    settings = settings_for(order["dsn"], [SETTINGS.model_copy(update={"base_url": order["model"]})])
    passes = PassSettings.model_validate(DRAWN | order.get("passes", {}))
    # Shorter than an operator may choose: a test waits for it.
    settings = settings.model_copy(update={"dead_after_s": 3.0, "passes": passes})
    async with on_its_platform(order, settings, clock, fault) as app:
        assert app.worker is not None
        await app.worker.run()


async def plan(order: dict[str, Any]) -> None:
    """Plan once each time the clock of SQL was moved, and say so."""
    clock, moved = ManualClock(), timedelta()
    settings = settings_for(order["dsn"]).model_copy(update={"passes": PassSettings.model_validate(order["passes"])})
    connection = await asyncpg.connect(order["dsn"])
    async with open_app(
        settings,
        frozenset({Role.SCHEDULER}),
        say=lambda line: None,
        front_ends=lambda database, clock, readable: [],
        clock=clock,
    ) as app:
        assert app.scheduler is not None
        while True:
            shift = await connection.fetchval(SHIFT)
            if shift != moved:
                await clock.advance((shift - moved).total_seconds())
                moved = shift
                await app.scheduler.plan()
                await connection.execute("select pg_notify($1, '')", TICKED)
            await asyncio.sleep(0.001)


if __name__ == "__main__":
    # The library of the model's protocol is loaded only where it is used; a fork should find it loaded.
    import openai  # noqa: F401

    main(live)
