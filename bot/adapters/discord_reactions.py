"""Discord's reactions in our words: one is given, taken back, or all of a message are cleared away."""

from datetime import datetime

from bot.adapters.discord_intake import PLATFORM, Ignored, Place, Us, Why
from bot.adapters.discord_payload import Payload, part, payload, ref, text
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage, MessageKind, Origin, Reaction, ReactionChange

CHANGES = {
    "MESSAGE_REACTION_ADD": ReactionChange.ADD,
    "MESSAGE_REACTION_REMOVE": ReactionChange.REMOVE,
    "MESSAGE_REACTION_REMOVE_ALL": ReactionChange.CLEAR,
    "MESSAGE_REACTION_REMOVE_EMOJI": ReactionChange.CLEAR,
}


def to_reaction(event: str, data: object, *, us: Us, place: Place, now: datetime) -> InboundMessage | Ignored:
    """Return what one event says of the reactions to a message."""
    body = payload(data)
    room, target, who = ref(body, "channel_id"), ref(body, "message_id"), ref(body, "user_id")
    change = CHANGES[event]
    emoji = _emoji(part(body, "emoji"))
    by_someone = change is not ReactionChange.CLEAR
    if not room or not target or (by_someone and not (who and emoji)):
        return Ignored(Why.MALFORMED)
    if not place.surroundings.community_ref:
        return Ignored(Why.NOWHERE)
    member = part(body, "member")
    user = part(member, "user")
    machine = Origin.BOT if user.get("bot") is True else Origin.HUMAN
    return InboundMessage(
        front_end=PLATFORM,
        room=RoomKey(PLATFORM, room),
        message_id=f"reaction:{target}",
        event_id=f"reaction:{event}:{target}:{who}:{emoji}",
        kind=MessageKind.REACTION,
        person_ref=who or us.bot_ref,
        display_name=text(member, "nick") or text(user, "global_name") or text(user, "username"),
        username=text(user, "username"),
        origin=Origin.SELF if who == us.bot_ref else machine,
        text=emoji,
        sent_at=now,
        received_at=now,
        reply_to=target,
        reaction=Reaction(change, (emoji,) if emoji else ()),
        surroundings=place.surroundings,
    )


def _emoji(emoji: Payload) -> str:
    """Return an emoji as text; one of a community's own by its name, between colons."""
    name = text(emoji, "name")
    return f":{name}:" if name and ref(emoji, "id") else name
