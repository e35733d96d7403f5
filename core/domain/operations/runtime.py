"""Operations of the clockwork: sleep, pressure to speak, mood, and how passes went."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field

from core.domain.mind.bodies import LastRun, Mood, Pressure, PressureItem, Sleep, Thread, WholeBody
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import Emitter, Facts, Needs
from core.domain.mind.speech import Candidate
from core.domain.mind.values import Anchor, Slug, Thought
from core.domain.mind.view import View, mood_of, pressure_of, sleep_of
from core.domain.mood import nudge
from core.domain.operations.base import Operation, Origin, ahead_or, anchors_or, key, new_entry, origin, write
from core.domain.pressure import Inputs, step

LONGEST_NAP = timedelta(hours=3)
LONGEST_WAKING = timedelta(minutes=10)
"""How long after a nap's end the mind may stay woken from it."""
MOST_NUDGED = 0.4
"""By how much a run of a model may move moods, all together."""
SAME = 1e-9
"""How far apart two computations of one number may be."""

_NOWHERE: Origin = (frozenset(), frozenset())
_NUMBERS = (
    "need_to_speak",
    "confession_pressure",
    "novelty_pressure",
    "recent_speech_damping",
)
BodyT = TypeVar("BodyT", bound=WholeBody)


class RecordLastRun(Operation):
    """Record how a pass went last; one entry for each pass. Refused if there was no such run."""

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT})
    operation: Literal["record_last_run"] = "record_last_run"
    last_run: LastRun

    @property
    def _id(self) -> str:
        return f"run:{self.last_run.pass_}"

    def needs(self) -> Needs:
        """Return the entry of the pass, and the run."""
        return Needs(entries=frozenset({key("last_run", self._id)}), runs=frozenset({self.last_run.run_id}))

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether there was such a run."""
        if self.last_run.run_id not in facts.runs:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "lastRun.runId", "is no run")
        return ahead_or(facts, "lastRun.ranAt", self.last_run.ran_at)

    def apply(self, view: View, facts: Facts) -> str:
        """Let it stand in place of the run before."""
        return write(view, self._id, self.last_run, facts, origin(facts))


class UpdateSleepCycle(Operation):
    """Set whether the mind naps, until when, and when it will again.

    Refused if a nap is longer than three hours, begins while another is on, or has the id of an earlier one.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.MOOD, Emitter.PARENT, Emitter.OPERATOR})
    operation: Literal["update_sleep_cycle"] = "update_sleep_cycle"
    sleep: Sleep

    def needs(self) -> Needs:
        """Return how it sleeps, and the notes from which dreams take their themes."""
        themes = frozenset({"short_term"}) if self.sleep.active_dream_themes else frozenset[str]()
        return Needs(entries=frozenset({key("sleep", "sleep")}), live=themes)

    def rewrites(self) -> tuple[Key, ...]:
        """Return how it sleeps."""
        return (key("sleep", "sleep"),)

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether such a nap can be."""
        it = self.sleep
        nap = (it.nap_id, it.nap_started_at, it.nap_ends_at)
        if not it.is_napping:
            given = any(each is not None for each in nap)
            return Rejected(RejectionCode.CONTRADICTION, "sleep.isNapping", "a nap is given") if given else None
        if it.nap_id is None or it.nap_started_at is None or it.nap_ends_at is None:
            return Rejected(RejectionCode.MISSING_FIELD, "sleep.napId", "a nap has an id, a start and an end")
        if not it.nap_started_at < it.nap_ends_at <= it.nap_started_at + LONGEST_NAP:
            return Rejected(RejectionCode.OUT_OF_RANGE, "sleep.napEndsAt", "a nap lasts up to three hours")
        if it.awake_until is not None and it.awake_until > it.nap_ends_at + LONGEST_WAKING:
            return Rejected(RejectionCode.OUT_OF_RANGE, "sleep.awakeUntil", "is long after the nap")
        return ahead_or(facts, "sleep.napStartedAt", it.nap_started_at) or self._new_nap_or(sleep_of(view))

    def apply(self, view: View, facts: Facts) -> str:
        """Let it stand in place of what was. Its themes are words from rooms; all else is made of none."""
        there = view.find("sleep", "sleep")
        if there is not None and there.body == self.sleep:
            return "unchanged"
        rooms, people = self._origin(view)
        if there is None:
            view.put(new_entry("sleep", self.sleep, facts, (rooms, people)))
        else:
            view.put(replace(there.changed(facts.now, self.sleep), sources=rooms, people=people))
        return "napping" if self.sleep.is_napping else "awake"

    def _new_nap_or(self, before: Sleep) -> Rejected | None:
        it = self.sleep
        if before.is_napping and (it.nap_id, it.nap_started_at) == (before.nap_id, before.nap_started_at):
            return None
        if it.nap_id in (before.nap_id, before.maintained_nap_id):
            return Rejected(RejectionCode.ID_TAKEN, "sleep.napId", "was the id of an earlier nap")
        ends = before.nap_ends_at
        if before.is_napping and ends is not None and it.nap_started_at is not None and it.nap_started_at < ends:
            return Rejected(RejectionCode.OUT_OF_RANGE, "sleep.napStartedAt", "another nap is on")
        return None

    def _origin(self, view: View) -> Origin:
        # The whole body is replaced, so what the one before rested on counts only for themes that it had already.
        themes = set(self.sleep.active_dream_themes)
        there = view.find("sleep", "sleep")
        rests_on = [there] if there is not None and themes & set(sleep_of(view).active_dream_themes) else []
        rests_on += [entry for entry in view.live("short_term") if themes & _topics(entry)]
        rooms = frozenset(room for entry in rests_on for room in entry.sources)
        return rooms, frozenset(person for entry in rests_on for person in entry.people)


class UpdateSpeakingPressure(Operation):
    """Set how much the mind is drawn to speak, as computed from what it holds.

    Refused if the computation does not give these numbers, or goes back in time.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.MOOD})
    operation: Literal["update_speaking_pressure"] = "update_speaking_pressure"
    pressure: Pressure

    def needs(self) -> Needs:
        """Return all that draws it or holds it back."""
        return Needs(
            entries=frozenset({key(each, each) for each in ("pressure", "sleep", "mood")}),
            live=frozenset({"candidate", "pressure_item", "thread"}),
            spoke=True,
        )

    def rewrites(self) -> tuple[Key, ...]:
        """Return the pressure."""
        return (key("pressure", "pressure"),)

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it comes out so."""
        to = self.pressure.stepped_at
        if to is None:
            return Rejected(RejectionCode.MISSING_FIELD, "pressure.steppedAt", "say up to when")
        before = pressure_of(view)
        if before.stepped_at is not None and to < before.stepped_at:
            return Rejected(RejectionCode.CURSOR_REGRESSION, "pressure.steppedAt", "is earlier than the last step")
        computed = step(before, pressure_inputs(view, facts), to)
        if any(abs(getattr(computed, each) - getattr(self.pressure, each)) > SAME for each in _NUMBERS):
            return Rejected(RejectionCode.NOT_REPRODUCIBLE, "pressure", "comes out otherwise")
        return ahead_or(facts, "pressure.steppedAt", to)

    def apply(self, view: View, facts: Facts) -> str:
        """Let it stand in place of what was. Numbers are nobody's words."""
        write(view, "pressure", self.pressure, facts, _NOWHERE)
        return "stepped"


