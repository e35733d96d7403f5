"""Whether the files that an answer rests on may still be told where it is said."""

from collections.abc import Iterable

from core.domain.audience import InRoom, Private, Venue
from core.domain.chunks import ChunkRef
from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.prompt import SourceKind
from core.domain.speech import ReceiptSource
from core.store import lore_search
from core.store.access import ReadableRooms
from core.store.engine import Tx


def file_refs(sources: Iterable[ReceiptSource]) -> list[str]:
    """Return the files among the sources of an answer."""
    return [source.ref for source in sources if source.kind == SourceKind.FILE]


async def are_told(
    tx: Tx,
    readable: ReadableRooms,
    community_id: CommunityId,
    room_id: RoomId,
    private_to: PersonId | None,
    refs: Iterable[str],
    *,
    epoch: int | None = None,
) -> bool:
    """Return whether each of these passages still stands in a source that the venue may be told of.

    One that was rewritten or removed, or whose source is closed to the venue, does not; nor does what is no reference.

    Args:
        tx: An open transaction.
        readable: The rooms that are readable where.
        community_id: The answer's.
        room_id: Where it is said.
        private_to: Who alone is told it; None: the room.
        refs: What receipts keep of the passages.
        epoch: As in `ReadableRooms.load`.
    """
    found = [ChunkRef.read(ref) for ref in refs]
    if not found:
        return True
    wanted = {ref.chunk for ref in found if ref is not None}
    venue: Venue = InRoom(room_id) if private_to is None else Private(private_to)
    rooms = await readable.load(tx, community_id, venue, None, epoch=epoch)
    stand = await lore_search.read_chunks(tx, rooms, community_id, wanted)
    return None not in found and stand.keys() == wanted
