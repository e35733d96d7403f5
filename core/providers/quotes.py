"""The provider without a model: verbatim quotes, or the plain word that nothing was found. Never rewords."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

QUOTE_CHARS = 400
"""A longer message is cut at a word and marked; what stands before the mark is verbatim."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A message as it is quoted. `locator` is our message id: it leads back to the row."""

    author: str
    room: str
    sent_at: datetime
    text: str
    locator: int


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
    """Return one quotation, each of its lines marked, with author, room, time and locator below."""
    lines = "\n".join(f"> {line}" for line in shorten(quote.text).splitlines())
    when = quote.sent_at.astimezone(tz).strftime("%Y-%m-%d %H:%M")
    return f"{lines}\n— {quote.author}, #{quote.room}, {when} (message {quote.locator})"


def shorten(text: str) -> str:
    """Return `text`, or its beginning up to a word with the mark "[…]"."""
    text = text.strip()
    if len(text) <= QUOTE_CHARS:
        return text
    head, _, _ = text[:QUOTE_CHARS].rpartition(" ")
    return f"{head or text[:QUOTE_CHARS]} […]"
