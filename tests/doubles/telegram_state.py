"""What exists at the Telegram double: users, chats, standings, topics, messages, files, as the Bot API shows them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.doubles.telegram_entities import Entity, utf16_slice

ADMIN_RIGHTS = (
    "can_manage_chat", "can_delete_messages", "can_manage_video_chats", "can_restrict_members", "can_promote_members",
    "can_change_info", "can_invite_users", "can_post_stories", "can_edit_stories", "can_delete_stories",
    "can_post_messages", "can_edit_messages", "can_pin_messages", "can_manage_topics",
)  # fmt: skip
PERMISSIONS = (
    "can_send_messages", "can_send_audios", "can_send_documents", "can_send_photos", "can_send_videos",
    "can_send_video_notes", "can_send_voice_notes", "can_send_polls", "can_send_other_messages",
    "can_add_web_page_previews", "can_change_info", "can_invite_users", "can_pin_messages", "can_manage_topics",
    "can_edit_tag", "can_react_to_messages",
)  # fmt: skip
MEDIA = frozenset({"photo", "sticker", "voice", "document", "poll"})
GENERAL_TOPIC_ID = 1


class ChatKind(StrEnum):
    """The four kinds of chats."""

    PRIVATE = "private"
    GROUP = "group"
    SUPERGROUP = "supergroup"
    CHANNEL = "channel"


class Standing(StrEnum):
    """What someone is in a chat."""

    CREATOR = "creator"
    ADMINISTRATOR = "administrator"
    MEMBER = "member"
    RESTRICTED = "restricted"
    LEFT = "left"
    BANNED = "kicked"


ADMINS = frozenset({Standing.CREATOR, Standing.ADMINISTRATOR})
PRESENT = frozenset({*ADMINS, Standing.MEMBER, Standing.RESTRICTED})


@dataclass(frozen=True, slots=True)
class User:
    """An account, a bot's included."""

    id: int
    first_name: str
    username: str | None = None
    is_bot: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the User of the Bot API."""
        user: dict[str, Any] = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        return user | ({"username": self.username} if self.username else {})


TELEGRAM = User(777000, "Telegram")
"""Posts the linked channel's messages into its group."""
GROUP_ANONYMOUS_BOT = User(1087968824, "Group", "GroupAnonymousBot", is_bot=True)
"""Stands for every anonymous administrator."""
CHANNEL_BOT = User(136817688, "Channel", "Channel_Bot", is_bot=True)
"""Stands for everyone who speaks as a channel."""


