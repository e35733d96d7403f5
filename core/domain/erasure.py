"""Erasures: what one reaches, and the steps in which it is done. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.domain.ids import MessageId, RoomId


class EraseStep(StrEnum):
    """The steps of an erasure, in their order; each may be repeated."""

    COLLECT = "collect"
    WORK = "work"
    MIND = "mind"
    MESSAGES = "messages"
    SPEECH = "speech"
    PROFILE = "profile"
    TELL = "tell"
    NAMES = "names"
    PROOF = "proof"

    @property
    def next(self) -> "EraseStep | None":
        """The step after this one; None after the last."""
        steps = list(EraseStep)
        at = steps.index(self) + 1
        return steps[at] if at < len(steps) else None


class Reach(StrEnum):
    """What an erasure is for."""

    PERSON = "person"
    """Everything of one person."""
    MESSAGES = "messages"
    """One person's messages in some rooms or some time, with what was made from them."""
    FACTS = "facts"
    """One person's facts."""
    MATTER = "matter"
    """What anybody said: a topic, a room, a time. An administrator's act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseScope:
    """How far an erasure reaches. None: without that limit. `since` is inside, `before` outside."""

    reach: Reach
    rooms: tuple[RoomId, ...] | None = None
    since: datetime | None = None
    before: datetime | None = None
    messages: tuple[MessageId, ...] | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing of the person is to be left."""
        return self.reach is Reach.PERSON

    def as_json(self) -> dict[str, Any]:
        """Return the scope as the ledger keeps it: ids and times, no names and no words."""
        return {
            "reach": self.reach.value,
            "rooms": None if self.rooms is None else sorted(self.rooms),
            "since": None if self.since is None else self.since.isoformat(),
            "before": None if self.before is None else self.before.isoformat(),
            "messages": None if self.messages is None else sorted(self.messages),
        }


def scope_of(value: Mapping[str, Any]) -> EraseScope:
    """Return the scope that `as_json` gave.

    Raises:
        ValueError, KeyError: It is no scope.
    """

    def moment(text: str | None) -> datetime | None:
        return None if text is None else datetime.fromisoformat(text)

    rooms, messages = value["rooms"], value["messages"]
    return EraseScope(
        reach=Reach(value["reach"]),
        rooms=None if rooms is None else tuple(RoomId(room) for room in rooms),
        since=moment(value["since"]),
        before=moment(value["before"]),
        messages=None if messages is None else tuple(MessageId(each) for each in messages),
    )
