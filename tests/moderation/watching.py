"""Messages as the fast lane is shown them, rules of one detector, and the lists of the release."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.moderation.rules import Category, Detector, DetectorUse, Parameter, Rule, RuleKind
from core.domain.moderation.signals import Finding, Watched
from core.moderation.fast.lane import FastLane
from core.moderation.fast.windows import Windows
from core.moderation.lists import read_lists

DATA = Path(__file__).parents[2] / "data" / "moderation"
LISTS = read_lists(DATA)
LANE = FastLane(lists=LISTS, score=lambda community, text: None)
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def watched(text: str = "", *, at_s: float = 0, person: int = 1, room: int = 1, ref: str = "", **more: Any) -> Watched:
    """Return a message some seconds after noon."""
    return Watched(
        community_id=CommunityId(1),
        room_id=RoomId(room),
        ref=ref or f"{room}-{person}-{at_s}",
        revision=more.pop("revision", 0),
        person_id=PersonId(person),
        at=NOON + timedelta(seconds=at_s),
        text=text,
        **more,
    )


def rule(detector: str, kind: RuleKind = RuleKind.CUSTOM, **parameters: Parameter) -> Rule:
    """Return a rule of one detector."""
    return ruled((DetectorUse(Detector(detector), parameters),), kind)


def ruled(uses: Sequence[DetectorUse], kind: RuleKind = RuleKind.CUSTOM) -> Rule:
    """Return a rule of several detectors."""
    return Rule(
        id="tested",
        version=1,
        kind=kind,
        text={"en": "x"},
        category=Category.ORDER,
        detectors=tuple(uses),
        severity=2,
        expiry=timedelta(days=1),
    )


def findings(one: Rule, *messages: Watched, lane: FastLane = LANE, windows: Windows | None = None) -> list[Finding]:
    """Return what is found in the last of some messages."""
    held = windows or Windows()
    signals = [lane.read(message, held, [one]) for message in messages]
    return [signal.finding for signal in signals[-1]]


def finding(one: Rule, *messages: Watched, lane: FastLane = LANE, windows: Windows | None = None) -> Finding | None:
    """Return what is found in the last of some messages by a rule of one detector."""
    found = findings(one, *messages, lane=lane, windows=windows)
    assert len(found) <= 1
    return found[0] if found else None


def spoken(found: Finding | None, text: str) -> str:
    """Return the part of a text that a finding marks."""
    assert found is not None and found.span is not None
    return text[slice(*found.span)]
