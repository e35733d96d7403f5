"""Discord's events translated into inbound messages: pure and total, what is none is `Ignored` with a reason."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from bot.adapters.addressing import Names
from bot.adapters.discord_markup import Labels, Namer, addressed, nobody, readable
from bot.adapters.discord_payload import (
    Payload,
    moment,
    number,
    part,
    parts,
    payload,
    ref,
    seconds,
    text,
    time_of,
    words,
)
from core.domain.ids import RoomKey
from core.domain.messages import Address, Attachment, InboundMessage, MessageKind, Origin
from core.domain.platforms import Surroundings
from core.domain.rooms import RoomKind

PLATFORM = "discord"
PASTE_NAME = "message.txt"
PASTE_LIMIT_BYTES = 256 * 1024
"""A longer file is not read in place of a message."""
ADMINISTRATOR, MANAGE_GUILD = 1 << 3, 1 << 5
_TALK = frozenset({0, 19, 20, 23})
_STARTER = 21
_REPLY_TYPES = frozenset({19})
_VOICE_FLAG = 1 << 13
_FORWARD = 1
_REVISION_LIMIT = 2**31 - 1
_NAME_HASH_CHARS = 24
STARTER_GONE = "[the message that this thread began with is gone]"


class Why(StrEnum):
    """Why an event is no message."""

    MALFORMED = "malformed"
    SERVICE = "service"
    NOT_EDITED = "not_edited"
    OWN_EDIT = "own_edit"
    UNKNOWN_EVENT = "unknown_event"
    PASSING = "passing"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class Ignored:
    """An event that says nothing to us."""

    reason: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Us:
    """Who we are. `sees_text`: the platform gives us the words of messages that are not meant for us."""

    bot_ref: str
    names: Names
    sees_text: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the cache knows of the room of an event. `own_roles`: roles that only we hold.

    `surroundings` without a community: a direct room of which nothing says whose it is.
    """

    surroundings: Surroundings
    owner_ref: str = ""
    admin_roles: frozenset[str] = frozenset()
    staff_roles: frozenset[str] = frozenset()
    own_roles: frozenset[str] = frozenset()
    role_name: Namer = field(default=nobody, repr=False)
    room_name: Namer = field(default=nobody, repr=False)


def to_inbound(
    event: str, data: object, *, us: Us, place: Place, now: datetime, live: bool = True
) -> InboundMessage | Ignored:
    """Return what one event says, in our words."""
    body = payload(data)
    room, message_ref = ref(body, "channel_id"), ref(body, "id")
    if not room or not message_ref:
        return Ignored(Why.MALFORMED)
    match event:
        case "MESSAGE_CREATE":
            return _said(body, us, place, now, live)
        case "MESSAGE_UPDATE":
            return _edited(body, us, place, now, live)
        case "MESSAGE_DELETE":
            return gone(room, [message_ref, *words(body, "also")], us=us, place=place, now=now)
        case _:
            return Ignored(Why.UNKNOWN_EVENT)


def gone(room: str, refs: Sequence[str], *, us: Us, place: Place, now: datetime) -> InboundMessage:
    """Return the deletion of messages, at least one; the platform does not say whose they were nor who did it."""
    message_ref, *more = refs
    direct = place.surroundings.kind is RoomKind.DM
    return InboundMessage(
        front_end=PLATFORM,
        room=RoomKey(PLATFORM, room),
        message_id=message_ref,
        event_id=f"gone:{message_ref}" + (f"+{len(more)}" if more else ""),
        kind=MessageKind.DELETE,
        person_ref=us.bot_ref,
        display_name="",
        username="",
        origin=Origin.SELF,
        text="",
        sent_at=time_of(message_ref) or now,
        received_at=now,
        more_refs=tuple(more),
        surroundings=place.surroundings if place.surroundings.community_ref else None,
        addressed_by=frozenset({Address.DM}) if direct else frozenset(),
    )


def _edited(body: Payload, us: Us, place: Place, now: datetime, live: bool) -> InboundMessage | Ignored:
    """Return an edit; an update without a time of editing is a preview, a pin or the like."""
    edited_at = moment(body, "edited_timestamp")
    if edited_at is None:
        return Ignored(Why.NOT_EDITED)
    if ref(part(body, "author"), "id") == us.bot_ref:
        return Ignored(Why.OWN_EDIT)
    said = _said(body, us, place, now, live)
    if isinstance(said, Ignored):
        return said
    # Ten steps a second: two edits differ, and the number fits its column for years.
    revision = int((edited_at - said.sent_at).total_seconds() * 10)
    return replace(
        said,
        kind=MessageKind.EDIT,
        edited_at=edited_at,
        event_id=f"edit:{said.message_id}:{edited_at.timestamp():.3f}",
        revision=min(_REVISION_LIMIT, max(1, revision)),
    )


