"""Several processes at one room: order stays, nothing is said twice, and who lost the lease writes nothing."""

import os
import signal
from functools import partial

import pytest

from tests.crash.child import answer_to, state_of
from tests.crash.platform import Behaviour, Platform
from tests.crash.processes import PATIENCE_S, Forks, world
from tests.flows.line import until

ROWS = """
select (select count(*) from voidbot.outbox) || '/' || (select count(*) from queue.done)
    || '/' || (select string_agg(state || attempt, ',') from voidbot.outbox_parts)
    || '/' || (select count(*) from voidbot.receipts)
"""
OF_PROCESS = "where info ->> 'pid' = $1"


@pytest.mark.field("F036")
async def test_two_workers_at_one_room_keep_its_order_and_double_nothing(forks: Forks, fresh_dsn: str) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.TERMINAL)) as here:
        tokens = [here.platform.ask() for _ in range(12)]
        with forks.living(fresh_dsn, here.platform, listens=False), forks.living(fresh_dsn, here.platform):
            await here.through()
        assert here.answered_once(*tokens)
        assert [message.reply_to for message in here.platform.messages] == [f"m-{token}" for token in tokens]


@pytest.mark.field("F033")
async def test_two_gateways_that_hear_the_same_events_answer_each_once(forks: Forks, fresh_dsn: str) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.TELEGRAM)) as here:
        tokens = [here.platform.ask(room=f"room-{n}") for n in range(6)]
        with forks.living(fresh_dsn, here.platform), forks.living(fresh_dsn, here.platform):
            await here.through()
        assert here.answered_once(*tokens)


@pytest.mark.field("F033")
async def test_an_event_delivered_again_after_a_restart_is_not_answered_again(forks: Forks, fresh_dsn: str) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.TELEGRAM)) as here:
        token = here.platform.ask()
        await here.finish()
        here.platform.deliver_again(token)
        await here.finish()
        assert here.answered_once(token)
        assert await here.value("select count(*) from voidbot.inbox") == 1


@pytest.mark.parametrize("point", ["model.answered", "F.committed"])
async def test_a_worker_that_slept_past_its_lease_writes_nothing(forks: Forks, fresh_dsn: str, point: str) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.DISCORD)) as here:
        token = here.platform.ask()
        with forks.living(fresh_dsn, here.platform, point=point, act="stop") as sleeper:
            await until(lambda: state_of(sleeper) == "T", PATIENCE_S)
            await here.later()
            await here.finish()
            assert not await here.value(f"select exists (select from queue.worker {OF_PROCESS})", str(sleeper))
            before = await here.value(ROWS)
            os.kill(sleeper, signal.SIGCONT)
            await until(partial(here.value, f"select exists (select from queue.worker {OF_PROCESS})", str(sleeper)))
            assert await here.value(ROWS) == before
            assert here.platform.answers(token) == [answer_to(token)]
            assert len(here.platform.messages) == 1
