"""Search over archived messages: the only way to their text for chat and commands.

The database decides visibility: the readable rooms are part of the statement that reads the rows.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import PersonId, RoomId
from core.domain.retrieval import FOUND_FROM, coverage, is_echo, rarity
from core.store.archive import ArchivedMessage
from core.store.engine import Tx
from core.store.search import Candidate, read_messages, search_messages

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
    prompts: bool = False,
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
        prompts: Whether what was said to the bot is found too.
        floor: The least share of the question's weight that a hit must hold.
    """
    rooms = sorted(readable)
    if not rooms:
        return ()
    found = await search_messages(
        tx,
        rooms,
        text,
        most_terms=TERMS,
        limit=CANDIDATES,
        but_not=but_not,
        authors=authors,
        since=since,
        prompts=prompts,
    )
    holders = Counter(term for candidate in found.candidates for term in candidate.terms)
    weights = {term: rarity(found.total, holders[term]) for term in found.terms}
    scored = [(coverage(found.terms, each.terms, weights), each) for each in found.candidates]
    good = sorted(
        (pair for pair in scored if pair[0] >= floor),
        key=lambda pair: (-pair[0], -pair[1].sent_at.timestamp(), pair[1].id),
    )
    return await _read_best(tx, rooms, text, good, k)


async def _read_best(
    tx: Tx, rooms: Sequence[RoomId], text: str, good: Sequence[tuple[float, Candidate]], k: int
) -> tuple[Hit, ...]:
    """Read the best until `k` of them are no echo of the question; an echo is dear to recognise."""
    hits: list[Hit] = []
    for first in range(0, len(good), 2 * k):
        batch = good[first : first + 2 * k]
        messages = await read_messages(tx, rooms, [candidate.id for _, candidate in batch])
        for score, candidate in batch:
            message = messages.get(candidate.id)
            if message is not None and not is_echo(text, message.text):
                hits.append(Hit(message, score))
            if len(hits) == k:
                return tuple(hits)
    return tuple(hits)
