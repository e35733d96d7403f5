"""What a pass shows a model: labelled pieces in named parts, each with its share of the prompt. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from core.domain.errors import BotError
from core.domain.ids import RoomId
from core.domain.prompt import Provenance, RepairNote, SourceId, Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketItem:
    """One piece. `label`: code's words about it, without times; `at` is told as how long ago that was.

    `source`: what a handle in the prompt stands for; None: it has no handle. `room`: where it was said, with its name.
    `about`: the person or room that it is about, told by a handle.
    """

    text: str
    provenance: Provenance
    label: str = ""
    source: SourceId | None = None
    speaker: Speaker | None = None
    room: tuple[RoomId, str] | None = None
    about: SourceId | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketPart:
    """Pieces of one sort, in the order in which they are shown. `noun`: how several of them are called.

    `cap`: how many tokens they may take; `grows`: they may take more if others leave room. `rank`: 1 is cut last.
    `prefix`: what is left out is left out at the end, without gaps; else the smaller ones behind may still be shown.
    """

    name: str
    noun: str
    items: tuple[PacketItem, ...]
    cap: int
    rank: int
    grows: bool = False
    prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """All that the prompt of a pass may use. `template`: the file under `prompts` that asks.

    `switches`: what the template asks about, by name. `readable`: rooms that all readers of the group may read now.
    `nonce`: 16 random bytes. `repair`: what was wrong with the answer before.
    """

    template: str
    readable: frozenset[RoomId]
    now: datetime
    tz: tzinfo
    nonce: bytes
    parts: tuple[PacketPart, ...]
    switches: Mapping[str, bool] = field(default_factory=dict)
    repair: tuple[RepairNote, ...] = ()

    @property
    def names(self) -> Mapping[str, str]:
        """How the note of what was left out calls the pieces of each part."""
        return {part.name: part.noun for part in self.parts}


class ChronologyLeak(BotError):
    """Code's own words in a prompt of a pass tell an absolute time: a bug of the code that gathered it."""