def _said(body: Payload, us: Us, place: Place, now: datetime, live: bool) -> InboundMessage | Ignored:
    kind = number(body, "type")
    if kind == _STARTER:
        return _starter(body, us, place, now, live)
    if kind not in _TALK:
        return Ignored(Why.SERVICE)
    author = part(body, "author")
    if not ref(author, "id") or number(body, "flags") & 1 << 7:  # an answer of a bot that is still thinking
        return Ignored(Why.PASSING if ref(author, "id") else Why.MALFORMED)
    if not place.surroundings.community_ref:
        return Ignored(Why.NOWHERE)  # the echo of our own word in a direct room that nobody has written in yet
    origin = _origin(body, author, us)
    content = text(body, "content")
    attachments = _attachments(body)
    quotes = (*_forwards(body), *_poll(body), *_embeds(body, origin))
    words_hidden = not (us.sees_text or content or attachments or quotes or place.surroundings.kind is RoomKind.DM)
    return InboundMessage(
        front_end=PLATFORM,
        room=RoomKey(PLATFORM, ref(body, "channel_id")),
        message_id=ref(body, "id"),
        event_id=f"said:{ref(body, 'id')}",
        kind=MessageKind.TEXT,
        person_ref=_account(body, author, origin),
        display_name=_shown_name(author, part(body, "member")),
        username=text(author, "username"),
        origin=origin,
        text=readable(content, labels_of(body, place)),
        sent_at=_sent_at(body, now),
        received_at=now,
        reply_to=ref(part(body, "message_reference"), "message_id") or None if kind in _REPLY_TYPES else None,
        attachments=attachments,
        quotes=quotes,
        forwarded_from=_forwarded_from(body),
        webhook_ref=ref(body, "webhook_id") if origin is Origin.WEBHOOK else "",
        text_hidden=words_hidden and origin is not Origin.SELF,
        surroundings=place.surroundings,
        addressed_by=_addressed_by(body, content, origin, us, place),
        live=live,
        admin=_may(body, author, origin, place, place.admin_roles),
        moderator=_may(body, author, origin, place, place.staff_roles),
    )


def _starter(body: Payload, us: Us, place: Place, now: datetime, live: bool) -> InboundMessage | Ignored:
    """Return the message that a thread began with, said again inside it by the platform; it may be gone."""
    before = part(body, "referenced_message")
    own = {**body, "type": 0, "message_reference": None}
    if not before:
        said = _said({**own, "content": ""}, us, place, now, live)
        return said if isinstance(said, Ignored) else replace(said, quotes=(STARTER_GONE,), addressed_by=frozenset())
    shown = {**before, "type": 0, "id": body.get("id"), "channel_id": body.get("channel_id")}
    said = _said(shown, us, place, now, live)
    return said if isinstance(said, Ignored) else replace(said, addressed_by=frozenset(), reply_to=None)


def _origin(body: Payload, author: Payload, us: Us) -> Origin:
    if ref(author, "id") == us.bot_ref:
        return Origin.SELF
    if ref(body, "webhook_id") and not part(body, "interaction_metadata"):
        # A webhook of ours writes in our name; the answer to an interaction is its bot's own word.
        return Origin.SELF if ref(body, "application_id") == us.bot_ref else Origin.WEBHOOK
    return Origin.BOT if author.get("bot") is True else Origin.HUMAN


def _account(body: Payload, author: Payload, origin: Origin) -> str:
    """Return who a message is by: a webhook writes under many names, and each is somebody else."""
    if origin is not Origin.WEBHOOK:
        return ref(author, "id")
    name = hashlib.sha256(text(author, "username").encode("utf-8", "replace")).hexdigest()
    return f"webhook:{ref(body, 'webhook_id')}:{name[:_NAME_HASH_CHARS]}"


def _forwarded_from(body: Payload) -> str:
    source = part(body, "message_reference")
    if number(source, "type") != _FORWARD:
        return ""
    return f"{ref(source, 'channel_id')}/{ref(source, 'message_id')}"


def _shown_name(author: Payload, member: Payload) -> str:
    return text(member, "nick") or text(author, "global_name") or text(author, "username")


def _sent_at(body: Payload, now: datetime) -> datetime:
    return time_of(ref(body, "id")) or moment(body, "timestamp") or now


