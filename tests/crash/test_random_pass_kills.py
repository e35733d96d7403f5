"""Many kills at random points of a mind at work: nothing taken up twice or lost, nothing said twice or stuck."""

import json
import os
import random
import re
import signal
from collections import Counter
from dataclasses import dataclass, field

import pytest

from core.domain.passes import PassName, RunState
from core.store import passes
from tests.crash.platform import Behaviour
from tests.crash.processes import PATIENCE_S, Forks
from tests.crash.thoughts import Mind, thinking
from tests.flows.line import until
from tests.flows.passes.cellar import distilled, is_sleep, notes_of, taken_up

KILLS = int(os.environ.get("VOIDBOT_TEST_KILLS", "1000"))  # noqa: TID251  # the suite's own switch
LATEST_POINT = 110  # a rumination that says something passes about ninety
LEASE_S = 4.0
HOUR_S = 3600.0
FREE = {"speech_gap_minutes": 0, "speech_room_daily": 1000, "speech_mind_daily": 1000}
"""Speech as often as there is something to say."""
OFTEN = (PassName.RUMINATION,) * 3 + tuple(PassName)
HEARD = re.compile(r"<<data \S+ (m\d+) p\d+ \S+ in (r\d+)[^\n]*\n[^<]*?\b(matter\d+)")
NOTE = re.compile(r"<<data \S+ (n\d+)[^\n]*\n[^<]*?\b(matter\d+)")
ACTIVE = "select count(*) from voidbot.pass_runs where state in ('ready', 'running', 'waiting')"
WAITS = "select count(*) from voidbot.outbox where state in ('ready', 'sending')"
DOUBLED = """
select t.name, count(*) from voidbot.state_operations o, unnest(o.touches) t(name)
where o.verdict = 'accepted' and o.op = any($1) group by 1 having count(*) > 1
"""
MADE = ["record_short_term_memory", "queue_candidate_intervention", "propose_memory_distillation"]
SAID = """
select c.entry_id, c.body ->> 'status' as status, c.body ->> 'draft' as draft,
  coalesce(array_agg(o.state order by o.id) filter (where o.id is not null), '{}') as sent,
  (select count(*) from voidbot.state_entries r
    where r.type = 'receipt' and r.body ->> 'interventionId' = c.entry_id) as receipts
from voidbot.state_entries c
left join voidbot.outbox o on o.kind = 'speech' and o.dedupe like '%' || c.entry_id || '%'
where c.type = 'candidate' group by 1, 2, 3, c.type, c.mind_id, c.body
"""


def words_of(mark: str) -> str:
    """Words that no other matter has."""
    dice = random.Random(mark)
    spoken = ["".join(dice.choice("bdfgklmnprstvz") + dice.choice("aeiou") for _ in range(3)) for _ in range(9)]
    return f"About {mark}: {' '.join(spoken)}."


def answers(system: str, text: str) -> str:
    """Take up the last matter that was heard; distil each note of the day."""
    if is_sleep(system):
        return json.dumps([distilled(handle, mark, words_of(mark)) for handle, mark in NOTE.findall(notes_of(text))])
    heard = HEARD.findall(text)
    if not heard:
        return "[]"
    message, room, mark = heard[-1]
    return json.dumps(taken_up(message, room, mark, words_of(mark), words_of(mark)))


@dataclass
class Work:
    """What the mind was given to do. `matters`: what was said before each run that thinks it over."""

    mind: Mind
    dice: random.Random
    matters: dict[int, str] = field(default_factory=dict)
    runs: list[int] = field(default_factory=list)

    async def more(self) -> None:
        """Let somebody say something, and a run begin."""
        name, n = self.dice.choice(OFTEN), len(self.runs) + 1
        if name is PassName.RUMINATION:
            await self.mind.hear(f"what about matter{n}?")
        run_id = await self.mind.begin(name, f"n{n}")
        self.runs.append(run_id)
        if name is PassName.RUMINATION:
            self.matters[run_id] = f"matter{n}"

    async def until_killed(self) -> None:
        """Have one process work until it dies at a random point, with always something to do."""
        world = self.mind.world
        victim = self.mind.spawn(point="any", nth=self.dice.randint(1, LATEST_POINT), passes=FREE)

        async def dead() -> bool:
            if await world.value(ACTIVE) == 0:
                await self.more()
            return world.forks.code(victim) is not None

        try:
            await until(dead, PATIENCE_S)
            assert world.forks.code(victim) == -signal.SIGKILL
        finally:
            world.forks.end(victim)
        idle = await world.value(ACTIVE) + await world.value(WAITS) == 0
        await self.mind.later(HOUR_S if idle and self.dice.random() < 0.5 else LEASE_S)

    async def judge(self) -> Counter[str]:
        """Return how the runs and what was to be said ended; fail if anything was lost, doubled or left half done."""
        mind, found = self.mind, Counter[str]()
        connection = mind.world.connection
        await mind.outcome(self.runs[-1])  # the journal folds to what is stored
        assert await connection.fetch(DOUBLED, MADE) == []
        notes = {row[0] for row in await connection.fetch("select entry_id from voidbot.state_entries")}
        async with mind.days.database.transaction(durable=False) as tx:
            for run_id in self.runs:
                run = await passes.find(tx, run_id)
                assert run is not None and not run.state.active, run
                found[f"{run.name} {run.state}{f': {run.reason}' if run.reason else ''}"] += 1
                if run_id in self.matters and run.state is RunState.FINISHED:
                    assert f"note-{self.matters[run_id]}" in notes, f"lost: {run_id}"
        shown = Counter(message.text for message in mind.platform.messages)
        for row in await connection.fetch(SAID):
            sent, times = row["sent"], shown.pop(row["draft"], 0)
            assert row["status"] != "sending" and not {"ready", "sending"} & set(sent), f"stuck: {dict(row)}"
            assert times <= 1 and sent.count("sent") + sent.count("unknown") <= 1, f"doubled: {dict(row)}"
            over = [each for each in sent if each in ("sent", "unknown")]
            assert row["receipts"] == len(over) and (row["status"] == "spoken") == bool(over), f"unproved: {dict(row)}"
            assert times == 1 or "sent" not in sent, f"lost: {dict(row)}"
            assert times == 0 or over, f"said unknowingly: {dict(row)}"
            found[f"speech {over[0] if over else row['status']}"] += 1
        assert not shown, "said and not meant"
        return found


@pytest.mark.long
@pytest.mark.field("F035")
@pytest.mark.parametrize("behaviour", list(Behaviour))
async def test_random_kills_of_a_mind_at_work_lose_and_double_nothing(
    minded: Forks, fresh_dsn: str, behaviour: Behaviour
) -> None:
    async with thinking(minded, fresh_dsn, behaviour, answer=answers) as mind:
        work = Work(mind, random.Random(f"{behaviour}"))
        kills = max(1, KILLS // len(Behaviour))
        for _ in range(kills):
            await work.until_killed()
        await mind.finish(passes=FREE)
        found = await work.judge()
        print(f"{behaviour}: {kills} kills, {len(work.runs)} runs, {dict(sorted(found.items()))}")
        if behaviour is not Behaviour.TELEGRAM:
            assert found["speech unknown"] == 0
