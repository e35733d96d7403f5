"""JSON lines: one message a line, with its room; accounts of a platform of their own, `import`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

from core.domain.ids import RoomKey
from core.domain.imports import (
    Account,
    BadCode,
    BadRecord,
    Chat,
    ImportedFile,
    ImportRecord,
    Moved,
    Place,
)
from core.domain.messages import Attachment
from core.domain.rooms import RoomKind
from core.retrieval.readers.fields import BadField, Mender, Twins, iso_time, ref_of
from core.retrieval.readers.stream import ELEMENT_BYTES, excerpt

PLATFORM = "import"


class JsonLines:
    """Reads one file. Rooms are numbered in the order in which they come."""

    def __init__(self, file: BinaryIO, place: Place, rooms: dict[str, int] | None = None) -> None:
        self._file = file
        self._start = place
        self._mender = Mender()
        self._twins = Twins(seen=dict(place.twins))
        self._rooms = {} if rooms is None else rooms
        self._accounts: dict[str, Account] = {}
        self.place = place
        self.needs_zone = False
        self.moves: list[Moved] = []

    @property
    def rooms(self) -> dict[str, int]:
        """The numbers of the rooms met so far."""
        return self._rooms

    def chat_of(self, room: str, number: int) -> Chat:
        """Return a room of the file. Its key is completed by who imports it: names are the file's own."""
        return Chat(number=number, key=RoomKey(PLATFORM, room), kind=RoomKind.CHANNEL, name=room, private=False)

    def __iter__(self) -> Iterator[Chat | ImportRecord | BadRecord]:
        """Yield rooms as they come up, records, and lines that are none."""
        self._file.seek(self._start.byte)
        byte, number = self._start.byte, self._start.line
        while line := self._file.readline(ELEMENT_BYTES):
            if len(line) == ELEMENT_BYTES and not line.endswith(b"\n"):
                yield BadRecord(number, byte, BadCode.TOO_LONG, excerpt(line[:400].decode("utf-8", "replace")))
                byte += len(line)
                while (rest := self._file.readline(ELEMENT_BYTES)) and not rest.endswith(b"\n"):
                    byte += len(rest)
                byte, number = byte + len(rest), number + 1
                continue
            yield from self._line(line, number, byte)
            byte, number = byte + len(line), number + 1

    def _line(self, line: bytes, number: int, byte: int) -> Iterator[Chat | ImportRecord | BadRecord]:
        text, replaced = _decoded(line.removeprefix(b"\xef\xbb\xbf") if byte == 0 else line)
        if not text.strip():
            return
        try:
            value = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            cut = not line.endswith(b"\n")
            code = BadCode.TRUNCATED_TAIL if cut else BadCode.JSON_SYNTAX
            yield BadRecord(number, byte, code, excerpt(text))
            return
        try:
            room, record = self._record(value, number, byte)
        except BadField as exc:
            self._mender.take()
            yield BadRecord(number, byte, exc.code, excerpt(text))
            return
        if room not in self._rooms:
            self._rooms[room] = len(self._rooms)
            yield self.chat_of(room, self._rooms[room])
        mended = self._mender.take() + ((BadCode.BAD_UTF8,) if replaced else ())
        self.place = Place(byte + len(line), number + 1, None, dict(self._twins.seen))
        yield replace(record, chat=self._rooms[room], mended=mended)

    def _record(self, value: Any, number: int, byte: int) -> tuple[str, ImportRecord]:
        if not isinstance(value, dict):
            raise BadField(BadCode.BAD_TYPE)
        room, author = ref_of(value.get("room")), ref_of(value.get("author"))
        if room is None:
            raise BadField(BadCode.BAD_TYPE)
        if author is None:
            raise BadField(BadCode.NO_AUTHOR)
        at = iso_time(value.get("ts"))
        words, caption = self._mender.text(value.get("text")), self._mender.text(value.get("caption"))
        ref = ref_of(value.get("message_id"))
        files = (ImportedFile("image", caption=caption),) if caption else ()
        reply_to = ref_of(value.get("reply_to"))
        account = self._accounts.setdefault(author, Account(author, self._mender.name(author)))
        return room, ImportRecord(
            line=number,
            byte=byte,
            chat=0,
            ref=ref or self._twins.ref(author, at, words),
            ref_made=ref is None,
            kind="reply" if reply_to else "text" if words or not files else "media",
            text=words if words or not files else Attachment("image").line(),
            words=words,
            sent_at=at,
            author=account,
            reply_to=reply_to,
            session=ref_of(value.get("session")),
            files=files,
        )


def _decoded(line: bytes) -> tuple[str, bool]:
    try:
        return line.decode("utf-8"), False
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace"), True
