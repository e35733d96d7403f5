"""What the staff is told in their room besides cards: once each, and nothing where no room is theirs."""

from core.chat.answers import queue_unasked
from core.domain.ids import CommunityId, OutboxId
from core.domain.speech import Draft, Receipt, SpeechKind
from core.store import places
from core.store.engine import Tx


async def tell_staff(tx: Tx, community_id: CommunityId, text: str, dedupe: str) -> OutboxId | None:
    """Queue a message to the staff; None if it was said already, or no room is the staff's.

    `text` names no member and quotes nobody: it may be read by whoever reads in that room.
    """
    staff = await places.find_staff(tx, community_id)
    if staff is None:
        return None
    draft = Draft(
        kind=SpeechKind.MODERATION,
        room_id=staff.id,
        front_end=staff.key.platform,
        reply_to=None,
        text=text,
        audience=frozenset({staff.id}),
        dedupe=f"staff:{community_id}:{dedupe}",
    )
    trace = f"staff:{community_id}"
    receipt = Receipt(trigger=trace, rule=f"staff:{dedupe.partition(':')[0]}", provider="code")
    return await queue_unasked(tx, draft, receipt, community_id=community_id, trace=trace)
