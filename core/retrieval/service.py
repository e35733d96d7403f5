"""Search over archived messages: the only way to their text for chat and commands.

The database decides visibility: the readable rooms are part of the statement that reads the rows.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import PersonId, RoomId
from core.domain.retrieval import FOUND_FROM, coverage, is_echo, rarity
from core.store import archive
from core.store.archive import ArchivedMessage
from core.store.engine import Tx

CANDIDATES = 400
"""How many messages that share a word with the question are weighed, newest first."""
TERMS = 24
"""How many words of a question count; a longer one is cut to its first."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A message with its score: the share of the question's weight that it holds, 0 to 1."""

    message: ArchivedMessage
    score: float


async def search(
    tx: Tx,
    text: str,
    readable: Collection[RoomId],
    *,
    k: int,
    but_not: tuple[RoomId, str] | None = None,
    authors: Sequence[PersonId] | None = None,
    since: datetime | None = None,
    floor: float = FOUND_FROM,
) -> tuple[Hit, ...]:
    """Return the best messages of the readable rooms, best first; empty rather than anything.

    Args:
        tx: An open transaction: rows and readable rooms are of one moment.
        text: The question, as people write it.
        readable: From `ReadableRooms`, for the venue and the asker of this very request.
        k: How many at most.
        but_not: The room and platform id of the question itself.
        authors: Only what these people said; None for anyone.
        since: Only what was said since then.
        floor: The least share of the question's weight that a hit must hold.
    """
    terms = (await archive.list_terms(tx, text))[:TERMS]
    rooms = sorted(readable)
    if not terms or not rooms:
        return ()
    found = await archive.search_messages(
        tx, rooms, terms, limit=CANDIDATES, but_not=but_not, authors=authors, since=since
    )
    if not found:
        return ()
    holders = Counter(term for message in found for term in message.terms)
    count = await archive.count_messages(tx, rooms)
    weights = {term: rarity(count, holders[term]) for term in terms}
    hits = [
        Hit(message, coverage(terms, message.terms, weights)) for message in found if not is_echo(text, message.text)
    ]
    good = [hit for hit in hits if hit.score >= floor]
    return tuple(sorted(good, key=lambda hit: (-hit.score, -hit.message.sent_at.timestamp(), hit.message.id))[:k])
