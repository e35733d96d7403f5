"""DiscordChatExporter's JSON: one channel a file."""

from collections.abc import Mapping
from typing import Any

from core.domain.ids import RoomKey
from core.domain.imports import Account, BadCode, Chat, ImportedFile, ImportRecord, Moved
from core.domain.messages import Attachment
from core.domain.rooms import RoomKind
from core.retrieval.readers.fields import BadField, Mender, Twins, count, iso_time, items, mapping, needed_ref, ref_of
from core.retrieval.readers.stream import Dialect, Element

PLATFORM = "discord"
_WORDS = frozenset({"Default", "Reply", "0", "19", "20", "23"})
"""Types that hold what somebody wrote, named or numbered; 20 and 23 are answers to commands."""
_OPEN = frozenset(
    {
        *("GuildTextChat", "GuildVoiceChat", "GuildNews", "GuildNewsThread", "GuildPublicThread"),
        *("GuildStageVoice", "GuildForum", "GuildMedia"),
        *("0", "2", "5", "10", "11", "13", "15", "16"),
    }
)
"""Channels that are not a few people's own; every other type, also one never heard of, is."""
_PUBLIC_THREADS = frozenset({"GuildNewsThread", "GuildPublicThread", "10", "11"})
_PRIVATE_THREADS = frozenset({"GuildPrivateThread", "12"})
_DIRECT = frozenset({"DirectTextChat", "DirectGroupTextChat", "1", "3"})
_MEDIA = {"png": "image", "jpg": "image", "jpeg": "image", "gif": "image", "webp": "image", "mp4": "video"}
DIALECT = Dialect(
    lambda value: {"id", "timestamp", "author", "content"} <= value.keys(),
    lambda head: {"guild", "channel"} <= head.keys(),
)


class DiscordTranslator:
    """Turns what the file says into records."""

    dialect = DIALECT

    def __init__(self) -> None:
        self.mender = Mender()
        self.twins = Twins()
        self.needs_zone = False
        self.moves: list[Moved] = []
        self._accounts: dict[tuple[object, ...], Account] = {}
        self._channel: str | None = None

    def chat(self, head: Mapping[str, Any], number: int) -> Chat:
        """Return the channel that the file is about."""
        guild, channel = mapping(head.get("guild")), mapping(head.get("channel"))
        try:
            ref, parent = ref_of(channel.get("id")), ref_of(channel.get("categoryId"))
            server, kind_name = ref_of(guild.get("id")), str(ref_of(channel.get("type")))
        except BadField:
            ref, parent, server, kind_name = None, None, None, ""
        self._channel = ref
        thread = kind_name in _PUBLIC_THREADS or kind_name in _PRIVATE_THREADS
        return Chat(
            number=number,
            key=None if ref is None else RoomKey(PLATFORM, ref),
            kind=_kind(kind_name),
            name=self.mender.name(channel.get("name")) or ref or "",
            private=kind_name not in _OPEN or server in (None, "0"),
            parent=RoomKey(PLATFORM, parent) if thread and parent not in (None, "0") else None,
            community_ref="" if server in (None, "0") else str(server),
        )

    def record(self, element: Element, chat: int) -> ImportRecord:
        """Return the record of an element.

        Raises:
            BadField: It is none.
        """
        value, mender = element.value, self.mender
        written = str(ref_of(value.get("type"))) in _WORDS
        author = self._author(value.get("author"))
        at = iso_time(value.get("timestamp"))
        edited = value.get("timestampEdited")
        files = self._files(value)
        reference = mapping(value.get("reference"))
        forward = str(reference.get("type")) in ("Forward", "1") or "forwardedMessage" in value
        words = mender.text(value.get("content"))
        shown = self._shown(value, words, files)
        ref = ref_of(value.get("id"))
        channel = ref_of(reference.get("channelId"))
        return ImportRecord(
            line=element.line,
            byte=element.byte,
            chat=chat,
            ref=ref or self.twins.ref(author.ref, at, words),
            ref_made=ref is None,
            kind=_record_kind(written, forward, value, files, words),
            text=shown,
            words=words,
            sent_at=at,
            author=author,
            reply_to=None if forward else ref_of(reference.get("messageId")),
            reply_elsewhere=not forward and channel not in (None, self._channel),
            edited_at=None if edited in (None, "") else iso_time(edited),
            forwarded_from=mender.name(mapping(value.get("forwardedMessage")).get("author")),
            files=files,
        )

    def _author(self, value: object) -> Account:
        author = mapping(value)
        ref = ref_of(author.get("id"))
        if ref is None:
            raise BadField(BadCode.NO_AUTHOR)
        shown = author.get("nickname") or author.get("name")
        is_bot = author.get("isBot") is True
        key = (ref, shown if isinstance(shown, str) else None, is_bot)
        known = self._accounts.get(key)
        if known is None:
            known = self._accounts[key] = Account(needed_ref(ref), self.mender.name(shown), "user", is_bot)
        return known

    def _files(self, value: Mapping[str, Any]) -> tuple[ImportedFile, ...]:
        found = [self._file(each) for each in items(value.get("attachments"))]
        stickers = (mapping(each).get("name") for each in items(value.get("stickers")))
        return (*found, *(ImportedFile("sticker", self.mender.name(name)) for name in stickers))

    def _file(self, value: object) -> ImportedFile:
        told = mapping(value)
        name = self.mender.name(told.get("fileName"))
        kind = _MEDIA.get(name.rpartition(".")[2].lower(), "file")
        return ImportedFile(kind, name, size_bytes=count(told.get("fileSizeBytes")))

    def _shown(self, value: Mapping[str, Any], words: str, files: tuple[ImportedFile, ...]) -> str:
        if not (files or "poll" in value or "forwardedMessage" in value or not words):
            return words
        passed_on = mapping(value.get("forwardedMessage"))
        parts = [words, self.mender.text(passed_on.get("content"))]
        if not words:
            parts += [self._embed(each) for each in items(value.get("embeds"))]
        if (poll := mapping(value.get("poll"))) and (question := mapping(poll.get("question")).get("text")):
            answers = (mapping(each) for each in items(poll.get("answers")))
            texts = [mapping(each.get("media") or each.get("pollMedia") or each).get("text") for each in answers]
            parts.append(f"[poll: {' | '.join(self.mender.name(text) for text in (question, *texts))}]")
        parts += [Attachment(each.kind, each.name, size_bytes=each.size_bytes).line() for each in files]
        return "\n".join(filter(None, parts))

    def _embed(self, value: object) -> str:
        told = mapping(value)
        return "\n".join(filter(None, (self.mender.text(told.get(name)) for name in ("title", "description"))))


def _kind(name: str) -> RoomKind:
    if name in _PUBLIC_THREADS:
        return RoomKind.THREAD_PUBLIC
    if name in _PRIVATE_THREADS:
        return RoomKind.THREAD_PRIVATE
    return RoomKind.DM if name in _DIRECT else RoomKind.CHANNEL


def _record_kind(
    written: bool, forward: bool, value: Mapping[str, Any], files: tuple[ImportedFile, ...], words: str
) -> str:
    if not written:
        return "system"
    if forward:
        return "forward"
    if "poll" in value:
        return "poll"
    if not words and files:
        return "sticker" if files[0].kind == "sticker" else "media"
    return "reply" if mapping(value.get("reference")).get("messageId") is not None else "text"
