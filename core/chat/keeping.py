"""What of an event the archive keeps: messages with their files, newer words, deletions, reactions, copies."""

from collections.abc import Awaitable, Callable

from core.chat.admission import Arrival
from core.chat.proxies import Pair
from core.domain.archiving import kept_kind
from core.domain.ids import PersonId
from core.domain.messages import Address, InboundMessage, Origin, ReactionChange
from core.store import archive, people, proxies, reactions
from core.store.engine import Tx
from core.store.places import Place

PROXIED = "proxied"
"""Why the original of a copy is a tombstone."""


async def keep(tx: Tx, arrival: Arrival, pair: Pair) -> bool:
    """Archive a message; False if it was deleted before it came, so that it is nobody's question any more.

    Of an original whose copy stands nothing is kept; of a copy whose original stands the original goes.
    """
    room, message = arrival.room, arrival.message
    if pair.copy is not None:
        await archive.bury_messages(tx, room.id, [message.message_id], PROXIED, unheard_at=message.sent_at)
        await _name(tx, arrival, pair.copy)
        await archive.give_owner(tx, room.id, pair.copy.message_id, arrival.person_id)
        return True
    author, owner = arrival.person_id, None
    if pair.original is not None:
        await archive.bury_messages(tx, room.id, [pair.original.message_id], PROXIED, unheard_at=message.sent_at)
        author, owner = await _name(tx, arrival, pair.heard), arrival.person_id
    if await _add(tx, arrival, author, owner):
        return True
    return not await archive.is_gone(tx, room.id, message.message_id)


async def _name(tx: Tx, arrival: Arrival, copy: InboundMessage) -> PersonId:
    """Return the person under whose name the copy appears."""
    room = arrival.room
    return await proxies.ensure_name(tx, room.key, room.community_id, copy.person_ref, copy.display_name)


async def _add(tx: Tx, arrival: Arrival, author: PersonId, owner: PersonId | None) -> bool:
    message = arrival.message
    direct = Address.DM in message.addressed_by  # where everything is said to the bot, not all of it is a question
    added = await archive.add_message(
        tx,
        archive.NewMessage(
            room_id=arrival.room.id,
            community_id=arrival.room.community_id,
            author_id=author,
            platform_ref=message.message_id,
            kind=archive.PROMPT_KIND if message.addressed_by and not direct else kept_kind(message),
            text=message.told(),
            sent_at=message.sent_at,
            reply_to_ref=message.reply_to,
            origin="live" if message.live else "catchup",
            forwarded_from=message.forwarded_from,
            files=message.attachments,
            proxy_of=owner,
        ),
    )
    return added is not None


async def keep_edit(tx: Tx, arrival: Arrival) -> None:
    """Bring an archived message to its newer words, or archive what was never heard before.

    Where new words are not kept any more, the old ones go with the edit: nobody says them now.
    """
    message, room_id = arrival.message, arrival.room.id
    at = message.edited_at or message.received_at
    if not arrival.keeps:
        if await archive.says_otherwise(tx, room_id, message.message_id, message.told()):
            await archive.bury_messages(tx, room_id, [message.message_id], "edited")
    elif (
        not await archive.edit_message(tx, room_id, message.message_id, message.told(), at, message.attachments)
        and message.origin is not Origin.SELF
    ):
        await _add(tx, arrival, arrival.person_id, None)


async def keep_reaction(
    tx: Tx, place: Place, message: InboundMessage, arrive: Callable[[], Awaitable[Arrival]]
) -> None:
    """Bring the reactions to an archived message to what they are now; `arrive` meets the person, where one is needed.

    Somebody who may not be kept can still take back what is there of them.
    """
    change = message.reaction
    target = None if message.reply_to is None else await reactions.find_target(tx, place.room.id, message.reply_to)
    if change is None or target is None:
        return
    match change.change:
        case ReactionChange.CLEAR:
            await reactions.take_back(tx, target, None, change.emoji or None)
        case ReactionChange.REMOVE:
            person = await people.find_person(tx, message.room.platform, message.person_ref, place.community.id)
            if person is not None:
                await reactions.take_back(tx, target, person.id, change.emoji)
        case ReactionChange.ADD | ReactionChange.SET:
            arrival = await arrive()
            if change.change is ReactionChange.SET:
                await reactions.take_back(tx, target, arrival.person_id, None)
            if arrival.keeps:
                await reactions.add(tx, target, arrival.person_id, change.emoji)
