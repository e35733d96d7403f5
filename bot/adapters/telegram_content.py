"""What a Telegram message holds, in our words: Markdown from its entities, a line for everything else; pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from telegram import (
    Message,
    MessageEntity,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    TelegramObject,
)

from core.domain.messages import Attachment

DOWNLOAD_BYTES = 20 * 1024 * 1024
"""What bots may fetch; larger files are there for people alone."""
TOO_LARGE = "over the 20 MB that bots may fetch"
NOT_HEARD = "not transcribed"
_OPTION_CHARS = 120

SERVICE = (
    "new_chat_members", "left_chat_member", "new_chat_title", "new_chat_photo", "delete_chat_photo",
    "group_chat_created", "supergroup_chat_created", "channel_chat_created", "message_auto_delete_timer_changed",
    "migrate_to_chat_id", "migrate_from_chat_id", "pinned_message", "successful_payment", "refunded_payment",
    "users_shared", "chat_shared", "gift", "unique_gift", "gift_upgrade_sent", "connected_website",
    "write_access_allowed", "passport_data", "proximity_alert_triggered", "boost_added", "chat_background_set",
    "checklist_tasks_done", "checklist_tasks_added", "forum_topic_created", "forum_topic_edited",
    "forum_topic_closed", "forum_topic_reopened", "general_forum_topic_hidden", "general_forum_topic_unhidden",
    "giveaway_created", "giveaway_completed", "paid_message_price_changed", "direct_message_price_changed",
    "suggested_post_approved", "suggested_post_approval_failed", "suggested_post_declined", "suggested_post_paid",
    "suggested_post_refunded", "video_chat_scheduled", "video_chat_started", "video_chat_ended",
    "video_chat_participants_invited", "web_app_data", "chat_owner_changed", "chat_owner_left",
    "managed_bot_created", "poll_option_added", "poll_option_deleted",
)  # fmt: skip
"""Fields by which a message reports an event instead of saying something."""

_STYLES: Mapping[str, str] = {
    MessageEntity.BOLD: "**",
    MessageEntity.ITALIC: "*",
    MessageEntity.STRIKETHROUGH: "~~",
    MessageEntity.SPOILER: "||",
}
QUOTES = frozenset({MessageEntity.BLOCKQUOTE, MessageEntity.EXPANDABLE_BLOCKQUOTE})
_TICKS = re.compile(r"`+")


def is_service(message: Message) -> bool:
    """Return whether the message reports an event."""
    return any(getattr(message, field, None) for field in SERVICE)


def markdown(text: str, entities: Sequence[MessageEntity]) -> str:
    """Return `text` as neutral Markdown. Entities that leave the text are passed over."""
    place = _places(text)
    put: list[tuple[int, int, int, str]] = []  # place, closing before opening, nearest inside first, mark
    for entity in entities:
        start, end = place(entity.offset), place(entity.offset + entity.length)
        if start is None or end is None:
            continue
        stretch = text[start:end]
        start, end = end - len(stretch.lstrip()), start + len(stretch.rstrip())
        if start >= end:
            continue
        if entity.type in QUOTES:
            lines = [start, *(start + at.end() for at in re.finditer("\n", text[start:end]))]
            put += [(line, 1, start - end, "> ") for line in lines]
        elif (marks := _marks(entity, text, start, end)) is not None:
            put += [(start, 1, start - end, marks[0]), (end, 0, end - start, marks[1])]
    for at, _, _, mark in sorted(put, key=lambda one: one[:3], reverse=True):
        text = text[:at] + mark + text[at:]
    return text


def _marks(entity: MessageEntity, text: str, start: int, end: int) -> tuple[str, str] | None:
    """Return what goes before and behind a stretch; None if nothing does."""
    stretch = text[start:end]
    if (style := _STYLES.get(entity.type)) is not None:
        return style, style
    match entity.type:
        case MessageEntity.CODE:
            ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(stretch)), default=0))
            space = " " if len(ticks) > 1 else ""
            return ticks + space, space + ticks
        case MessageEntity.PRE:
            ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(stretch)), default=0))
            before = "" if start == 0 or text[start - 1] == "\n" else "\n"
            behind = "" if end == len(text) or text[end] == "\n" else "\n"
            return f"{before}{ticks}{entity.language or ''}\n", f"\n{ticks}{behind}"
        case MessageEntity.TEXT_LINK if entity.url:
            return "[", f"]({entity.url})"
        case _:
            return None


def _places(text: str) -> Callable[[int], int | None]:
    """Return a function from UTF-16 units to characters: None outside of the text or inside of a character."""
    if all(char <= "\uffff" for char in text):
        return lambda units: units if 0 <= units <= len(text) else None
    places, units = dict[int, int](), 0
    for at, char in enumerate(text):
        places[units] = at
        units += 2 if char > "\uffff" else 1
    return (places | {units: len(text)}).get


def stretch_of(text: str, entity: MessageEntity) -> str:
    """Return the words that an entity marks; empty if it leaves the text."""
    place = _places(text)
    start, end = place(entity.offset), place(entity.offset + entity.length)
    return "" if start is None or end is None else text[start:end]


def attachments(message: Message) -> tuple[Attachment, ...]:
    """Return the files of a message: what Telegram calls the largest picture, and never a preview."""
    if message.photo:
        return (_file("image", message.photo[-1]),)
    if message.sticker:
        return (_file("sticker", message.sticker, name=message.sticker.emoji or ""),)
    if message.voice:
        return (_file("voice", message.voice, note=NOT_HEARD),)
    if message.video_note:
        return (_file("video", message.video_note, name="video note"),)
    media: TelegramObject | None
    for kind, media in (("video", message.animation), ("video", message.video), ("audio", message.audio)):
        if media:
            return (_file(kind, media),)
    return (_file("file", message.document),) if message.document else ()


def _file(kind: str, media: TelegramObject, *, name: str = "", note: str = "") -> Attachment:
    fields = media.to_dict()
    size = int(fields.get("file_size") or 0)
    duration = fields.get("duration")
    return Attachment(
        kind,
        name=name or str(fields.get("file_name") or ""),
        mime=str(fields.get("mime_type") or ""),
        size_bytes=size,
        duration_s=None if duration is None else float(duration),
        handle=str(fields.get("file_id") or ""),
        note=", ".join(filter(None, (note, TOO_LARGE if size > DOWNLOAD_BYTES else ""))),
    )


def quotes(message: Message) -> tuple[str, ...]:
    """Return what a message shows beside its own words, each with a label; never words of its author."""
    return tuple(_quotes(message))


def _quotes(message: Message) -> Iterator[str]:
    if message.quote and message.quote.text:
        yield labelled("quoted", message.quote.text)
    elif message.external_reply:
        yield f"[answers a message elsewhere, from {_origin(message.external_reply.origin)}]"
    if message.story or message.reply_to_story:
        yield "[story]"
    if message.poll:
        options = " / ".join(_short(option.text) for option in message.poll.options)
        yield f"[poll: {_short(message.poll.question, 300)} — {options}]"
    if message.checklist:
        tasks = " / ".join(_short(task.text) for task in message.checklist.tasks)
        yield f"[list: {_short(message.checklist.title, 300)} — {tasks}]"
    if message.venue:
        yield f"[place: {_short(message.venue.title)}, {_short(message.venue.address)}]"
    elif message.location:
        yield f"[location: {message.location.latitude:.4f}, {message.location.longitude:.4f}]"
    if message.contact:
        yield f"[contact: {_short(' '.join(filter(None, (message.contact.first_name, message.contact.last_name))))}]"
    if message.dice:
        yield f"[{message.dice.emoji} {message.dice.value}]"
    if message.game:
        yield f"[game: {_short(message.game.title)}]"
    if message.invoice:
        yield f"[invoice: {_short(message.invoice.title)}]"
    if message.paid_media:
        yield "[paid media]"
    if message.giveaway or message.giveaway_winners:
        yield "[giveaway]"


def forwarded(message: Message, text: str) -> str:
    """Return the block that stands for forwarded words."""
    return labelled(f"forwarded from {_origin(message.forward_origin)}", text)


def forward_source(message: Message) -> str:
    """Return the name of whoever said first what a message forwards."""
    return _origin(message.forward_origin)


def labelled(label: str, text: str) -> str:
    """Return `text` as a quotation below its label; the label alone where there are no words."""
    lines = "".join(f"\n> {line}" for line in text.strip().splitlines())
    return f"[{label}]{lines}"


def _origin(origin: object) -> str:
    match origin:
        case MessageOriginUser():
            return _short(origin.sender_user.full_name)
        case MessageOriginHiddenUser():
            return _short(origin.sender_user_name)
        case MessageOriginChat():
            return _short(origin.sender_chat.effective_name or "a group")
        case MessageOriginChannel():
            return _short(origin.chat.effective_name or "a channel")
        case _:
            return "elsewhere"


def _short(text: str, limit: int = _OPTION_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