@dataclass(slots=True)
class Member:
    """Someone's standing in a chat. `until` is a Unix time, 0 for ever; `hears_all` is the bot's privacy at joining."""

    user: User
    standing: Standing = Standing.MEMBER
    rights: dict[str, bool] = field(default_factory=dict)
    until: int = 0
    hears_all: bool = False

    def may(self, right: str) -> bool:
        """Tell whether an administrator holds a right; the owner holds all."""
        return self.standing is Standing.CREATOR or (
            self.standing is Standing.ADMINISTRATOR and self.rights.get(right, False)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the ChatMember of the Bot API."""
        member: dict[str, Any] = {"user": self.user.to_json(), "status": str(self.standing)}
        match self.standing:
            case Standing.CREATOR:
                member["is_anonymous"] = False
            case Standing.ADMINISTRATOR:
                member |= {"can_be_edited": False, "is_anonymous": False}
                member |= {right: self.rights.get(right, False) for right in ADMIN_RIGHTS}
            case Standing.RESTRICTED:
                member |= {"is_member": True, "until_date": self.until}
                member |= {right: self.rights.get(right, False) for right in PERMISSIONS}
            case Standing.BANNED:
                member["until_date"] = self.until
            case _:
                pass
        return member


@dataclass(slots=True, eq=False)
class Topic:
    """A topic of a forum; its id is that of the message that created it."""

    id: int
    name: str
    closed: bool = False
    root: "Message | None" = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class Chat:
    """A chat with its members and messages. `opened` and `blocked` are for private chats alone."""

    id: int
    kind: ChatKind
    title: str
    username: str | None = None
    forum: bool = False
    members: dict[int, Member] = field(default_factory=dict, repr=False)
    topics: dict[int, Topic] = field(default_factory=dict, repr=False)
    messages: dict[int, "Message"] = field(default_factory=dict, repr=False)
    linked: "Chat | None" = field(default=None, repr=False)
    moved_to: "Chat | None" = field(default=None, repr=False)
    blocked: bool = False
    last_bot: User | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the Chat of the Bot API."""
        name = "first_name" if self.kind is ChatKind.PRIVATE else "title"
        chat: dict[str, Any] = {"id": self.id, "type": str(self.kind), name: self.title}
        return (
            chat | ({"username": self.username} if self.username else {}) | ({"is_forum": True} if self.forum else {})
        )

    def member(self, user: User) -> Member:
        """Return someone's standing; a stranger has left."""
        return self.members.get(user.id, Member(user, Standing.LEFT))


@dataclass(slots=True, eq=False)
class Message:
    """A stored message. `text` is also the caption; `content` holds media or a service event in the API's form.

    `extra` holds further fields of the API as they are; `bogus_thread_id` is what replies outside forums may carry.
    """

    id: int
    chat: Chat
    date: int
    sender: User | None
    text: str = ""
    entities: tuple[Entity, ...] = ()
    content: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    sender_chat: Chat | None = None
    topic: Topic | None = None
    reply_to: "Message | None" = field(default=None, repr=False)
    reply_markup: dict[str, Any] | None = None
    edit_date: int | None = None
    bogus_thread_id: int | None = None
    reactions: dict[int, tuple[str, ...]] = field(default_factory=dict)
    deleted: bool = False

    @property
    def has_media(self) -> bool:
        """Tell whether the text is a caption."""
        return not MEDIA.isdisjoint(self.content)

    @property
    def is_service(self) -> bool:
        """Tell whether the message reports an event instead of speech."""
        return bool(self.content) and not self.has_media

    @property
    def buttons(self) -> list[str]:
        """The data of all buttons, in reading order."""
        rows = (self.reply_markup or {}).get("inline_keyboard", [])
        return [button["callback_data"] for row in rows for button in row if "callback_data" in button]

    def words(self, kind: str) -> list[str]:
        """Return the parts of the text that entities of this kind mark."""
        return [utf16_slice(self.text, e.offset, e.length) for e in self.entities if e.type == kind]

    def to_json(self, *, nested: bool = False) -> dict[str, Any]:
        """Return the Message of the Bot API; a nested one does not say what it answers."""
        message: dict[str, Any] = {"message_id": self.id, "date": self.date, "chat": self.chat.to_json()}
        if self.sender is not None:
            message["from"] = self.sender.to_json()
        if self.sender_chat is not None:
            message["sender_chat"] = self.sender_chat.to_json()
        if self.topic is not None:
            message |= {"message_thread_id": self.topic.id, "is_topic_message": True}
        elif self.bogus_thread_id is not None:
            message["message_thread_id"] = self.bogus_thread_id
        if self.edit_date is not None:
            message["edit_date"] = self.edit_date
        if self.reply_markup is not None:
            message["reply_markup"] = self.reply_markup
        text, entities = ("caption", "caption_entities") if self.has_media else ("text", "entities")
        if self.text:
            message[text] = self.text
        if self.entities:
            message[entities] = [entity.to_json() for entity in self.entities]
        # In life whatever is said in a topic answers, in form, the message that created the topic.
        answered = self.reply_to or (self.topic.root if self.topic is not None and not self.is_service else None)
        if answered is not None and not nested:
            message["reply_to_message"] = answered.to_json(nested=True)
        return message | self.content | self.extra


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it came in a request."""

    name: str
    mime_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that the platform keeps; `size` in bytes is what it claims, so that a test needs no 20 MB."""

    id: str
    unique_id: str
    path: str
    content: bytes
    size: int

    def to_json(self) -> dict[str, Any]:
        """Return what all media of the Bot API have in common."""
        return {"file_id": self.id, "file_unique_id": self.unique_id, "file_size": self.size}
