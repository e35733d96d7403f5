"""Telegram Desktop's `result.json`: one chat, or all of an account."""

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from core.domain.ids import RoomKey
from core.domain.imports import Account, BadCode, Chat, ImportedFile, ImportRecord, Moved
from core.domain.messages import Attachment
from core.domain.rooms import RoomKind
from core.retrieval.readers.fields import (
    BadField,
    Mender,
    Twins,
    count,
    iso_time,
    items,
    mapping,
    needed_ref,
    ref_of,
    unix_time,
)
from core.retrieval.readers.stream import Dialect, Element

PLATFORM = "telegram"
_PUBLIC = frozenset({"public_supergroup", "public_channel"})
_LIVE_IDS = frozenset({"public_supergroup", "public_channel", "private_supergroup", "private_channel"})
"""Chats whose message ids are the same for everyone; in others each account counts its own."""
_KINDS = {
    "personal_chat": RoomKind.DM,
    "saved_messages": RoomKind.DM,
    "bot_chat": RoomKind.DM,
    "public_channel": RoomKind.CHANNEL,
    "private_channel": RoomKind.CHANNEL,
}
_MEDIA = {
    "sticker": "sticker",
    "video_message": "video",
    "voice_message": "voice",
    "animation": "video",
    "video_file": "video",
    "audio_file": "audio",
}
_NOT_INCLUDED = re.compile(r"\s*\(File [^()]*\)\s*\Z")
_JOINED = frozenset({"join_group_by_link", "join_group_by_request", "invite_members"})
_LEFT = frozenset({"remove_members"})
_TOLD = ("title", "new_title", "information_text")
_CHAT_TYPE = re.compile(r"(?:personal_chat|saved_messages|bot_chat|private_[a-z]+|public_[a-z]+)\Z")
DIALECT = Dialect(
    lambda value: "id" in value and "type" in value and ("date" in value or "date_unixtime" in value),
    lambda head: (
        {"type", "id"} <= head.keys() and "rating" not in head and _CHAT_TYPE.match(str(head["type"])) is not None
    ),
    re.compile(
        r'"messages"[ \t\r\n]*:[ \t\r\n]*\[|"type"[ \t\r\n]*:[ \t\r\n]*"(?:personal_chat|saved_messages|bot_chat'
        r'|private_[a-z]+|public_[a-z]+)"'
    ),
)


