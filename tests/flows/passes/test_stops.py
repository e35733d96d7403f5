"""A process that ends anywhere in a pass: the next one goes on, and what the pass does is done once."""

from typing import Any

import pytest

from core.domain.passes import PassName, RunState
from core.store.engine import Database
from tests.conftest import on_database
from tests.databases import Clones
from tests.fakes import ScriptedModel
from tests.flows.passes.cellar import begin, outcome, settled, thinks
from tests.flows.passes.days import Stopped, days

EVERY_NTH = 20
"""Each day the process ends at every so many points; in long runs at all of them."""


async def lived_through(clones: Clones, name: PassName, at: int | None) -> tuple[dict[str, Any], list[str]]:
    """Go through one run; the process ends at a point of it, and another goes on."""
    clone = await clones.take()
    dsn = on_database(clones.server, clone)
    database = await Database.open(dsn, size=4)
    try:
        async with days(dsn, database, model=ScriptedModel(thinks)) as here:
            await settled(here)
            await here.move_to(12)
            if name is PassName.SLEEP:
                await begin(here, PassName.RUMINATION)
                await here.work()
            run_id = await begin(here, name)
            here.stops.met, here.stops.at, here.stops.points = 0, at, []
            try:
                await here.work()
            except Stopped:
                await here.take_over()
                here.stops.at = None
                await here.work()
            shown = len(here.line.front_end.shown)
            return await outcome(database, run_id) | {"shown": shown}, here.stops.points
    finally:
        await database.close()
        await clones.give_back(clone)


@pytest.mark.parametrize("stride", [EVERY_NTH, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", list(PassName))
async def test_wherever_the_process_ends_the_pass_is_done_once(clones: Clones, name: PassName, stride: int) -> None:
    whole, points = await lived_through(clones, name, None)
    assert whole["state"] is RunState.FINISHED, whole
    wrong = {}
    for at in range(stride, len(points) + 1, stride):
        found, _ = await lived_through(clones, name, at)
        if found != whole:
            wrong[at, points[at - 1]] = {key: found[key] for key in found if found[key] != whole[key]}
    assert wrong == {}
