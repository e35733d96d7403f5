"""What a run of thinking is shown, read at the moment at which it is asked: what went meanwhile is not there."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain import owing
from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.bodies import Case
from core.domain.mind.entries import Entry
from core.domain.packets import PassContext
from core.domain.passes import Advance, Fail, Phase, PhaseResult, Run, Skip, SkipReason
from core.domain.pressure import is_asleep
from core.domain.rooms import Room, RoomMode
from core.passes.asking import VERDICTS, Gathered
from core.passes.circle import Circle, load_circle
from core.passes.gate import Gate, Opened
from core.passes.packet import (
    Part,
    candidates_part,
    messages_of,
    notes_part,
    owed_part,
    pressures_part,
    recent_part,
    refused_part,
    said_part,
    self_part,
)
from core.ports import Clock
from core.prompt.context import NONCE_BYTES
from core.prompt.tokens import estimate
from core.store import mind_lists, mind_views, passes, reading
from core.store.engine import Tx
from core.store.reading import Read

WINDOW = "window"
"""The artifact of a run with the messages that it is about: room, id, revision, and whether a person said it."""
MOST_READ: Mapping[str, int] = {
    "case": 16,
    "candidate": 64,
    "pressure_item": 64,
    "short_term": 64,
    "thread": 16,
    "receipt": 16,
}
"""How many of each type are read, the weightiest: some more than are shown, and all that decide what is owed."""


@dataclass(frozen=True, slots=True)
class _Material:
    """All that was read for one prompt."""

    circle: Circle
    window: Sequence[Sequence[int]]
    texts: Mapping[MessageId, Read]
    own: Mapping[str, Sequence[Entry]]
    owed: tuple[Entry, ...]
    here: RoomId

    @property
    def shown(self) -> list[Sequence[int]]:
        """The places of the window whose message can still be read, in their order."""
        return [place for place in self.window if MessageId(place[1]) in self.texts]

    @property
    def read(self) -> list[Read]:
        """The messages at these places."""
        return [self.texts[MessageId(place[1])] for place in self.shown]


@dataclass(frozen=True, slots=True)
class Gatherer:
    """What gathering needs."""

    gate: Gate
    clock: Clock

    async def gather(self, tx: Tx, run: Run) -> Gathered | PhaseResult:
        """Return what the model is shown; another result if there is nothing to show, or it is held back by now."""
        now = self.clock.now()
        opened = await self.gate.see(tx, run)
        circle = None if opened is None else await load_circle(tx, self.gate.groups, run, opened.every)
        window = await passes.get(tx, run.id, WINDOW)
        if circle is None or opened is None:
            return Skip(SkipReason.AUDIENCE_UNKNOWN)
        if window is None:
            return Fail("window_missing")
        # The gate may have opened long before: an outage or a full purse is waited for.
        held = await self.gate.held_back(tx, run, now) or self.gate.quiet(run, opened, now)
        if held is not None:
            return held
        own = await mind_lists.list_own(tx, run.mind_id, MOST_READ, circle.rooms, beside=circle.readable)
        owed = owing.owed(own["pressure_item"], own["candidate"], now)
        texts = await reading.read_now(tx, circle.rooms, [MessageId(each[1]) for each in window["heard"]])
        material = _Material(circle, window["heard"], texts, own, owed, _here(circle, window["heard"], texts, own))
        if not (texts or owed or own["case"] or own["candidate"]):
            return Advance(to=Phase.RECORD)
        posting = self._posting(run, opened, now)
        napping = is_asleep(await mind_views.find_sleep(tx, run.mind_id), now)
        parts = await self._parts(tx, run, material, now)
        context = PassContext(
            template="rumination",
            readable=circle.readable,
            now=now,
            tz=opened.zone,
            nonce=secrets.token_bytes(NONCE_BYTES),
            parts=tuple(each.part for each in parts),
            switches={"posting": posting, "napping": napping},
        )
        return _gathered(context, parts, material, posting)

    def _posting(self, run: Run, opened: Opened, now: datetime) -> bool:
        """Return whether anything could be said unasked in one of the rooms now."""
        if not run.speaks or self.gate.is_quiet(opened, now):
            return False
        return any(_speaks(room) for room in opened.rooms)

    async def _parts(self, tx: Tx, run: Run, it: _Material, now: datetime) -> list[Part]:
        about = "\n".join(each.message.text for each in it.read)
        spoken = [each.message.room_id for each in reversed(it.read)]
        names, own = it.circle.names, it.own
        return [
            await self_part(tx, run.mind_id, it.here, it.circle.rooms, spoken, about, now, estimate),
            owed_part(own["case"], names, now),
            recent_part([each.message for each in it.read]),
            notes_part(own["short_term"], own["thread"], now),
            candidates_part(own["candidate"], names, now),
            pressures_part(own["pressure_item"], it.owed, now),
            said_part(own["receipt"], names, now),
            refused_part(await _refusals(tx, run)),
        ]


def _gathered(context: PassContext, parts: Sequence[Part], it: _Material, posting: bool) -> Gathered:
    entries = [entry for part in parts for entry in part.entries]
    audience = {room for part in parts for item in part.part.items for room in item.provenance.audience}
    rooms = audience | {room for entry in entries for room in entry.sources}
    if not rooms & it.circle.rooms:
        rooms.add(it.here)  # whatever comes of it is this group's
    people: set[PersonId] = {person for entry in entries for person in entry.people}
    for each in it.read:
        people |= {each.message.author_id} | ({each.proxy_of} if each.proxy_of is not None else set())
    return Gathered(
        context=context,
        rooms=frozenset(rooms),
        people=frozenset(people),
        messages=messages_of(entries) | {each.message.id for each in it.read},
        versions={entry.id: entry.version for entry in entries},
        here=it.here,
        extra={
            "window": [list(place) for place in it.shown],
            "owed": [entry.id for entry in it.owed],
            "posting": posting,
        },
    )


async def _refusals(tx: Tx, run: Run) -> list[dict[str, str]]:
    """Return what was refused of the run before."""
    for before in await reading.list_ended(tx, run, 1):
        verdicts = await passes.get(tx, before.id, VERDICTS)
        return [each for each in (verdicts or {}).get("items", ()) if each["code"]]
    return []


def _here(
    circle: Circle,
    window: Sequence[Sequence[int]],
    texts: Mapping[MessageId, Read],
    own: Mapping[str, Sequence[Entry]],
) -> RoomId:
    """Return the room that a thought means by `here`: where a person spoke last, else where something is owed."""
    for room, id_, _, human in reversed(window):
        if human and MessageId(id_) in texts:
            return RoomId(room)
    owing_in = [RoomId(entry.body.room_id) for entry in own["case"] if isinstance(entry.body, Case)]
    return owing_in[0] if owing_in else min(circle.rooms)


def _speaks(room: Room) -> bool:
    return room.unattended and room.mode is not RoomMode.SILENT
