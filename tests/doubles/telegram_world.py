"""The chats of the Telegram double: how messages are stored, and which of them the bot gets to hear of."""

from collections.abc import Iterable
from itertools import count
from pathlib import PurePosixPath
from typing import Any

from core.ports import Clock
from tests.doubles.mutations import ordered
from tests.doubles.telegram_entities import Entity, Styled, find_entities
from tests.doubles.telegram_faults import Faults, Mutation, bad_request, forbidden
from tests.doubles.telegram_state import (
    ADMINS,
    PRESENT,
    TELEGRAM,
    Chat,
    ChatKind,
    Member,
    Message,
    Standing,
    StoredFile,
    Topic,
    User,
)
from tests.doubles.telegram_updates import UpdateQueue

SUPERGROUP_BASE = -1_000_000_000_000


class World:
    """Everything that the platform knows about the one bot and the chats around it.

    Ids are as in life: a private chat has the id of its user, a basic group a small negative one, supergroups and
    channels begin with -100; private chats and basic groups share one row of message ids.
    """

    def __init__(self, clock: Clock, bot: User, *, privacy_mode: bool) -> None:
        self.clock = clock
        self.bot = bot
        self.privacy_mode = privacy_mode
        self.bots_hear_bots = False
        self.mutations: set[str] = ordered(Mutation)
        self.faults = Faults()
        self.queue = UpdateQueue(self.faults, self.mutations, clock)
        self.users: dict[int, User] = {bot.id: bot}
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, StoredFile] = {}
        self._user_ids = count(400_000_001)
        self._group_ids = count(4_100_001)
        self._supergroup_ids = count(2_100_000_001)
        self._shared_message_ids = count(11)
        self._file_ids = count(1)

    def now(self) -> int:
        """Return the platform's time: whole seconds, as messages carry it."""
        return int(self.clock.now().timestamp())

    def mutated(self, mutation: Mutation) -> bool:
        """Tell whether a rule is off.

        Raises:
            ValueError: a mutation is set that does not exist, so a proof would prove nothing.
        """
        return mutation in {Mutation(name) for name in self.mutations}

    def new_user(self, name: str, username: str | None, *, bot: bool) -> User:
        """Create an account."""
        user = User(next(self._user_ids), name, username, is_bot=bot)
        self.users[user.id] = user
        return user

    def new_chat(self, kind: ChatKind, title: str, username: str | None = None, *, forum: bool = False) -> Chat:
        """Create a chat without members."""
        is_group = kind is ChatKind.GROUP
        chat_id = -next(self._group_ids) if is_group else SUPERGROUP_BASE - next(self._supergroup_ids)
        self.chats[chat_id] = Chat(chat_id, kind, title, username, forum)
        return self.chats[chat_id]

    def private_chat(self, user: User) -> Chat:
        """Return the private chat with a user, opened if it was not."""
        if user.id not in self.chats:
            self.chats[user.id] = Chat(user.id, ChatKind.PRIVATE, user.first_name, user.username)
        return self.chats[user.id]

    def set_standing(self, chat: Chat, user: User, standing: Standing, rights: dict[str, bool], until: int = 0) -> None:
        """Change what someone is in a chat, without a word to anyone."""
        hears_all = chat.member(user).hears_all
        if standing in PRESENT and chat.member(user).standing not in PRESENT:
            # In life a change of privacy mode counts from the next time that the bot is added.
            hears_all = not self.privacy_mode
        chat.members[user.id] = Member(user, standing, rights, until, hears_all)

    def change_standing(
        self,
        chat: Chat,
        user: User,
        by: User,
        standing: Standing,
        rights: dict[str, bool] | None = None,
        until: int = 0,
    ) -> None:
        """Change what someone is in a chat, and tell the bot what it may know of it."""
        before = chat.member(user)
        self.set_standing(chat, user, standing, rights or {}, until)
        if chat.kind is ChatKind.PRIVATE:
            return
        self.tell_standing(chat, user, by, before, chat.member(user))

    def tell_standing(self, chat: Chat, user: User, by: User, before: Member, after: Member) -> None:
        """Put `my_chat_member` for the bot itself; `chat_member` for others where it is an administrator."""
        change = {
            "chat": chat.to_json(),
            "from": by.to_json(),
            "date": self.now(),
            "old_chat_member": before.to_json(),
            "new_chat_member": after.to_json(),
        }
        if user == self.bot:
            self.queue.put("my_chat_member", change)
        elif chat.member(self.bot).standing in ADMINS:
            self.queue.put("chat_member", change)

    def chat_for_bot(self, reference: str) -> Chat:
        """Return the chat that a request of the bot names, by id or by @username.

        Raises:
            Refused: unknown, moved, never opened, blocked, or the bot is not in it.
        """
        if reference.startswith("@"):
            named = (c for c in self.chats.values() if c.username and c.username.lower() == reference[1:].lower())
            chat = next((c for c in named if c.kind is not ChatKind.PRIVATE), None)
        else:
            chat = self.chats.get(int(reference)) if reference.lstrip("-").isdigit() else None
            user = self.users.get(int(reference)) if reference.isdigit() else None
            if chat is None and user is not None:
                why = (
                    "bots can't send messages to bots" if user.is_bot else "bot can't initiate conversation with a user"
                )
                raise forbidden(why)
        if chat is None:
            raise bad_request("chat not found")
        if chat.moved_to is not None and not self.mutated(Mutation.OLD_GROUP_STAYS_OPEN):
            raise bad_request("group chat was upgraded to a supergroup chat", migrate_to_chat_id=chat.moved_to.id)
        if chat.kind is ChatKind.PRIVATE:
            if chat.blocked:
                raise forbidden("bot was blocked by the user")
            return chat
        standing = chat.member(self.bot).standing
        name = f"{chat.kind} chat"
        if standing is Standing.BANNED:
            raise forbidden(f"bot was kicked from the {name}")
        if standing not in PRESENT:
            raise forbidden(f"bot is not a member of the {name}")
        return chat

    def store(self, chat: Chat, sender: User | None, styled: Styled, **fields: Any) -> Message:
        """Store a message under the chat's next id, with the entities that the server finds."""
        styled = find_entities(styled)
        message = Message(self._next_message_id(chat), chat, self.now(), sender, styled.text, styled.entities, **fields)
        chat.messages[message.id] = message
        if sender is not None and sender.is_bot and message.sender_chat is None:
            chat.last_bot = sender
        return message

    def _next_message_id(self, chat: Chat) -> int:
        if chat.kind in {ChatKind.PRIVATE, ChatKind.GROUP}:
            return next(self._shared_message_ids)
        return max(chat.messages, default=1) + 1

    def spread(self, message: Message, *, edited: bool = False) -> None:
        """Put the update of a new or edited message if the bot hears it; a post goes on into the linked group."""
        in_channel = message.chat.kind is ChatKind.CHANNEL
        if message.sender != self.bot and self.hears(message):
            kind = "channel_post" if in_channel else "message"
            self.queue.put(f"edited_{kind}" if edited else kind, message.to_json())
        if in_channel and message.chat.linked is not None and not edited and not message.is_service:
            self._forward_automatically(message, message.chat.linked)

    def _forward_automatically(self, post: Message, group: Chat) -> None:
        origin = {"type": "channel", "date": post.date, "chat": post.chat.to_json(), "message_id": post.id}
        copied = self.store(
            group,
            TELEGRAM,
            Styled(post.text, post.entities),
            content=dict(post.content),
            sender_chat=post.chat,
            extra={"is_automatic_forward": True, "forward_origin": origin},
        )
        self.spread(copied)

    def hears(self, message: Message) -> bool:
        """Tell whether the bot gets a message of someone else: membership, other bots, privacy mode."""
        chat, sender = message.chat, message.sender
        if chat.kind is ChatKind.PRIVATE:
            return not chat.blocked
        me = chat.member(self.bot)
        if me.standing not in PRESENT:
            return False
        if sender is not None and sender.is_bot and message.sender_chat is None and not message.is_service:
            return self.bots_hear_bots
        if chat.kind is ChatKind.CHANNEL or message.is_service or me.standing in ADMINS or me.hears_all:
            return True
        return self.mutated(Mutation.NO_PRIVACY) or self._is_meant_for_bot(message)

    def _is_meant_for_bot(self, message: Message) -> bool:
        """Tell whether it is a command for us, a mention of us or an answer to us.

        A command without a name is for the bot that spoke last.
        """
        name = f"@{self.bot.username}".lower()
        commands = [command.lower().partition("@") for command in message.words("bot_command")]
        ours_to_take = message.chat.last_bot in {None, self.bot}
        if any(f"@{to}" == name if at else ours_to_take for _, at, to in commands):
            return True
        if name in (mention.lower() for mention in message.words("mention")):
            return True
        if any(e.extra.get("user", {}).get("id") == self.bot.id for e in message.entities):
            return True
        return message.reply_to is not None and message.reply_to.sender == self.bot

    def store_file(self, kind: str, name: str, content: bytes, size: int | None = None) -> StoredFile:
        """Keep a file; `size` in bytes where it is to claim another than its own."""
        number = next(self._file_ids)
        path = f"{kind}/file_{number}{PurePosixPath(name).suffix}"
        claimed = len(content) if size is None else size
        file = StoredFile(f"{kind}-file-{number:06}", f"u{number:06}", path, content, claimed)
        self.files[file.id] = file
        return file

    def edit(self, message: Message, text: str, entities: Iterable[Entity]) -> None:
        """Replace the text of a message."""
        styled = find_entities(Styled(text, tuple(entities)))
        message.text, message.entities, message.edit_date = styled.text, styled.entities, self.now()

    def delete(self, message: Message) -> None:
        """Take a message away. Nobody is told: the Bot API has no update for it."""
        message.deleted = True
        if self.mutated(Mutation.DELETIONS_ARE_TOLD):
            self.queue.put("edited_message", message.to_json() | {"edit_date": self.now()})

    def create_topic(self, chat: Chat, name: str, creator: User) -> Topic:
        """Create a topic with the service message that it hangs on."""
        content = {"forum_topic_created": {"name": name, "icon_color": 7322096}}
        root = self.store(chat, creator, Styled(""), content=content)
        topic = Topic(root.id, name, root=root)
        root.topic = topic
        chat.topics[topic.id] = topic
        return topic
