"""What later edits and deletions do to messages, to turns that wait or run, and to answers already given."""

from datetime import datetime, timedelta

from core.domain.ids import InboxId, TurnId
from core.domain.messages import InboundMessage
from core.domain.rooms import Room
from core.domain.speech import SilenceReason
from core.store import archive, decisions, inbox, outbox
from core.store.engine import Tx

ADDRESS_ADDED_UNTIL = timedelta(minutes=5)
"""How old a message may be that an edit turns into one addressed to us."""


async def apply_edit(tx: Tx, room: Room, message: InboundMessage, now: datetime) -> InboxId | None:
    """Store the newer text; change a turn that has shown nothing yet.

    Returns:
        The event to answer now, if the edit is what made the message speak to us; else None.
    """
    text = message.told()
    await archive.edit_message(tx, room.id, message.message_id, text, message.received_at)
    found = await inbox.find_by_message(tx, message.front_end, room.id, message.message_id)
    if found is None:
        return None
    inbox_id, turn_id = found
    if turn_id is None:
        fresh = now - message.sent_at <= ADDRESS_ADDED_UNTIL
        if not message.addressed_by or not fresh or await decisions.exists(tx, inbox_id):
            return None
        await inbox.keep_words(tx, inbox_id, message)
        return inbox_id
    if await inbox.holds_text(tx, inbox_id, text) or not await inbox.revise(tx, inbox_id, turn_id, message):
        return None
    if not message.addressed_by:
        await _withdraw(tx, inbox_id, turn_id, SilenceReason.ADDRESS_REMOVED)
    return None


async def apply_delete(tx: Tx, room: Room, message: InboundMessage) -> None:
    """Bury the message; cancel its turn if nothing else was asked in it; note it in the receipt."""
    await archive.bury_message(tx, room.id, message.message_id, "deleted")
    await outbox.mark_source_gone(tx, room.id, message.message_id)
    found = await inbox.find_by_message(tx, message.front_end, room.id, message.message_id)
    if found is not None:
        await _withdraw(tx, *found, SilenceReason.TRIGGER_DELETED)


async def _withdraw(tx: Tx, inbox_id: InboxId, turn_id: TurnId | None, reason: SilenceReason) -> None:
    """Take one message out of its turn; a turn that is left empty ends silently, also on its way out.

    The job that would answer finds the turn ended and stops there (`core/chat/reply.py`).
    """
    others = await inbox.withdraw(tx, inbox_id)
    if turn_id is None:
        return
    if others:
        await inbox.revise(tx, inbox_id, turn_id, None)  # what runs was made from it and begins anew
        return
    await inbox.end_turn(tx, turn_id, reason)
    if await outbox.drop_for_turn(tx, f"reply:{turn_id}", reason):
        await inbox.silence_turn(tx, turn_id, reason)