def labels_of(body: Payload, place: Place) -> Labels:
    """Return the names of those a message mentions."""
    people = {ref(one, "id"): _shown_name(one, part(one, "member")) for one in parts(body, "mentions")}
    return Labels(people=people, role=place.role_name, room=place.room_name)


def _addressed_by(body: Payload, content: str, origin: Origin, us: Us, place: Place) -> frozenset[Address]:
    if origin in (Origin.SELF, Origin.WEBHOOK):
        return frozenset()
    others = frozenset(ref(one, "id") for one in parts(body, "mentions") if one.get("bot") is True) - {us.bot_ref}
    found = set(addressed(content, us.names, bot_ref=us.bot_ref, own_roles=place.own_roles, other_bots=others))
    answered = part(body, "referenced_message")
    if number(body, "type") in _REPLY_TYPES and ref(part(answered, "author"), "id") == us.bot_ref:
        found.add(Address.REPLY)
    if place.surroundings.kind is RoomKind.DM:
        found.add(Address.DM)
    return frozenset(found)


def _may(body: Payload, author: Payload, origin: Origin, place: Place, roles: frozenset[str]) -> bool:
    """Return whether a person holds one of these roles, or owns the community."""
    if origin is not Origin.HUMAN:
        return False
    if place.owner_ref and ref(author, "id") == place.owner_ref:
        return True
    # The role of everyone has the community's own id and is in nobody's list.
    held = {*words(part(body, "member"), "roles"), place.surroundings.community_ref}
    return bool(held & roles)


def _attachments(body: Payload) -> tuple[Attachment, ...]:
    voice = bool(number(body, "flags") & _VOICE_FLAG)
    room, message = ref(body, "channel_id"), ref(body, "id")
    files = [
        Attachment(
            kind="voice" if voice else _kind_of(text(one, "content_type")),
            name="" if voice else text(one, "filename"),
            mime=text(one, "content_type"),
            size_bytes=number(one, "size"),
            duration_s=seconds(one, "duration_secs"),
            handle=f"{room}/{message}/{ref(one, 'id')}",
        )
        for one in parts(body, "attachments")
    ]
    stickers = [Attachment("sticker", text(one, "name")) for one in parts(body, "sticker_items")]
    return (*files, *stickers)


def _kind_of(mime: str) -> str:
    kind = mime.partition("/")[0]
    return kind if kind in ("image", "video", "audio") else "file"


def _forwards(body: Payload) -> list[str]:
    """Return forwarded messages as labelled blocks: the platform gives what they said, and not who said it."""
    if number(part(body, "message_reference"), "type") != _FORWARD:
        return []
    found = []
    for snapshot in parts(body, "message_snapshots"):
        message = part(snapshot, "message")
        said = [readable(text(message, "content"), Labels()), *(one.line() for one in _attachments(message))]
        found.append(labelled("forwarded", [line for line in said if line] or ["nothing that can be read"]))
    return found or [labelled("forwarded", ["nothing that can be read"])]


def labelled(label: str, lines: Sequence[str]) -> str:
    """Return a block that says what it is, and where it ends."""
    return f"[{label}]\n" + "\n".join(lines) + f"\n[end of {label}]"


def _poll(body: Payload) -> list[str]:
    poll = part(body, "poll")
    if not poll:
        return []
    answers = [text(part(one, "poll_media"), "text") for one in parts(poll, "answers")]
    return [f"[poll: {', '.join([text(part(poll, 'question'), 'text'), *filter(None, answers)])}]"]


def _embeds(body: Payload, origin: Origin) -> list[str]:
    """Return what machines say in cards; the previews of people's links are not their words."""
    if origin not in (Origin.BOT, Origin.WEBHOOK):
        return []
    cards = [one for one in parts(body, "embeds") if text(one, "type") in ("rich", "")]
    said = [[text(one, "title"), text(one, "description")] for one in cards]
    return [labelled("card", list(filter(None, lines))) for lines in said if any(lines)]


def paste_of(data: object) -> Payload | None:
    """Return the file that stands for a message too long to type, to be read in its place."""
    body = payload(data)
    files = parts(body, "attachments")
    if text(body, "content") or len(files) != 1 or text(files[0], "filename") != PASTE_NAME:
        return None
    return files[0]


def noted(message: InboundMessage | Ignored, note: str) -> InboundMessage | Ignored:
    """Return the message with a note on its only file: that it was read, or why not."""
    if isinstance(message, Ignored):
        return message
    return replace(message, attachments=tuple(replace(one, note=note) for one in message.attachments))
