"""Whether the mind says something unasked: each rule that speech has to pass, and what it says of one candidate. Pure.

Nothing is cut short: whoever asks why it was silent finds the result of every rule.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from core.domain.candidates import answers_obligation, candidate_of
from core.domain.ids import MessageId
from core.domain.mind.entries import Entry
from core.domain.mind.speech import Candidate, CandidateKind, CandidateStatus, DeliveryMode, DeliveryTarget
from core.domain.rooms import RoomMode

MUST_SHARE_PRIORITY, MUST_SHARE_AFTER = 0.85, timedelta(hours=24)
"""What must be shared, matters this much and has waited so long is said however little the mind is drawn to speak."""
MOST_OWNER_DAILY = 2
"""How many direct messages a day the operator gets unasked."""
NEAR_HERE, NEAR_ANYWHERE = 0.86, 0.92
"""From which cosine on words repeat what was said here within 14 days, or anywhere within 3.

Both lie between `near` and `same` of the scale that labelled pairs of notes have fixed (`clustering.py`): in a room one
thought in other words is a repetition, elsewhere only nearly the same words are.
"""
NEAR_LETTERS = 0.60
"""The same by the share of common 4-grams, where there is no embedder; a little above `near` of that scale."""


class SpeechRule(StrEnum):
    """The rules of speech unasked, in the order in which they are asked. Stored values never change."""

    POSTING = "posting"
    OPT_IN = "opt_in"
    NEED_TO_SPEAK = "need_to_speak"
    ROOM_BUDGET = "room_budget"
    MIND_BUDGET = "mind_budget"
    GAP = "gap"
    HUMAN_SINCE = "human_since"
    REPETITION = "repetition"
    AUDIENCE = "audience"
    OWNER_DM = "owner_dm"
    APPROVAL = "approval"


_ASKED_OF_OWED = frozenset(
    {
        SpeechRule.POSTING,
        SpeechRule.OPT_IN,
        SpeechRule.GAP,
        SpeechRule.REPETITION,
        SpeechRule.AUDIENCE,
        SpeechRule.APPROVAL,
    }
)


class Barrier(StrEnum):
    """Why nothing can be posted at all. Stored values never change."""

    NO_POST = "no_post"
    DRY_RUN = "dry_run"
    PAUSED = "paused"
    QUIET = "quiet"
    ROOM_UNREACHABLE = "room_unreachable"
    NOT_PERMITTED = "not_permitted"


class Method(StrEnum):
    """How the likeness of two texts was measured."""

    EMBEDDER = "embedder"
    LETTERS = "letters"


@dataclass(frozen=True, slots=True)
class Nearest:
    """How like the mind's nearest own message is, 0 to 1."""

    score: float
    method: Method

    def repeats(self, near: float) -> bool:
        """Return whether that is a repetition. `near`: the cosine from which on it is; letters have one bound."""
        return self.score >= (near if self.method is Method.EMBEDDER else NEAR_LETTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRules:
    """What the operator allows. `room_daily`, `mind_daily`: messages unasked in a local day.

    `threshold`: from which need to speak on, and `threshold_open` in rooms of that mode. `approval`: kinds of speech
    that a person approves first.
    """

    room_daily: int = 2
    mind_daily: int = 6
    gap: timedelta = timedelta(minutes=90)
    threshold: float = 0.55
    threshold_open: float = 0.45
    approval: frozenset[CandidateKind] = frozenset({CandidateKind.WORLD_ADVOCACY, CandidateKind.MODERATION_NOTE})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechFacts:
    """What is known as one candidate is judged. The room is that of its delivery; the operator's is that of the two.

    `barrier`: None if something can be posted. `unattended`: the room's switch. `asked`: the person of a direct
    message wants it. `obligations`: messages of the live ones. `room_today`, `mind_today`, `owner_today`: messages
    unasked in this local day. `since_last_s`, `since_unattended_s`: since the last message of the bot there, and the
    last unasked; None: there was none. `human_since`: somebody spoke after the latter, or there was none. `here`,
    `anywhere`: the nearest of the bot's messages of the last 14 days in the room, and of 3 days in any; None: there
    was none. `said`: these very words were said within 90 days. `readable`: every reader of the room may read now all
    that the draft is made from. `approval_asked`: the room wants a person to approve.
    """

    now: datetime
    barrier: Barrier | None
    mode: RoomMode
    unattended: bool
    dm: bool = False
    asked: bool = False
    obligations: frozenset[MessageId] = frozenset()
    need_to_speak: float
    room_today: int
    mind_today: int
    since_last_s: float | None
    since_unattended_s: float | None
    human_since: bool
    here: Nearest | None
    anywhere: Nearest | None
    said: bool
    readable: bool
    owner_linked: bool = False
    owner_today: int = 0
    approval_asked: bool


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule said. `detail`: numbers and codes, never words of people. `asked`: it concerns such speech."""

    rule: SpeechRule
    passed: bool
    detail: str = ""
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Speak:
    """It may be said."""

    results: tuple[RuleResult, ...]


@dataclass(frozen=True, slots=True)
class AwaitApproval:
    """It may be said once a person approves."""

    results: tuple[RuleResult, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """It may not be said now."""

    results: tuple[RuleResult, ...]

    @property
    def by(self) -> tuple[SpeechRule, ...]:
        """The rules that hold it."""
        return tuple(each.rule for each in self.results if not each.passed)


def judge(candidate: Entry, facts: SpeechFacts, rules: SpeechRules) -> Speak | Held | AwaitApproval:
    """Ask every rule about a candidate, whatever the ones before said.

    Raises:
        ValueError: The entry is no live candidate with a place where it would be said.
    """
    body = candidate_of(candidate)
    if body is None or body.delivery_target is None:
        raise ValueError(f"{candidate.id}: is no candidate that could be said")
    asked = _Asked(
        candidate, body, body.delivery_target, facts, rules, answers_obligation(candidate, facts.obligations)
    )
    results = tuple(_result(rule, asked) for rule in SpeechRule)
    held = {each.rule for each in results if not each.passed}
    if not held:
        return Speak(results)
    return AwaitApproval(results) if held == {SpeechRule.APPROVAL} else Held(results)


@dataclass(frozen=True, slots=True)
class _Asked:
    entry: Entry
    body: Candidate
    place: DeliveryTarget
    facts: SpeechFacts
    rules: SpeechRules
    owed: bool

    @property
    def to_owner(self) -> bool:
        return self.place.mode is DeliveryMode.OWNER_DM

    def concerns(self, rule: SpeechRule) -> bool:
        if self.owed:
            return rule in _ASKED_OF_OWED
        # Whoever runs the bot asked for its messages by linking an account.
        return rule is not (SpeechRule.OPT_IN if self.to_owner else SpeechRule.OWNER_DM)


def _result(rule: SpeechRule, it: _Asked) -> RuleResult:
    if not it.concerns(rule):
        return RuleResult(rule, passed=True, asked=False)
    passed, detail = _verdict(rule, it)
    return RuleResult(rule, passed, detail)


def _verdict(rule: SpeechRule, it: _Asked) -> tuple[bool, str]:
    facts, rules = it.facts, it.rules
    match rule:
        case SpeechRule.POSTING:
            return facts.barrier is None, "" if facts.barrier is None else facts.barrier.value
        case SpeechRule.OPT_IN:
            return _opt_in(facts)
        case SpeechRule.NEED_TO_SPEAK:
            return _need(it)
        case SpeechRule.ROOM_BUDGET:
            return _fewer(facts.room_today, rules.room_daily)
        case SpeechRule.MIND_BUDGET:
            return _fewer(facts.mind_today, rules.mind_daily)
        case SpeechRule.GAP:
            return _gap(it)
        case SpeechRule.HUMAN_SINCE:
            return facts.human_since, "" if facts.human_since else "nobody spoke since"
        case SpeechRule.REPETITION:
            return _new(it)
        case SpeechRule.AUDIENCE:
            return facts.readable, "" if facts.readable else "not all readers may read its sources"
        case SpeechRule.OWNER_DM:
            return _fewer(facts.owner_today, MOST_OWNER_DAILY) if facts.owner_linked else (False, "not linked")
        case SpeechRule.APPROVAL:
            return _approval(it)
    assert_never(rule)


def _opt_in(facts: SpeechFacts) -> tuple[bool, str]:
    found = {
        "unattended off": not facts.unattended,
        "silent": facts.mode is RoomMode.SILENT,
        "not asked for": facts.dm and not facts.asked,
    }
    closed = [name for name, holds in found.items() if holds]
    return not closed, ", ".join(closed)


def _need(it: _Asked) -> tuple[bool, str]:
    least = it.rules.threshold_open if it.facts.mode is RoomMode.OPEN else it.rules.threshold
    waited = it.facts.now - it.entry.created_at
    if it.body.must_eventually_share and it.body.priority >= MUST_SHARE_PRIORITY and waited >= MUST_SHARE_AFTER:
        return True, "must be shared"
    return it.facts.need_to_speak >= least, f"{it.facts.need_to_speak:.3f} of {least:.3f}"


def _gap(it: _Asked) -> tuple[bool, str]:
    # An answer that is owed waits for no other answer, only for what was said unasked.
    since = (it.facts.since_unattended_s,) if it.owed else (it.facts.since_last_s, it.facts.since_unattended_s)
    known = [each for each in since if each is not None]
    least = it.rules.gap.total_seconds()
    if not known:
        return True, "never spoke"
    return min(known) >= least, f"{min(known):.0f} s of {least:.0f} s"


def _new(it: _Asked) -> tuple[bool, str]:
    if it.facts.said:
        return False, "same words"
    if it.owed:
        return True, ""
    for name, nearest, near in (("here", it.facts.here, NEAR_HERE), ("anywhere", it.facts.anywhere, NEAR_ANYWHERE)):
        if nearest is not None and nearest.repeats(near):
            return False, f"{name} {nearest.score:.3f} by {nearest.method.value}"
    return True, ""


def _approval(it: _Asked) -> tuple[bool, str]:
    if it.body.status is CandidateStatus.APPROVED:
        return True, "approved"
    why = it.body.kind.value if it.body.kind in it.rules.approval else "room" if it.facts.approval_asked else ""
    return not why, why


def _fewer(there: int, most: int) -> tuple[bool, str]:
    return there < most, f"{there} of {most}"
