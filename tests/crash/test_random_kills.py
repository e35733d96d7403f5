"""Many kills at random points under a steady load: nothing lost, nothing doubled, doubt counted apart."""

import os
import random
import signal
from collections import Counter

import pytest

from tests.crash.child import answer_to
from tests.crash.platform import Behaviour, Platform
from tests.crash.processes import PATIENCE_S, Forks, World, world
from tests.flows.line import until

KILLS = int(os.environ.get("VOIDBOT_TEST_KILLS", "1000"))  # noqa: TID251  # the suite's own switch
ROOM_TURNS = 25  # a room takes thirty answers in ten minutes
BACKLOG = 4
LATEST_POINT = 90  # an answer passes about twenty-five
LEASE_S = 4.0
GAVE_UP = "select reply_to from voidbot.outbox where reason = 'gave up'"
APOLOGISED = """
select o.reply_to from voidbot.outbox o join voidbot.receipts r on r.outbox_id = o.id
where o.dedupe like 'reply:%' and (o.kind = 'notice' or r.guards ? 'cut_short')
"""


async def kill_and_feed(here: World, dice: random.Random, asked: list[str], streams: bool) -> None:
    """Let one process live until it dies at a random point, with people asking all the time."""
    victim = here.spawn(point="any", nth=dice.randint(1, LATEST_POINT), streams=streams)

    async def dead() -> bool:
        while (
            await here.value("select count(*) from voidbot.turns where state in ('open', 'running')")
            + len(here.platform.pending)
            < BACKLOG
        ):
            asked.append(here.platform.ask(f"room-{len(asked) // ROOM_TURNS}"))
        return here.forks.code(victim) is not None

    try:
        await until(dead, PATIENCE_S)
        assert here.forks.code(victim) == -signal.SIGKILL
    finally:
        here.forks.end(victim)
    await here.later(LEASE_S)


async def judge(here: World, asked: list[str]) -> Counter[str]:
    """Return how the questions ended; fail if one was lost, doubled or answered with another's answer."""
    gave_up = {row["reply_to"] for row in await here.connection.fetch(GAVE_UP)}
    apologised = {row["reply_to"] for row in await here.connection.fetch(APOLOGISED)}
    unknown = {
        row["reply_to"]
        for row in await here.connection.fetch("select reply_to from voidbot.outbox where state = 'unknown'")
    }
    found: Counter[str] = Counter()
    for token in asked:
        key, texts = f"m-{token}", here.platform.answers(token)
        assert len(texts) <= 1, f"doubled: {token}"
        if key in unknown | gave_up:
            found["unknown" if key in unknown else "gave up"] += 1
        elif key in apologised:  # its process was killed at each of three tries: one honest line
            assert len(texts) == 1, f"lost: {token}"
            found["apologised"] += 1
        else:
            assert texts == [answer_to(token)], f"lost or wrong: {token}"
            found["answered"] += 1
    return found


@pytest.mark.long
@pytest.mark.field("F035")
@pytest.mark.parametrize("behaviour", list(Behaviour))
async def test_random_kills_lose_and_double_nothing(forks: Forks, fresh_dsn: str, behaviour: Behaviour) -> None:
    dice = random.Random(f"{behaviour}")
    async with world(forks, fresh_dsn, Platform(behaviour)) as here:
        asked: list[str] = []
        for kill in range(max(1, KILLS // len(Behaviour))):
            await kill_and_feed(here, dice, asked, streams=kill % 2 == 1)
        await here.finish()
        found = await judge(here, asked)
        print(f"{behaviour}: {KILLS // len(Behaviour)} kills, {dict(found)}")
        if behaviour is not Behaviour.TELEGRAM:
            assert found["unknown"] == 0
        assert found["gave up"] <= len(asked) // 100
        assert await here.value("select count(*) from queue.reconcile()") in (0, 1)
