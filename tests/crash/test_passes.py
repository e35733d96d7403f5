"""Kill -9 in every phase of every pass: another process goes on, and what the pass does is done and said once."""

from typing import Any

import pytest

from core.domain.passes import PassName, RunState
from tests.conftest import on_database
from tests.crash.platform import Behaviour
from tests.crash.processes import Forks
from tests.crash.thoughts import thinking
from tests.databases import Clones
from tests.flows.passes.cellar import DRAFT

PHASES = {PassName.RUMINATION: 6, PassName.MOOD: 2, PassName.SLEEP: 4, PassName.UPKEEP: 2}
OUTSIDE = {PassName.RUMINATION: (3, 4), PassName.MOOD: (), PassName.SLEEP: (2, 3), PassName.UPKEEP: (2,)}
"""The phases in which nothing is open while something is called."""
ASKS = {(PassName.RUMINATION, 3), (PassName.SLEEP, 2)}
IN_A_PHASE = ("hold.after", "settle.before", "settle.after", "done")
WHOLE = {
    "state": RunState.FINISHED,
    "reason": "",
    "journal": [
        ("advance_candidate", "accepted", "sending", 1),
        ("mark_candidate_spoken", "accepted", "spoken", 1),
        ("queue_candidate_intervention", "accepted", "queued", 1),
        ("record_delivery_receipt", "accepted", "recorded", 1),
        ("record_last_run", "accepted", "added", 1),
        ("record_reviewed_messages", "accepted", "added", 1),
        ("record_short_term_memory", "accepted", "appended", 1),
    ],
    "shown": [DRAFT],
}
"""What a rumination leaves that says something, however it went."""


MAYBE_SENT = ("F.committed", "send.called", "send.arrived", "G.written")
SAYING = ("F.written", *MAYBE_SENT, "G.committed", "settle.before", "settle.after")
"""Where a process can end that sends: the platform's part, and the receipt that the mind gets."""
UNSEEN = ("F.committed", "send.called")
CERTAIN, DOUBTFUL = "sent/spoken/sent", "unknown/spoken/unknown"


def points_of(name: PassName) -> list[tuple[int, str]]:
    """Return the points at which a process is killed in a run: of each phase, and in phases that call also after it."""
    inside = [(phase, point) for phase in range(1, PHASES[name] + 1) for point in IN_A_PHASE]
    return inside + [(phase, "pass.called") for phase in OUTSIDE[name]]


async def lived_through(
    clones: Clones, forks: Forks, name: PassName, kill: tuple[int, str] | None = None
) -> tuple[dict[str, Any], int]:
    """Go through one run, killed at a point or not; return what it left behind and how often a model was asked."""
    clone = await clones.take()
    try:
        speaks = name is PassName.RUMINATION
        async with thinking(forks, on_database(clones.server, clone), speaks=speaks) as mind:
            await mind.prepare(name)
            run_id = await mind.begin(name)
            if kill is not None:
                phase, point = kill
                await mind.die_at(f"{phase}:{point}")
            await mind.finish()
            return await mind.outcome(run_id), mind.endpoint.calls
    finally:
        await clones.give_back(clone)


async def test_a_run_killed_in_phase_after_phase_is_done_and_said_once(minded: Forks, fresh_dsn: str) -> None:
    """The model has answered and nothing was saved; an answer is applied, not committed; what is said is queued."""
    async with thinking(minded, fresh_dsn) as mind:
        run_id = await mind.begin(PassName.RUMINATION)
        await mind.die_at("3:pass.called")
        await mind.die_at("4:settle.after", phase=3)
        await mind.die_at("5:done", phase=4)
        await mind.finish()
        left = await mind.outcome(run_id)
        assert {key: left[key] for key in WHOLE} == WHOLE
        assert (mind.endpoint.calls, mind.platform.sends) == (2, 1)
        assert await mind.proofs() == [CERTAIN]


@pytest.mark.parametrize(
    ("behaviour", "known"),
    [(Behaviour.TELEGRAM, DOUBTFUL), pytest.param(Behaviour.DISCORD, CERTAIN, marks=pytest.mark.long)],
)
async def test_between_the_sending_and_the_receipt_what_folds_is_certain_and_nothing_else_is_sent_again(
    minded: Forks, fresh_dsn: str, behaviour: Behaviour, known: str
) -> None:
    async with thinking(minded, fresh_dsn, behaviour) as mind:
        run_id = await mind.begin(PassName.RUMINATION)
        await mind.die_at("said:send.arrived")
        await mind.finish()
        left = await mind.outcome(run_id)
        assert {key: left[key] for key in WHOLE} == WHOLE
        assert await mind.proofs() == [known]
        assert mind.platform.sends == (1 if known == DOUBTFUL else 2)


@pytest.mark.long
@pytest.mark.parametrize("name", list(PassName))
async def test_wherever_the_process_is_killed_a_pass_is_done_once(
    clones: Clones, minded: Forks, name: PassName
) -> None:
    whole, calls = await lived_through(clones, minded, name)
    assert whole["state"] is RunState.FINISHED
    wrong = {}
    for phase, point in points_of(name):
        found, asked = await lived_through(clones, minded, name, (phase, point))
        again = (name, phase) in ASKS and point != "done" and point != "hold.after"
        if found != whole or asked != calls + again:
            wrong[phase, point] = {"asked": asked} | {key: found[key] for key in found if found[key] != whole[key]}
    assert wrong == {}


@pytest.mark.long
@pytest.mark.parametrize("behaviour", list(Behaviour))
@pytest.mark.parametrize("point", SAYING)
async def test_what_is_said_unasked_is_said_once_wherever_its_process_is_killed(
    minded: Forks, fresh_dsn: str, behaviour: Behaviour, point: str
) -> None:
    async with thinking(minded, fresh_dsn, behaviour) as mind:
        run_id = await mind.begin(PassName.RUMINATION)
        await mind.die_at(f"said:{point}")
        await mind.finish()
        doubtful = behaviour is Behaviour.TELEGRAM and point in MAYBE_SENT
        left = await mind.outcome(run_id)
        unseen = doubtful and point in UNSEEN
        assert {key: left[key] for key in WHOLE} == WHOLE | ({"shown": []} if unseen else {})
        assert await mind.proofs() == [DOUBTFUL if doubtful else CERTAIN]
        assert mind.platform.sends <= 1 or behaviour is not Behaviour.TELEGRAM
