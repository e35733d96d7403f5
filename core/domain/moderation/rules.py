"""Rules of a community: what members read, what finds breaches, how far the bot may go, what it leaves alone. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

TEXT_CHARS = 400
"""The longest text of a rule as members read it."""
LONGEST_TIMEOUT = timedelta(days=28)
"""As long as the platform with the shorter limit takes."""


class RuleKind(StrEnum):
    """What a rule is about; it decides which detectors may serve it. Stored values never change."""

    THREAT = "threat"
    COERCION = "coercion"
    DOXXING = "doxxing"
    SEXUAL_BOUNDARY = "sexual-boundary"
    HATE = "hate"
    HARASSMENT = "harassment"
    DECEPTION = "deception"
    EVASION = "evasion"
    SCAM = "scam"
    PROMOTION = "promotion"
    FLOOD = "flood"
    WRONG_ROOM = "wrong-room"
    BOT_ABUSE = "bot-abuse"
    CARE = "care"
    CUSTOM = "custom"


class Category(StrEnum):
    """What kind of harm a rule keeps away."""

    SAFETY = "safety"
    DIGNITY = "dignity"
    ORDER = "order"
    SPAM = "spam"
    INTEGRITY = "integrity"


class Level(StrEnum):
    """How far a rule goes, from nothing to acting by itself."""

    OFF = "off"
    OBSERVE = "observe"
    SUGGEST = "suggest"
    ACT = "act"

    @property
    def below(self) -> "Level":
        """Return the level one step down; `off` stays."""
        order = list(Level)
        return order[max(0, order.index(self) - 1)]


class StepKind(StrEnum):
    """What can be done about a breach. `ASK`: a person decides."""

    NOTE = "note"
    WARN = "warn"
    DELETE = "delete"
    TIMEOUT = "timeout"
    SLOW = "slow"
    KICK = "kick"
    BAN = "ban"
    ASK = "ask"


SEVERITY_OF_STEP = {kind: n for n, kind in enumerate(StepKind)}
"""The order of steps from mild to harsh; `ASK` stands outside of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is done about a breach. `term`: how long a timeout, slow mode or ban lasts; None: for good, where it can be.

    `delete`: the messages go too.
    """

    kind: StepKind
    term: timedelta | None = None
    delete: bool = False

    @property
    def kinds(self) -> frozenset[StepKind]:
        """Return everything that it does."""
        return frozenset({self.kind, StepKind.DELETE} if self.delete else {self.kind})


class Detector(StrEnum):
    """What finds breaches. `MODEL` is the slow lane, `PEOPLE` are reports; the others run in code at intake."""

    FLOOD = "flood"
    DUPLICATE = "duplicate"
    MENTIONS = "mentions"
    SCAM_DOMAINS = "scam_domains"
    INVITES = "invites"
    SCRIPTS = "scripts"
    TERMS = "terms"
    ATTACHMENTS = "attachments"
    NEW_MEMBER = "new_member"
    REACTIONS = "reactions"
    FORWARD_KIND = "forward_kind"
    SPAM_SCORE = "spam_score"
    BOT_ATTACK = "bot_attack"
    URGENT = "urgent"
    PRIVATE_DATA = "private_data"
    LOOKALIKE_NAME = "lookalike_name"
    JOIN_AFTER_BAN = "join_after_ban"
    MODEL = "model"
    PEOPLE = "people"


IN_CODE = frozenset(Detector) - {Detector.MODEL, Detector.PEOPLE}
"""The detectors of the fast lane."""
HINTS = frozenset({Detector.BOT_ATTACK, Detector.NEW_MEMBER, Detector.PRIVATE_DATA, Detector.JOIN_AFTER_BAN})
"""What alone opens no case: it only weighs with another signal, or is shown to whoever reads the message."""

Parameter = float | int | bool | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DetectorUse:
    """A detector as a rule uses it. `parameters`: thresholds and lists by name; what is not named has its default."""

    name: Detector
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exempt:
    """Whom and where a rule does not touch, beyond those that none touches. Our own ids; roles by the platform's."""

    roles: frozenset[str] = frozenset()
    rooms: frozenset[int] = frozenset()
    people: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One version of a rule. `text`: by language, `en` always among them. `rooms`: empty for all that are watched.

    `actions`: what may be done under it at all. `ladder_steps`: from the strike that it is, to what is done; the
    highest that is not above the count holds. `acts_by`: the person who let it act by itself, where it may.
    """

    id: str
    version: int
    kind: RuleKind
    text: Mapping[str, str]
    category: Category
    detectors: tuple[DetectorUse, ...]
    severity: int
    expiry: timedelta
    level: Level = Level.OBSERVE
    actions: frozenset[StepKind] = frozenset({StepKind.NOTE, StepKind.WARN, StepKind.DELETE})
    ladder_steps: Mapping[int, Step] = field(default_factory=dict)
    exempt: Exempt = Exempt()
    rooms: frozenset[int] = frozenset()
    acts_by: int | None = None
    acts_since: datetime | None = None

    def use_of(self, detector: Detector) -> DetectorUse | None:
        """Return how it uses a detector; None if it does not."""
        return next((use for use in self.detectors if use.name is detector), None)

    def words(self, language: str) -> str:
        """Return what members read, in their language where there is one."""
        return self.text.get(language, self.text["en"])

    def holds_in(self, room_id: int) -> bool:
        """Return whether it is in force in a watched room."""
        return self.level is not Level.OFF and room_id not in self.exempt.rooms and room_id in (self.rooms or {room_id})
