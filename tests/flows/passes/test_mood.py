"""Mood drift as it runs by itself: steps that are worth a row, naps, the waking by a mention, sleep begun once."""

from datetime import timedelta
from typing import Any

from core.domain.mind.bodies import Pressure, Sleep
from core.domain.passes import PassName, RunState
from core.store import state
from core.store.engine import Database
from tests.flows.passes.days import Days, days

MINUTES = timedelta(minutes=1)
MIND = "console:console"


async def bodies(here: Days) -> dict[str, Any]:
    async with here.database.transaction(durable=False) as tx:
        held = await state.list_live(tx, MIND, ["sleep", "pressure", "mood"])
    return {each.entry.type: each.entry.body for each in held}


async def rows(here: Days, op: str) -> int:
    return int(str(await here.line.value("select count(*) from voidbot.state_operations where op = $1", op)))


async def test_pressure_rises_in_silence_and_rest_is_written_once_an_hour(fresh_dsn: str, database: Database) -> None:
    async with days(fresh_dsn, database) as here:
        await here.say("Ana", "hello there")
        await here.move_to(12)
        await here.pass_(15 * MINUTES, here.now + timedelta(hours=8))
        pressure = (await bodies(here))["pressure"]
        assert isinstance(pressure, Pressure)
        assert round(pressure.need_to_speak, 2) == 0.50
        runs = await here.runs(name=PassName.MOOD)
        assert len(runs) == 32
        assert {run.state for run in runs} == {RunState.FINISHED}
        still = [run for run in runs if run.reason == "still"]
        assert len(still) > 10
        assert await rows(here, "update_speaking_pressure") == len(runs) - len(still)


async def test_it_naps_as_planned_and_a_mention_wakes_it(fresh_dsn: str, database: Database) -> None:
    async with days(fresh_dsn, database, timezone="UTC") as here:
        await here.say("Ana", "good night")
        await here.move_to(3, 0)
        await here.plan()
        await here.work()
        await here.move_to(3, 31)
        await here.plan()
        await here.work()
        asleep = (await bodies(here))["sleep"]
        assert isinstance(asleep, Sleep)
        assert asleep.is_napping
        before = len(here.line.front_end.shown)
        await here.say("Ana", "@void are you there?")
        awake = (await bodies(here))["sleep"]
        assert len(here.line.front_end.shown) == before + 1
        assert (awake.nap_id, awake.is_napping) == (asleep.nap_id, True)
        assert timedelta(minutes=9) < awake.awake_until - here.now <= timedelta(minutes=10)
        await here.pass_(30 * MINUTES, here.now + timedelta(hours=3))
        assert not (await bodies(here))["sleep"].is_napping
