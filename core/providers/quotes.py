"""The provider without a model: verbatim quotes, or the plain word that nothing was found. Never rewords."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from core.domain.timewords import MONTH_NAMES

QUOTE_CHARS = 400
"""A longer message is cut at a word and marked; what stands before the mark is verbatim."""


@dataclass(frozen=True, slots=True)
class Source:
    """Whose words they are and where they stand.

    `room` empty: it is not to be named. `locator` is our message id: it leads back to the row. `opens`: who asked
    may open it now; `link` is then its address, where the platform has one.
    """

    author: str
    room: str
    sent_at: datetime
    locator: int
    opens: bool = False
    link: str | None = None

    def line(self, tz: tzinfo) -> str:
        """Return author, room, time and the way to the message, in one line; times are those of `tz`."""
        when = self.sent_at.astimezone(tz)
        if not self.opens:
            return f"{self.author}, said here on {when.day} {MONTH_NAMES[when.month - 1]}"
        place = f", #{self.room}" if self.room else ""
        way = self.link or f"(message {self.locator})"
        return f"{self.author}{place}, {when:%Y-%m-%d %H:%M} {way}"


@dataclass(frozen=True, slots=True)
class FileSource:
    """Where some lines of a file stand. `link`: where they can be opened, if they have an address."""

    place: str
    link: str | None = None

    def line(self, tz: tzinfo) -> str:
        """Return file, lines and the way to them, in one line; a file has no time, so `tz` changes nothing."""
        return " ".join(filter(None, (self.place, self.link)))


@dataclass(frozen=True, slots=True)
class Quote:
    """A message, or some lines of a file, as it is quoted."""

    source: Source | FileSource
    text: str


def compose(intro: str, none: str, quotes: Sequence[Quote], tz: tzinfo) -> str:
    """Return the whole answer.

    Args:
        intro: The sentence that no model is configured; always said.
        none: The sentence that nothing was found.
        quotes: Best first; may be empty.
        tz: The community's zone, in which times are shown.
    """
    if not quotes:
        return f"{intro}\n\n{none}"
    return "\n\n".join([intro, *(block(quote, tz) for quote in quotes)])


def block(quote: Quote, tz: tzinfo) -> str:
    """Return one quotation, each of its lines marked, with its source below."""
    lines = "\n".join(f"> {line}" for line in shorten(quote.text).splitlines())
    return f"{lines}\n— {quote.source.line(tz)}"


def shorten(text: str) -> str:
    """Return `text`, or its beginning up to a word with the mark "[…]"."""
    text = text.strip()
    if len(text) <= QUOTE_CHARS:
        return text
    head, _, _ = text[:QUOTE_CHARS].rpartition(" ")
    return f"{head or text[:QUOTE_CHARS]} […]"
