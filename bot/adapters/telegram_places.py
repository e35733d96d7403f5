"""Chats of Telegram in our words: keys of rooms, what an update says of a chat and of who is in it; pure."""

from dataclasses import dataclass, replace

from telegram import Chat, ChatMember, ChatMemberUpdated, Message, User

from core.domain.ids import RoomKey
from core.domain.platforms import CommunityReport, MemberReport, RoomReport, Surroundings, Whoever
from core.domain.rooms import RoomKind

PLATFORM = "telegram"
_GONE = frozenset({ChatMember.LEFT, ChatMember.BANNED})


@dataclass(frozen=True, slots=True)
class Moved:
    """A group has a new id."""

    old: RoomKey
    new: RoomKey


@dataclass(frozen=True, slots=True)
class Removed:
    """We are out of a chat. `private`: a person has blocked us."""

    room: RoomKey
    private: bool


@dataclass(frozen=True, slots=True)
class Learned:
    """News of a chat or of who is in it."""

    report: CommunityReport


@dataclass(frozen=True, slots=True)
class Gone:
    """Someone has left a chat."""

    community_ref: str
    account_ref: str


def room_key(chat_id: int, topic_ref: str = "") -> RoomKey:
    """Return the key of a chat or of one of its topics."""
    return RoomKey(PLATFORM, str(chat_id), topic_ref)


def topic_ref(message: Message) -> str:
    """Return the topic of a message; empty for General and outside forums, whatever number it carries."""
    real = message.is_topic_message and message.message_thread_id not in (None, 1)
    return str(message.message_thread_id) if real and message.chat.type != Chat.PRIVATE else ""


def chat_report(
    chat: Chat, topic: str = "", topic_name: str = "", members: tuple[MemberReport, ...] = ()
) -> CommunityReport:
    """Return what an update says of its chat: one community, one room for each topic; the room meant comes last.

    A group is a community of its own, and whoever is in it reads all its topics. That its members can't be listed
    closes it to every other venue by itself: nobody is known to be in both.
    """
    private = chat.type == Chat.PRIVATE
    readers = Whoever(accounts=frozenset({str(chat.id)})) if private else Whoever(everyone=True)
    name = chat.effective_name or ""
    about = Surroundings(
        community_ref=str(chat.id),
        kind=RoomKind.DM if private else RoomKind.CHANNEL if chat.type == Chat.CHANNEL else RoomKind.GROUP,
        community_name=name,
        name=name,
    )
    rooms = [RoomReport(key=room_key(chat.id), surroundings=about, view=readers, history=readers)]
    if topic:
        hangs = replace(about, kind=RoomKind.TOPIC, name=topic_name, parent=room_key(chat.id))
        rooms.append(RoomReport(key=room_key(chat.id, topic), surroundings=hangs, view=readers, history=readers))
    return CommunityReport(platform=PLATFORM, ref=str(chat.id), name=name, rooms=tuple(rooms), members=members)


def own_standing(change: ChatMemberUpdated) -> Learned | Removed:
    """Return what became of the bot itself in a chat."""
    if change.new_chat_member.status in _GONE:
        return Removed(room_key(change.chat.id), change.chat.type == Chat.PRIVATE)
    return Learned(chat_report(change.chat))


def standing(change: ChatMemberUpdated) -> Learned | Gone | None:
    """Return what became of a member; None if they are in the chat as before."""
    new = change.new_chat_member
    outside = new.status in _GONE or (new.status == ChatMember.RESTRICTED and not getattr(new, "is_member", True))
    if outside:
        return Gone(str(change.chat.id), str(new.user.id))
    if change.old_chat_member.status in _GONE:
        return Learned(chat_report(change.chat, members=(member_report(new.user),)))
    return None


def member_report(user: User) -> MemberReport:
    """Return an account as a member."""
    return MemberReport(ref=str(user.id), name=user.full_name or str(user.id), is_bot=user.is_bot)
