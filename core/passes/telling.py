"""Runs of passes in words: how each ended, why nothing was done, which rules held what would have been said."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.domain.passes import WHOLE_MIND, Run, RunState, SkipReason
from core.domain.speaking import SpeechRule
from core.store.passes import PhaseRow

PACKET, ANSWER, VERDICTS, DECISION = "packet", "answer", "verdicts", "decision"
"""What a run keeps: what it was shown (ids alone), what was answered, what became of it, what was to be said of it."""
SKIPS: Mapping[SkipReason, str] = {
    SkipReason.OFF: "it is switched off",
    SkipReason.PAUSED: "it is paused",
    SkipReason.CONTROL_UNREADABLE: "a pause could not be read, which counts as one",
    SkipReason.NO_ROOMS: "none of the rooms is archived",
    SkipReason.NOTHING_NEW: "nothing new was said",
    SkipReason.IDLE: "nothing came of it the last times, so it is done less often",
    SkipReason.ROOM_ASLEEP: "nobody has said anything for a long while",
    SkipReason.NAPPING: "I was napping, and nobody waited for me",
    SkipReason.AUDIENCE_UNKNOWN: "it is not known who reads there",
    SkipReason.QUIET: "these were quiet hours",
    SkipReason.BUDGET: "the budget for it was used up",
    SkipReason.NO_MODEL: "there is no language model to think with",
    SkipReason.NOT_DUE: "it was not due",
    SkipReason.STILL_RUNNING: "the run before it was not over",
    SkipReason.MISSED: "no process was running at that time",
    SkipReason.ZONE_CHANGED: "the time zone was changed, and it had run a few hours before",
    SkipReason.BACKING_OFF: "it failed several times, so it is tried less often",
}
RULES: Mapping[SpeechRule, str] = {
    SpeechRule.POSTING: "nothing could be posted",
    SpeechRule.OPT_IN: "nothing may be said there unasked",
    SpeechRule.NEED_TO_SPEAK: "I was not drawn enough to speak",
    SpeechRule.ROOM_BUDGET: "I had said enough unasked there that day",
    SpeechRule.MIND_BUDGET: "I had said enough unasked that day",
    SpeechRule.GAP: "I had spoken a short while before",
    SpeechRule.HUMAN_SINCE: "nobody had spoken since I last did so unasked",
    SpeechRule.REPETITION: "it repeats something that I said",
    SpeechRule.AUDIENCE: "not everyone who reads there may read what it was made from",
    SpeechRule.OWNER_DM: "whoever runs me has linked no account, or had enough messages",
    SpeechRule.APPROVAL: "a person has to approve it first",
}


@dataclass(frozen=True, slots=True)
class HeldBy:
    """A rule that held a candidate, with its numbers."""

    rule: str
    detail: str

    @property
    def words(self) -> str:
        """What the rule says; a rule of another release by its name."""
        return RULES[SpeechRule(self.rule)] if self.rule in set(SpeechRule) else self.rule


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run decided about one candidate. `why`: a code, where no rule says it."""

    id: str
    outcome: str
    held_by: tuple[HeldBy, ...]
    why: str = ""

    @property
    def end(self) -> str:
        """What became of it, with the code."""
        outcome = self.outcome.replace("_", " ")
        return f"{outcome}: {self.why.replace('_', ' ')}" if self.why else outcome


def skip_words(reason: str) -> str:
    """Return why a run was skipped; a reason of another release by its name."""
    return SKIPS[SkipReason(reason)] if reason in set(SkipReason) else reason


def run_words(run: Run) -> str:
    """Return how a run stands, and why."""
    how = run.state.value if run.mode == "normal" else f"{run.state.value} ({run.mode.value})"
    why = skip_words(run.reason) if run.state is RunState.SKIPPED else run.reason
    at = f" at {run.phase.value}" if run.state.active or run.state is RunState.FAILED else ""
    return f"{how}{at}: {why}" if why else f"{how}{at}"


def group_words(group: str, rooms: Mapping[str, str]) -> str:
    """Return the rooms of a group. `rooms`: the names that may be told, by group."""
    return "the whole mind" if group == WHOLE_MIND else rooms.get(group, "rooms that are not named here")


def phase_words(row: PhaseRow) -> str:
    """Return how one phase went, with its counts and what it cost."""
    tries = f" (try {row.attempt})" if row.attempt > 1 else ""
    parts = [f"{row.n}. {row.phase}{tries}: {row.outcome}{f', {row.code}' if row.code else ''}"]
    if row.counts:
        parts.append(", ".join(f"{count} {name}" for name, count in sorted(row.counts.items())))
    if row.use.model:
        cost = f"${row.use.usd_micro / 1_000_000:.6f}"
        parts.append(f"{row.use.model}, {row.use.tokens_in} tokens read, {row.use.tokens_out} written, {cost}")
    return " · ".join(parts)


def verdict_counts(verdicts: Mapping[str, Any]) -> Counter[str]:
    """Return how often each operation met each end, from what a run kept of its verdicts."""
    counted: Counter[str] = Counter()
    for each in verdicts.get("items", ()):
        name = each.get("name") or "no operation"
        counted[f"{name} refused: {each['code']}" if each.get("code") else f"{name}: {each.get('effect', '')}"] += 1
    return counted


def judged(decision: Mapping[str, Any]) -> list[Judged]:
    """Return what a run decided about each candidate; what has another form is passed over."""
    found = []
    for each in decision.get("candidates", ()):
        if not isinstance(each, Mapping) or not isinstance(each.get("id"), str):
            continue
        rules = [rule for rule in each.get("rules", ()) if isinstance(rule, Mapping) and rule.get("passed") is False]
        held = tuple(HeldBy(str(rule.get("rule", "")), str(rule.get("detail", ""))) for rule in rules)
        found.append(Judged(each["id"], str(each.get("outcome", "")), held, str(each.get("why", ""))))
    return found
