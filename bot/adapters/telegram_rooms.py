"""What this process knows of Telegram's chats: new ids, forums, administrators, and what was already reported."""

import hashlib
from dataclasses import dataclass, replace
from typing import TypeVar

from telegram import Bot, ChatMember, ChatMemberAdministrator, ChatMemberOwner
from telegram.error import TelegramError

from bot.adapters.telegram_intake import Heard, Ignored, IgnoreReason
from bot.adapters.telegram_places import PLATFORM, Gone, Learned, Moved, Removed, room_key
from core.domain.ids import RoomKey
from core.domain.messages import MessageKind
from core.domain.platforms import CommunityReport
from core.ports import Clock, PlatformMemory

STANDING_S = 30.0
"""How long an administrator's standing is believed."""
ASK_S = 5.0
"""How long an answer about a standing is waited for: messages wait behind it."""
REMEMBERED = 10_000
"""How many messages, rooms and standings are kept in mind."""
GENERAL = 1
"""The number under which the General topic shows that something is being typed; messages go there without one."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Rights:
    """What a person may do in a chat: administer it, or look after its members and what they write."""

    admin: bool = False
    moderator: bool = False


NO_RIGHTS = Rights()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A message as it was last: where it stood, what it said, how often it was edited."""

    topic_ref: str
    digest: bytes
    revision: int = 0


class Rooms:
    """The chats as this process has met them, with the memory that outlives it.

    Raises:
        Unavailable: The store is down; what was to be told has not been.
    """

    def __init__(self, bot: Bot, memory: PlatformMemory, clock: Clock) -> None:
        self._bot, self._memory, self._clock = bot, memory, clock
        self._told: dict[RoomKey, CommunityReport] = {}
        self._moved: dict[str, str] = {}
        self._standings: dict[tuple[str, str], tuple[float, Rights]] = {}
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._forums: set[str] = set()

    async def learn(self, report: CommunityReport) -> None:
        """Report a chat unless this was the last that was said of it."""
        room = report.rooms[-1]
        before = self._told.get(room.key)
        if not room.surroundings.name:  # few messages of a topic say what it is called
            if before is None:
                return
            about = replace(room.surroundings, name=before.rooms[-1].surroundings.name)
            report = replace(report, rooms=(*report.rooms[:-1], replace(room, surroundings=about)))
        if report == before and not report.members:
            return
        await self._memory.learn(report)
        self._told[room.key] = replace(report, members=())
        _forget_oldest(self._told)

    async def learn_parent(self, report: CommunityReport) -> None:
        """Report the group of a topic first: a new topic takes over what is set for it."""
        if len(report.rooms) > 1:
            self._forums.add(report.rooms[0].key.chat_ref)
            await self.learn(replace(report, rooms=report.rooms[:1]))

    async def change(self, news: Moved | Removed | Learned | Gone) -> None:
        """Bring the memory to what an update says of a chat or of its members."""
        match news:
            case Moved(old, new):
                await self.move(old, new)
            case Removed(room, private):
                self._told = {key: each for key, each in self._told.items() if key.chat_ref != room.chat_ref}
                if private:
                    await self._memory.forget_room(room)
                else:
                    await self._memory.forget_community(PLATFORM, room.chat_ref)
            case Learned(report):
                await self.learn_parent(report)
                await self.learn(report)
            case Gone(community_ref, account_ref):
                self._standings.pop((community_ref, account_ref), None)
                await self._memory.leave(PLATFORM, community_ref, account_ref)

    async def move(self, old: RoomKey, new: RoomKey) -> None:
        """Give a chat its new id, once, whichever of the three ways of hearing of it comes first."""
        if self._moved.get(old.chat_ref) == new.chat_ref:
            return
        await self._memory.move(room_key(int(old.chat_ref)), room_key(int(new.chat_ref)))
        self._moved[old.chat_ref] = new.chat_ref
        self._told = {key: each for key, each in self._told.items() if key.chat_ref != old.chat_ref}

    def chat_id(self, chat_ref: str) -> int:
        """Return the id under which a chat is reached now."""
        while chat_ref in self._moved:
            chat_ref = self._moved[chat_ref]
        return int(chat_ref)

    def typing_thread(self, room: RoomKey) -> int | None:
        """Return the thread in which typing is shown: the topic, or General's own number."""
        if room.topic_ref:
            return int(room.topic_ref)
        return GENERAL if room.chat_ref in self._forums else None

    async def rights_of(self, chat_ref: str, account_ref: str) -> Rights:
        """Return what the platform says now that a person may do in a chat; what it does not say is no."""
        key, now = (chat_ref, account_ref), self._clock.monotonic()
        known = self._standings.get(key)
        if known is not None and now - known[0] < STANDING_S:
            return known[1]
        try:
            member = await self._bot.get_chat_member(self.chat_id(chat_ref), int(account_ref), read_timeout=ASK_S)
        except TelegramError:
            return NO_RIGHTS
        rights = _rights_of(member)
        self._standings[key] = (now, rights)
        _forget_oldest(self._standings)
        return rights

    def topic_of(self, chat_ref: str, message_id: str) -> str:
        """Return the topic in which a message stood; empty if it is not remembered."""
        seen = self._seen.get((chat_ref, message_id))
        return seen.topic_ref if seen is not None else ""

    def note_sent(self, chat_ref: str, message_id: str, thread: int | None) -> None:
        """Keep in mind in which topic a message of ours stands: what is done to it later does not say."""
        if thread is not None:
            self._seen[(chat_ref, message_id)] = _Seen(str(thread), b"")
            _forget_oldest(self._seen)

    def revised(self, heard: Heard) -> Heard | Ignored:
        """Return an edit with its number, or that it changed neither words nor files, as when a preview is added."""
        message = heard.message
        before = self._seen.get((message.room.chat_ref, message.message_id))
        if message.kind is not MessageKind.EDIT or before is None:
            return heard
        if before.digest == _digest(heard):
            return Ignored(IgnoreReason.SAME_TEXT)
        return replace(heard, message=replace(message, revision=before.revision + 1))

    def remember(self, heard: Heard) -> None:
        """Keep in mind what a message said, once it is stored."""
        message = heard.message
        if message.kind in (MessageKind.TEXT, MessageKind.EDIT):
            key = (message.room.chat_ref, message.message_id)
            self._seen.pop(key, None)
            self._seen[key] = _Seen(message.room.topic_ref, _digest(heard), message.revision)
            _forget_oldest(self._seen)


def _rights_of(member: ChatMember) -> Rights:
    if isinstance(member, ChatMemberOwner):
        return Rights(admin=True, moderator=True)
    if not isinstance(member, ChatMemberAdministrator):
        return NO_RIGHTS
    return Rights(
        admin=bool(member.can_change_info),
        moderator=bool(member.can_restrict_members or member.can_delete_messages),
    )


def _digest(heard: Heard) -> bytes:
    return hashlib.blake2b(heard.message.told().encode("utf-8", "replace"), digest_size=16).digest()


def _forget_oldest(memory: dict[_Key, _Value]) -> None:
    while len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
