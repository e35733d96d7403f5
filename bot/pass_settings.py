"""The settings of unattended work: what runs by itself, when, and what may be said unasked.

Its law: a switch is on or off in so many words; an empty one means off, and a word that is neither stops the start.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from bot.setting_checks import SAYS_SOMETHING_EMPTY, zone
from core.domain.errors import InputRejected
from core.domain.jobs import MOST_SLOTS
from core.domain.mind.speech import CandidateKind
from core.domain.passes import PassName, PassPolicy
from core.domain.quiet import read_quiet_hours
from core.domain.sleeping import Schedule, read_schedule
from core.domain.speaking import SpeechRules

_WORDS = {"on": "on", "true": "on", "1": "on", "yes": "on", "off": "off", "false": "off", "0": "off", "no": "off"}


def _switch(value: object) -> object:
    if not isinstance(value, str):
        return value
    return _WORDS.get(value.strip().lower() or "off", value)


def _quiet(text: str) -> str:
    if text.strip():
        read_quiet_hours(text)
    return text.strip()


def _naps(text: str) -> str:
    try:
        read_schedule(text, "UTC")
    except InputRejected as exc:  # it shows what was written, which settings never do
        raise ValueError("is no time to nap, longer than 3 hours, or two naps overlap") from exc
    return text.strip()


def _kinds(value: object) -> object:
    return tuple(filter(None, (word.strip() for word in value.split(",")))) if isinstance(value, str) else value


def _zone_or_none(name: str) -> str:
    return zone(name) if name else name


Switch = Annotated[Literal["on", "off"], BeforeValidator(_switch), SAYS_SOMETHING_EMPTY]
Share = Annotated[float, Field(ge=0, le=1)]
Daily = Annotated[int, Field(ge=0, le=1000)]


class PassSettings(BaseModel):
    """What an operator lets the bot do by itself."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )

    rumination: Switch = Field("on", alias="VOIDBOT_RUMINATION", description="on or off: think over what was said")
    sleep: Switch = Field("on", alias="VOIDBOT_SLEEP", description="on or off: turn notes into memory while it naps")
    mood: Switch = Field("on", alias="VOIDBOT_MOOD", description="on or off: let sleep and moods move with the time")
    rumination_minutes: int = Field(
        30, ge=15, le=1440, alias="VOIDBOT_RUMINATION_MINUTES", description="minutes between two looks, 15 to 1440"
    )
    quiet_hours: Annotated[str, AfterValidator(_quiet), SAYS_SOMETHING_EMPTY] = Field(
        "22:00-07:00",
        alias="VOIDBOT_QUIET_HOURS",
        description="local times such as 22:00-07:00, in which nothing is thought over; empty: none",
    )
    quiet_thinks: bool = Field(
        False,
        alias="VOIDBOT_QUIET_THINKS",
        description="true or false: think in quiet hours too, and say nothing",
    )
    sleep_times: Annotated[str, AfterValidator(_naps)] = Field(
        "03:30/90m",
        alias="VOIDBOT_SLEEP_TIMES",
        description="when it naps and for how long, such as 03:30/90m with commas between several, or 4h/1h",
    )
    sleep_zone: Annotated[str, AfterValidator(_zone_or_none)] = Field(
        "",
        alias="VOIDBOT_SLEEP_ZONE",
        description="time zone of naps, such as Europe/Berlin; empty: that of the community",
    )
    speech_room_daily: Daily = Field(
        2, alias="VOIDBOT_SPEECH_ROOM_DAILY", description="most messages unasked a day in one room, 0 to 1000"
    )
    speech_mind_daily: Daily = Field(
        6, alias="VOIDBOT_SPEECH_MIND_DAILY", description="most messages unasked a day in all rooms, 0 to 1000"
    )
    speech_gap_minutes: int = Field(
        90,
        ge=0,
        le=10080,
        alias="VOIDBOT_SPEECH_GAP_MINUTES",
        description="minutes between its messages before it speaks unasked, 0 to 10080",
    )
    speech_threshold: Share = Field(
        0.55, alias="VOIDBOT_SPEECH_THRESHOLD", description="need to speak from which it does, 0 to 1"
    )
    speech_threshold_open: Share = Field(
        0.45, alias="VOIDBOT_SPEECH_THRESHOLD_OPEN", description="the same in rooms of mode open, 0 to 1"
    )
    speech_approval: Annotated[tuple[CandidateKind, ...], BeforeValidator(_kinds), SAYS_SOMETHING_EMPTY] = Field(
        (CandidateKind.WORLD_ADVOCACY, CandidateKind.MODERATION_NOTE),
        alias="VOIDBOT_SPEECH_APPROVAL",
        description=f"kinds of speech that a person approves first, of {', '.join(CandidateKind)}; may be empty",
    )
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = Field(
        2, alias="VOIDBOT_PASS_SLOTS", description="passes run at once, 1 to 96"
    )

    @property
    def policy(self) -> PassPolicy:
        """What runs by itself, and when. Upkeep has no switch: without it nothing that is over would go."""
        switches: Mapping[PassName, str] = {
            PassName.RUMINATION: self.rumination,
            PassName.SLEEP: self.sleep,
            PassName.MOOD: self.mood,
            PassName.UPKEEP: "on",
        }
        return PassPolicy(
            on=frozenset(name for name, switch in switches.items() if switch == "on"),
            quiet=read_quiet_hours(self.quiet_hours) if self.quiet_hours else None,
            thinks_when_quiet=self.quiet_thinks,
            rumination_every=timedelta(minutes=self.rumination_minutes),
        )

    @property
    def speech(self) -> SpeechRules:
        """What may be said unasked."""
        return SpeechRules(
            room_daily=self.speech_room_daily,
            mind_daily=self.speech_mind_daily,
            gap=timedelta(minutes=self.speech_gap_minutes),
            threshold=self.speech_threshold,
            threshold_open=self.speech_threshold_open,
            approval=frozenset(self.speech_approval),
        )

    def schedule(self, zone: str) -> Schedule:
        """Return when a mind naps. `zone`: its community's, which counts unless a zone is set."""
        return read_schedule(self.sleep_times, self.sleep_zone or zone)

    def origins(self) -> dict[str, tuple[object, str | None]]:
        """Return every setting by its variable: its value, and whether the variable has set it (None: the default)."""
        told: dict[str, tuple[object, str | None]] = {}
        for name, field in type(self).model_fields.items():
            variable = field.alias or name
            told[variable] = (getattr(self, name), variable if name in self.model_fields_set else None)
        return told
