"""What the fast lane reads and finds: messages as they are watched, and signals, which are no verdicts. Pure."""

from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.messages import NO_MARKS, Attachment, Marks
from core.domain.moderation.rules import Detector


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One revision of a message in a watched room. `ref`: the platform's id in its room.

    `text`: all that was said, with quoted blocks. `edited`: nothing new was said in the room: an edit, or a command.
    `first`: it is the first that was heard of its author in this community. `display_name`: as of now.
    """

    community_id: CommunityId
    room_id: RoomId
    ref: str
    revision: int
    person_id: PersonId
    at: datetime
    text: str
    display_name: str = ""
    attachments: tuple[Attachment, ...] = ()
    forwarded: bool = False
    edited: bool = False
    first: bool = False
    marks: Marks = NO_MARKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one detector found in one message. `refs`: further messages of the same burst, oldest first.

    `span`: where in the text as it was written, in characters; None if it is no matter of words. `what`: which list,
    family or feature it was, in a word or two for the staff. `hint`: it opens no case by itself.
    """

    detector: Detector
    value: float
    threshold: float
    refs: tuple[str, ...] = ()
    span: tuple[int, int] | None = None
    what: str = ""
    hint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A finding under one rule, about one revision of one message."""

    rule_id: str
    rule_version: int
    severity: int
    ref: str
    revision: int
    finding: Finding

    @property
    def urgent(self) -> bool:
        """Whether it has to be answered by itself, whatever else is found."""
        return self.finding.detector is Detector.URGENT
