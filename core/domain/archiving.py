"""Which words are archived: one decision for each message, taken when it is written. Off until it is switched on."""

from dataclasses import dataclass
from enum import StrEnum

from core.domain.messages import InboundMessage, MessageKind
from core.domain.rooms import ArchiveSwitch, Room, RoomKind


class SkipReason(StrEnum):
    """Why something is not archived."""

    LEFT = "left"
    EXCLUDED = "excluded"
    DM_OFF = "dm_off"
    NOT_AGREED = "not_agreed"
    OPTED_OUT = "opted_out"
    PRIVATE_THREAD = "private_thread"
    NOT_ALLOWED = "not_allowed"


@dataclass(frozen=True, slots=True)
class Keep:
    """It is archived."""


@dataclass(frozen=True, slots=True)
class Skip:
    """It is not archived."""

    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePolicy:
    """What the operator allows. `private_threads`: they follow the room that they hang on, as open ones do."""

    store_dm: bool = False
    private_threads: bool = False


ROOMS_ALONE = ArchivePolicy()
"""Nothing but what administrators switch on."""


def archive_decision(room: Room, policy: ArchivePolicy, *, agrees: bool = True) -> Keep | Skip:
    """Return whether what is said in a room is archived; the first rule that holds decides.

    `agrees`: the person whose direct room it is has not declined.
    """
    switches = {room.archive, room.archive_above}
    if not room.community_active:
        return Skip(SkipReason.LEFT)
    if ArchiveSwitch.NEVER in switches:
        return Skip(SkipReason.EXCLUDED)
    if room.kind is RoomKind.DM:
        if not policy.store_dm:
            return Skip(SkipReason.DM_OFF)
        return Keep() if agrees else Skip(SkipReason.NOT_AGREED)
    if room.archive is not ArchiveSwitch.INHERIT:
        return Keep() if room.archive is ArchiveSwitch.ON else Skip(SkipReason.NOT_ALLOWED)
    if room.archive_above is not ArchiveSwitch.ON:
        return Skip(SkipReason.NOT_ALLOWED)
    if room.kind is RoomKind.THREAD_PRIVATE and not policy.private_threads:
        return Skip(SkipReason.PRIVATE_THREAD)
    return Keep()


def is_archived(room: Room, policy: ArchivePolicy) -> bool:
    """Return whether a room is archived, as far as that hangs on no person."""
    return isinstance(archive_decision(room, policy), Keep)


def kept_kind(message: InboundMessage) -> str:
    """Return what sort of message the archive calls it, apart from whom it speaks to."""
    if message.kind is MessageKind.COMMAND:
        return "command"
    if message.forwarded_from:
        return "forward"
    if not message.text and message.attachments:
        stickers = all(each.kind == "sticker" for each in message.attachments)
        return "sticker" if stickers else "media"
    if not message.text and any(quote.startswith("[poll") for quote in message.quotes):
        return "poll"
    return "reply" if message.reply_to is not None else "text"