@dataclass(slots=True)
class Topics:
    """A chat's topics, and in which one a message stands: replies name the message, seldom the topic."""

    titles: dict[str, str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _refs: list[str] = field(default_factory=list)
    _ids: list[int] = field(default_factory=list)
    _in: bytearray = field(default_factory=bytearray)

    def create(self, ref: str, title: str) -> None:
        """Note a topic."""
        self.titles[ref] = title
        if ref not in self._numbers and len(self._refs) < 65_000:
            self._numbers[ref] = len(self._refs)
            self._refs.append(ref)

    def put(self, message: str, topic: str) -> None:
        """Note that a message stands in a topic; ids that do not rise are not noted."""
        if not message.isdecimal() or topic not in self._numbers:
            return
        if not self._ids or int(message) > self._ids[-1]:
            self._ids.append(int(message))
            self._in += self._numbers[topic].to_bytes(2, "big")

    def of(self, target: str) -> str:
        """Return the topic in which `target` stands; empty for none known."""
        if target in self._numbers:
            return target
        if not self._ids or not target.isdecimal():
            return ""
        at = bisect_left(self._ids, int(target))
        if at == len(self._ids) or self._ids[at] != int(target):
            return ""
        return self._refs[int.from_bytes(self._in[2 * at : 2 * at + 2], "big")]


class TelegramTranslator:
    """Turns what the file says into records. `topics` by the chat's number outlive one walk through the file."""

    dialect = DIALECT

    def __init__(self, file_key: str, zone: ZoneInfo | None, topics: dict[int, Topics]) -> None:
        self.mender = Mender()
        self.twins = Twins()
        self.topics = topics
        self.needs_zone = False
        self.moves: list[Moved] = []
        self._file_key = file_key
        self._zone = zone
        self._accounts: dict[tuple[object, object], Account] = {}

    def chat(self, head: Mapping[str, Any], number: int) -> Chat:
        """Return a chat of the file."""
        try:
            ref = ref_of(head.get("id"))
        except BadField:
            ref = None
        kind = head.get("type")
        live = kind in _LIVE_IDS
        key = None
        if ref is not None:
            chat_ref = f"-100{ref}" if live else f"-{ref}" if kind == "private_group" else ref
            key = RoomKey(PLATFORM, chat_ref, "" if live else f"export:{ref}")
        return Chat(
            number=number,
            key=key,
            kind=_KINDS.get(str(kind), RoomKind.GROUP),
            name=self.mender.name(head.get("name")) or ref or "",
            private=kind not in _PUBLIC,
            closed_copy=not live,
            community_ref="" if key is None else key.chat_ref,
        )

    def record(self, element: Element, chat: int) -> ImportRecord | None:
        """Return the record of an element; None if the exporter left nothing of it.

        Raises:
            BadField: It is none.
        """
        value = element.value
        match value.get("type"):
            case "message":
                return self._message(element, value, chat)
            case "service":
                return self._service(element, value, chat)
            case "unsupported":
                return None
            case _:
                raise BadField(BadCode.BAD_TYPE)

    def _message(self, element: Element, value: Mapping[str, Any], chat: int) -> ImportRecord:
        if "from" not in value and "from_id" not in value:
            raise BadField(BadCode.NO_AUTHOR)
        author = self._account(value.get("from_id"), value.get("from"))
        at, edited = self._time(value, "date"), self._edited(value)
        words = self._words(value.get("text"))
        files = self._files(value)
        target = ref_of(value.get("reply_to_message_id"))
        elsewhere = target is not None and "reply_to_peer_id" in value
        topics = self.topics.get(chat)
        topic = "" if topics is None or target is None or elsewhere else topics.of(target)
        starts = topics is not None and target in topics.titles and not elsewhere
        ref = ref_of(value.get("id"))
        if topic and topics is not None and ref is not None:
            topics.put(ref, topic)
        return ImportRecord(
            line=element.line,
            byte=element.byte,
            chat=chat,
            topic=topic,
            ref=ref or self.twins.ref(author.ref, at, words),
            ref_made=ref is None,
            kind=_kind(value, files, words, starts or target is None),
            text=self._shown(value, words, files),
            words=words,
            sent_at=at,
            author=author,
            reply_to=None if starts else target,
            reply_elsewhere=elsewhere,
            edited_at=edited,
            forwarded_from=self.mender.name(value.get("forwarded_from")),
            files=files,
        )

    def _service(self, element: Element, value: Mapping[str, Any], chat: int) -> ImportRecord:
        action, ref = self.mender.name(value.get("action")), ref_of(value.get("id"))
        at = self._time(value, "date")
        who, name = value.get("actor_id", value.get("from_id")), value.get("actor", value.get("from"))
        author = None if who is None and name is None else self._account(who, name)
        topic = ""
        if action == "topic_created" and ref is not None:
            self.topics.setdefault(chat, Topics()).create(ref, self.mender.name(value.get("title")))
            topic = ref
        elif action in ("topic_edit", "topic_edited"):
            topic = self._retitled(value, chat)
        if author is not None:
            self._moved(action, value, chat, author, at)
        told = next((shown for key in _TOLD if (shown := self.mender.name(value.get(key)))), "")
        return ImportRecord(
            line=element.line,
            byte=element.byte,
            chat=chat,
            topic=topic,
            ref=ref or self.twins.ref(author.ref if author else "", at, action),
            ref_made=ref is None,
            kind="system",
            text=f"[{': '.join(filter(None, (action.replace('_', ' '), told))) or 'event'}]",
            sent_at=at,
            author=author,
        )

    def _retitled(self, value: Mapping[str, Any], chat: int) -> str:
        topics, target = self.topics.get(chat), ref_of(value.get("reply_to_message_id"))
        if topics is None or target not in topics.titles:
            return ""
        if title := self.mender.name(value.get("new_title") or value.get("title")):
            topics.titles[target] = title
        return target

    def _moved(self, action: str, value: Mapping[str, Any], chat: int, who: Account, at: datetime) -> None:
        """Note who came or went, where the entry gives an id: of others it has names alone, and names are no keys."""
        joined = action in _JOINED
        members = [self.mender.name(each) for each in items(value.get("members"))]
        if (joined or action in _LEFT) and members in ([], [who.name]):
            self.moves.append(Moved(chat, who, joined, at))

    def _time(self, value: Mapping[str, Any], name: str) -> datetime:
        unix = value.get(f"{name}_unixtime")
        if unix not in (None, ""):
            return unix_time(unix)
        local = value.get(name)
        try:
            return iso_time(local, self._zone)
        except BadField:
            if self._zone is None and isinstance(local, str) and _is_local(local):
                self.needs_zone = True
            raise

    def _edited(self, value: Mapping[str, Any]) -> datetime | None:
        if not value.get("edited") and not value.get("edited_unixtime"):
            return None
        return self._time(value, "edited")

    def _account(self, ref: object, name: object) -> Account:
        known = self._accounts.get((ref, name)) if isinstance(ref, str | int | None) else None
        if known is None:
            known = self._make_account(ref, name)
            self._accounts[ref, name if isinstance(name, str) else None] = known
        return known

    def _make_account(self, ref: object, name: object) -> Account:
        shown = self.mender.name(name)
        if ref is None:
            if not shown:
                return Account(f"export:{self._file_key}:deleted", "", "deleted")
            return Account(f"name:{shown}"[:200], shown)
        text = needed_ref(ref)
        kind = "user" if shown else "deleted"
        if text.startswith("user"):
            return Account(text[4:], shown, kind)
        if text.startswith(("channel", "chat")):
            number = text.removeprefix("channel").removeprefix("chat")
            return Account(f"-100{number}" if text.startswith("channel") else f"-{number}", shown, "channel")
        return Account(text, shown, kind)

    def _words(self, value: object) -> str:
        if not isinstance(value, list):
            return self.mender.text(value)
        parts: list[str] = []
        for each in value:
            told = mapping(each)
            text = self.mender.text(told.get("text") if told else each)
            href = self.mender.text(told.get("href")) if told.get("type") == "text_link" else ""
            parts.append(f"[{text}]({href})" if href and href != text else text)
        return self.mender.text("".join(parts))

    def _files(self, value: Mapping[str, Any]) -> tuple[ImportedFile, ...]:
        if value.get("photo"):
            return (
                ImportedFile("image", self._file_name(value["photo"]), size_bytes=count(value.get("photo_file_size"))),
            )
        if not value.get("file"):
            return ()
        kind = _MEDIA.get(str(value.get("media_type")), "file")
        name = self.mender.name(value.get("file_name")) or self._file_name(value["file"])
        if kind == "sticker":
            name = self.mender.name(value.get("sticker_emoji"))
        mime = self.mender.name(value.get("mime_type"))
        return (ImportedFile(kind, name, mime, count(value.get("file_size"))),)

    def _file_name(self, value: object) -> str:
        """Return the last part of a path; nothing for the sentence that stands where a file was left out."""
        return _NOT_INCLUDED.sub("", self.mender.name(value)).rpartition("/")[2]

    def _shown(self, value: Mapping[str, Any], words: str, files: tuple[ImportedFile, ...]) -> str:
        parts = [words]
        if poll := mapping(value.get("poll")):
            texts = (poll.get("question"), *(mapping(each).get("text") for each in items(poll.get("answers"))))
            parts.append(f"[poll: {' | '.join(self._plain(text) for text in texts)}]")
        if todo := mapping(value.get("todo_list")):
            texts = (
                todo.get("title"),
                *(mapping(each).get("text") for each in items(todo.get("items") or todo.get("answers"))),
            )
            parts.append(f"[to do: {' | '.join(self._plain(text) for text in texts)}]")
        if "contact_information" in value:
            parts.append("[contact]")
        if "location_information" in value:
            place = self.mender.name(value.get("place_name"))
            parts.append(f"[location: {place}]" if place else "[location]")
        if game := self.mender.name(value.get("game_title")):
            parts.append(f"[game: {game}]")
        parts += [
            f"[sticker {each.name}]"
            if each.kind == "sticker" and each.name
            else Attachment(each.kind, each.name, size_bytes=each.size_bytes).line()
            for each in files
        ]
        return "\n".join(filter(None, parts)) if len(parts) > 1 else words

    def _plain(self, value: object) -> str:
        return " ".join(self._words(value).split())


def _is_local(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


def _kind(value: Mapping[str, Any], files: tuple[ImportedFile, ...], words: str, plain: bool) -> str:
    if "forwarded_from" in value:
        return "forward"
    if "poll" in value:
        return "poll"
    if files and not words:
        return "sticker" if files[0].kind == "sticker" else "media"
    return "text" if plain else "reply"
