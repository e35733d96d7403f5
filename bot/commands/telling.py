"""A line for one person alone, outside the answer to a command: summaries, notices to a linked account."""

from core.chat.answers import Asked, queue_send
from core.domain.ids import OutboxId
from core.domain.speech import Draft, Receipt, SpeechKind
from core.privacy.hand import Telling
from core.store import outbox, places
from core.store.engine import Tx


async def tell_person(tx: Tx, telling: Telling) -> OutboxId | None:
    """Queue a private message in a room where the person was; None if it was queued before."""
    room = await places.load_room(tx, telling.room_id)
    draft = Draft(
        kind=SpeechKind.COMMAND,
        room_id=room.id,
        front_end=telling.front_end,
        reply_to=None,
        text=telling.text,
        audience=frozenset({room.id}),
        dedupe=telling.dedupe,
        private_to=telling.person_id,
    )
    outbox_id = await outbox.add(tx, draft, community_id=room.community_id, trace=telling.trace, asked_at=None)
    if outbox_id is None:
        return None
    now = await tx.fetchval("select voidbot.now()")
    asked = Asked(
        community_id=room.community_id,
        room_id=room.id,
        person_id=telling.person_id,
        front_end=telling.front_end,
        reply_to="",
        language=room.language,
        trace=telling.trace,
        at=now,
    )
    await queue_send(tx, outbox_id, asked, Receipt(trigger=telling.dedupe, rule=telling.rule, provider="code"))
    return outbox_id