Delta = Annotated[float, Field(ge=-0.2, le=0.2)]


class UpdateMood(Operation):
    """Nudge moods: up to four names, each by -0.2 to 0.2, with the anchor that caused it.

    Refused if a name is no mood of this mind, or a run moves them by more than 0.4 in all.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset(
        {Emitter.RUMINATION, Emitter.SLEEP, Emitter.MOOD, Emitter.OPERATOR}
    )
    operation: Literal["update_mood"] = "update_mood"
    deltas: Annotated[dict[Slug, Delta], Field(min_length=1, max_length=4)] | None = None
    cause: Anchor | None = None
    mood: Mood | None = None

    def needs(self) -> Needs:
        """Return the mood and the cause."""
        return Needs(
            entries=frozenset({key("mood", "mood")}),
            anchors=() if self.cause is None else (self.cause,),
            limits=frozenset({"mood"}),
        )

    def rewrites(self) -> tuple[Key, ...]:
        """Return the mood."""
        return (key("mood", "mood"),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the cause is there, and who may set the whole."""
        if self.mood is not None and facts.actor.kind is not Emitter.MOOD:
            return Rejected(RejectionCode.OPERATION_NOT_ALLOWED, "mood", "only the drift sets the whole mood")
        return None if self.cause is None else anchors_or(view, (self.cause,), facts, "cause")

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the names are known and the steps small."""
        if self.deltas is None and self.mood is None:
            return Rejected(RejectionCode.MISSING_FIELD, "deltas", "say what moves")
        if self.deltas is not None and self.mood is not None:
            return Rejected(RejectionCode.CONTRADICTION, "mood", "moves and is set at once")
        return self._whole_or(view, facts) if self.mood is not None else self._deltas_or(view, facts)

    def spends(self, view: View) -> dict[str, float]:
        """Return by how much moods move."""
        return {} if self.deltas is None else {"mood": self._moved()}

    def apply(self, view: View, facts: Facts) -> str:
        """Add the deltas, or let the whole stand. Numbers are nobody's words."""
        mood = nudge(mood_of(view), self.deltas or {}) if self.mood is None else self.mood
        write(view, "mood", mood, facts, _NOWHERE)
        return "nudged" if self.mood is None else "drifted"

    def _moved(self) -> float:
        return sum(abs(delta) for delta in (self.deltas or {}).values())

    def _deltas_or(self, view: View, facts: Facts) -> Rejected | None:
        mood = mood_of(view)
        if not (self.deltas or {}).keys() <= mood.baselines.keys():
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "deltas", "names no mood of this mind")
        if not facts.actor.kind.model:
            return None
        if self.cause is None:
            return Rejected(RejectionCode.MISSING_FIELD, "cause", "say what caused it")
        if self._moved() + facts.spent.get("mood", 0.0) > MOST_NUDGED + SAME:
            return Rejected(RejectionCode.OUT_OF_RANGE, "deltas", f"move by more than {MOST_NUDGED} in one run")
        return None

    def _whole_or(self, view: View, facts: Facts) -> Rejected | None:
        mood, before = self.mood or Mood(), mood_of(view)
        if mood.dimensions.keys() != mood.baselines.keys():
            return Rejected(RejectionCode.CONTRADICTION, "mood.baselines", "are not of the same names")
        if mood.stepped_at is None:
            return Rejected(RejectionCode.MISSING_FIELD, "mood.steppedAt", "say up to when")
        if before.stepped_at is not None and mood.stepped_at < before.stepped_at:
            return Rejected(RejectionCode.CURSOR_REGRESSION, "mood.steppedAt", "is earlier than the last step")
        return ahead_or(facts, "mood.steppedAt", mood.stepped_at)


def pressure_inputs(view: View, facts: Facts) -> Inputs:
    """Return what draws the mind to speak, as the view and the facts show it."""
    return Inputs(
        spoke_at=facts.spoke_at,
        sleep=sleep_of(view),
        candidates=tuple(_live(view, "candidate", Candidate)),
        items=tuple(_live(view, "pressure_item", PressureItem)),
        threads=tuple(_live(view, "thread", Thread)),
        mood=mood_of(view),
    )


def _live(view: View, type_: str, shape: type[BodyT]) -> Iterator[BodyT]:
    for entry in view.live(type_):
        if isinstance(entry.body, shape):
            yield entry.body


def _topics(entry: Entry) -> set[str]:
    return set(entry.body.topics) if isinstance(entry.body, Thought) else set()
