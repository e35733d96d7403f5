"""Records of the two formats that keep messages in arrays; what a format means is its translator's."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, Protocol

from core.domain.imports import BadCode, BadRecord, Chat, ImportRecord, Moved, Place, Unsupported
from core.retrieval.readers.fields import BadField, Mender, Twins
from core.retrieval.readers.stream import Closed, Dialect, Element, Opened, Splitter, excerpt

Item = Chat | ImportRecord | BadRecord | Unsupported


class Translator(Protocol):
    """What a format's elements and heads mean."""

    dialect: Dialect
    mender: Mender
    twins: Twins
    needs_zone: bool
    moves: list[Moved]

    def chat(self, head: Mapping[str, Any], number: int) -> Chat:
        """Return the chat that a head describes."""
        ...

    def record(self, element: Element, chat: int) -> ImportRecord | None:
        """Return the record of an element; None if there is nothing of it."""
        ...


class ArrayReader:
    """Reads one file. A chat is yielded when its array begins, and again when its object has ended."""

    def __init__(self, file: BinaryIO, translator: Translator, place: Place) -> None:
        self._splitter = Splitter(file, translator.dialect, place)
        self._translator = translator
        self._start = place
        self.place = place
        translator.twins.seen.update(place.twins)

    @property
    def needs_zone(self) -> bool:
        """Whether a local time was met and nobody has said of which zone."""
        return self._translator.needs_zone

    @property
    def moves(self) -> list[Moved]:
        """Who came and who went, as far as read."""
        return self._translator.moves

    def __iter__(self) -> Iterator[Item]:
        """Yield chats, records, and what gave none."""
        chat = self._start.chat or 0
        heads: dict[int, Mapping[str, Any]] = {}
        opened = chat + 1 if self._start.chat is not None else 0
        for piece in self._splitter:
            match piece:
                case Element():
                    yield from self._element(piece, chat)
                case Opened(head):
                    chat, opened = opened, opened + 1
                    heads[chat] = head
                    yield self._translator.chat(head, chat)
                case Closed(number, head):
                    # What came before the array stands: of the rest only what it had left out.
                    if number in heads and (whole := {**head, **heads.pop(number)}).keys():
                        yield self._translator.chat(whole, number)
                case BadRecord():
                    yield piece

    def _element(self, element: Element, chat: int) -> Iterator[Item]:
        translator = self._translator
        try:
            record = translator.record(element, chat)
        except BadField as exc:
            translator.mender.take()
            yield BadRecord(element.line, element.byte, exc.code, excerpt(str(element.value)))
            return
        mended = translator.mender.take() + ((BadCode.BAD_UTF8,) if element.bad_utf8 else ())
        at = self._splitter.place
        self.place = replace(at, twins=dict(translator.twins.seen)) if translator.twins.seen else at
        if record is None:
            yield Unsupported(element.line, element.byte)
        else:
            yield replace(record, mended=mended) if mended else record
