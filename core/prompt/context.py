"""The one place where the context of a prompt is made: each source read by one statement, audience applied."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from core.domain.ids import MessageId, RoomId
from core.domain.prompt import (
    Excerpt,
    LeftOut,
    LeftOutReason,
    Line,
    Passage,
    Persona,
    Provenance,
    Recollection,
    RequestContext,
    RoomCard,
    SourceId,
    SourceKind,
    Speaker,
    Standing,
    Trust,
)
from core.domain.rooms import Community, Room
from core.store import archive
from core.store.archive import OWN_KIND, ArchivedMessage
from core.store.engine import Tx
from core.store.inbox import TurnRow
from core.store.lore_search import ChunkHit

TRANSCRIPT_LINES = 40
TRANSCRIPT_AGE = timedelta(hours=6)
CHAIN_DEPTH = 12
NONCE_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatParts:
    """What the flow brings to a chat context, found before or outside: search hits, style, readable rooms, the mind."""

    passages: tuple[Passage | Excerpt, ...]
    persona: Persona
    readable: frozenset[RoomId]
    notes: tuple[str, ...] = ()
    self_view: tuple[Recollection, ...] = ()
    memories: tuple[Recollection, ...] = ()


async def gather(
    tx: Tx, turn: TurnRow, room: Room, community: Community, parts: ChatParts, now: datetime
) -> RequestContext:
    """Return all that the reply to this turn may use; nothing that a reader of the venue may not read."""
    rooms = sorted(parts.readable)
    since = now - TRANSCRIPT_AGE
    recent = await archive.list_transcript(tx, rooms, room.id, limit=TRANSCRIPT_LINES, since=since)
    chain: list[ArchivedMessage] = []
    left_out: tuple[LeftOut, ...] = ()
    if turn.asked_reply_to is not None:
        chain = await archive.list_chain(tx, rooms, room.id, turn.asked_reply_to, depth=CHAIN_DEPTH)
        if not chain:
            left_out = (LeftOut("chain", LeftOutReason.AUDIENCE, 1),)
    in_chain = {message.id for message in chain}
    asked = next((message for message in recent if message.platform_ref == turn.reply_to), None)
    if asked is None:  # long ago by now, or never archived
        asked = await archive.find_message(tx, rooms, room.id, turn.reply_to)
    return RequestContext(
        turn=_turn_line(turn, room, asked),
        room=RoomCard(room.id, room.kind, room.mode, room.language, room.name, room.topic),
        readable=parts.readable | {room.id},
        now=now,
        tz=ZoneInfo(community.timezone),
        nonce=secrets.token_bytes(NONCE_BYTES),
        persona=parts.persona,
        settings_version=community.settings_version,
        self_view=parts.self_view,
        memories=parts.memories,
        passages=parts.passages,
        chain=tuple(line_of(message) for message in chain),
        transcript=tuple(
            line_of(message)
            for message in recent
            if message.platform_ref != turn.reply_to and message.id not in in_chain and message.text
        ),
        left_out=left_out,
    )


def gather_span(turn: TurnRow, room: Room, community: Community, parts: ChatParts, now: datetime) -> RequestContext:
    """Return all that a summary may use: the command, the room where it was typed, and the messages to sum up."""
    return RequestContext(
        turn=_turn_line(turn, room, None),
        room=RoomCard(room.id, room.kind, room.mode, room.language, room.name, room.topic),
        readable=parts.readable | {room.id},
        now=now,
        tz=ZoneInfo(community.timezone),
        nonce=secrets.token_bytes(NONCE_BYTES),
        persona=parts.persona,
        settings_version=community.settings_version,
        passages=parts.passages,
    )


def _turn_line(turn: TurnRow, room: Room, asked: ArchivedMessage | None) -> Line:
    # A room without archive has no message row; the turn then stands for itself, under a key of its own.
    message = asked.id if asked is not None else MessageId(-turn.id)
    standing = Standing.ADMIN if turn.admin else Standing.MEMBER
    return Line(
        message=message,
        speaker=Speaker(turn.person_id, turn.name, standing),
        sent_at=turn.asked_at,
        text=turn.text,
        provenance=Provenance((SourceId(SourceKind.MESSAGE, str(message)),), frozenset({room.id})),
    )


def line_of(message: ArchivedMessage) -> Line:
    """Return an archived message as a line of talk."""
    return Line(
        message=message.id,
        speaker=Speaker(message.author_id, message.author_name, _standing(message)),
        sent_at=message.sent_at,
        text=message.text,
        provenance=provenance_of(message),
    )


def passage_of(message: ArchivedMessage, weight: float = 0.0) -> Passage:
    """Return an archived message as a hit of the search, or as one of a talk to sum up."""
    return Passage(
        key=str(message.id),
        speaker=Speaker(message.author_id, message.author_name, Standing.MEMBER),
        sent_at=message.sent_at,
        room_name=message.room_name,
        text=message.text,
        provenance=provenance_of(message),
        weight=weight,
    )


def excerpt_of(chunk: ChunkHit, audience: frozenset[RoomId]) -> Excerpt:
    """Return a chunk as a hit of the search. `audience`: the rooms it counts as coming from in this venue."""
    key = str(chunk.ref)
    return Excerpt(
        key=key,
        source=chunk.source,
        path=chunk.path,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        text=chunk.text,
        place=chunk.place,
        link=chunk.link,
        provenance=Provenance((SourceId(SourceKind.FILE, key),), audience, Trust.OUTSIDE),
    )


def provenance_of(message: ArchivedMessage) -> Provenance:
    """Return where a message comes from: its room, or for the bot's own words the rooms they rested on."""
    trust = {Standing.YOU: Trust.OWN, Standing.BOT: Trust.OUTSIDE}.get(_standing(message), Trust.MEMBER)
    return Provenance((SourceId(SourceKind.MESSAGE, str(message.id)),), message.sources, trust)


def _standing(message: ArchivedMessage) -> Standing:
    if not message.is_bot:
        return Standing.MEMBER
    return Standing.YOU if message.kind == OWN_KIND else Standing.BOT
