"""What later edits and deletions do to messages, to turns that wait or run, and to answers already given."""

from collections.abc import Callable
from datetime import datetime, timedelta

from core.chat.admission import Arrival
from core.chat.keeping import keep_edit
from core.domain.archiving import is_archived
from core.domain.ids import InboxId, TurnId
from core.domain.rooms import Room
from core.domain.speech import SilenceReason
from core.store import archive, decisions, inbox, outbox, proxies
from core.store.engine import Tx

ADDRESS_ADDED_UNTIL = timedelta(minutes=5)
"""How old a message may be that an edit turns into one addressed to us."""


async def apply_edit(tx: Tx, arrival: Arrival, now: datetime) -> InboxId | None:
    """Store the newer text; change a turn that has shown nothing yet.

    Returns:
        The event to answer now, if the edit is what made the message speak to us; else None.
    """
    message, room = arrival.message, arrival.room
    text = message.told()
    await keep_edit(tx, arrival)
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


async def apply_delete(tx: Tx, arrival: Arrival, halves: Callable[[str], bool]) -> None:
    """Bury what was deleted, cancel the turns in which nothing else was asked, and note it in the receipts.

    `halves`: whether a message stands on as its copy; then its deletion is no more than the end of the original.
    """
    message, room = arrival.message, arrival.room
    refs = (message.message_id, *message.more_refs)
    unheard_at = message.sent_at if is_archived(room, arrival.policy) else None
    reason = "deleted" if message.live else "missed"  # found gone after a gap
    await archive.bury_messages(tx, room.id, refs, reason, unheard_at=unheard_at)
    for ref in refs:
        await outbox.mark_source_gone(tx, room.id, ref)
        if not halves(ref):
            await withdraw_message(tx, room, message.front_end, ref)


async def withdraw_message(tx: Tx, room: Room, front_end: str, message_ref: str) -> None:
    """Take a message that is gone out of the turn that it was asked in."""
    found = await inbox.find_by_message(tx, front_end, room.id, message_ref)
    if found is not None:
        await _withdraw(tx, *found, SilenceReason.TRIGGER_DELETED)


async def is_answered(tx: Tx, room: Room, front_end: str, message_ref: str) -> bool:
    """Return whether words in answer to a message may be seen already."""
    found = await inbox.find_by_message(tx, front_end, room.id, message_ref)
    return found is not None and found[1] is not None and await proxies.was_answered(tx, found[1])


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
