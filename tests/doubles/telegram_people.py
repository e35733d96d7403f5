"""What people do at the Telegram double; each act stores what it stores in life and tells the bot what it may know."""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from tests.doubles.telegram_entities import Entity, Styled, trim, utf16_length
from tests.doubles.telegram_methods import MESSAGE_UNITS, MessageMethods
from tests.doubles.telegram_requests import Press
from tests.doubles.telegram_rooms import RoomMethods
from tests.doubles.telegram_state import (
    ADMIN_RIGHTS,
    ADMINS,
    CHANNEL_BOT,
    GROUP_ANONYMOUS_BOT,
    PERMISSIONS,
    PRESENT,
    Chat,
    ChatKind,
    Message,
    Standing,
    Topic,
    User,
)
from tests.doubles.telegram_world import World

USUAL_RIGHTS = (
    "can_delete_messages", "can_restrict_members", "can_change_info", "can_invite_users", "can_pin_messages",
    "can_manage_video_chats", "can_manage_topics",
)  # fmt: skip


class Where(TypedDict, total=False):
    """Where in a chat something is sent. An answer without a topic goes where its target is.

    `bogus_thread_id` is what an answer outside a forum may carry as a thread id.
    """

    topic: Topic | None
    reply_to: Message | None
    bogus_thread_id: int | None


class People:
    """Everyone but the bot. Acting methods return what they stored; `messages` shows what stands in a chat now."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.message_methods = MessageMethods(world)
        self.room_methods = RoomMethods(world)
        self._events = 0

    @property
    def bot(self) -> User:
        """The bot's account, for `join`, `leave`, `promote` and `restrict`."""
        return self.world.bot

    def add_user(self, name: str, username: str | None = None, bot: bool = False) -> User:
        """Create an account that has never met the bot."""
        return self.world.new_user(name, username, bot=bot)

    def add_group(
        self,
        title: str,
        kind: str = "group",
        forum: bool = False,
        owner: User | None = None,
        bot_in: bool = True,
        username: str | None = None,
    ) -> Chat:
        """Create a basic group or a supergroup, with the bot in it as a plain member; nothing is told.

        Raises:
            ValueError: only supergroups can be forums or have a public name.
        """
        if kind != ChatKind.SUPERGROUP and (kind != ChatKind.GROUP or forum or username):
            raise ValueError(f"a {kind} is no group, forum or public group")
        chat = self.world.new_chat(ChatKind(kind), title, username, forum=forum)
        if owner is not None:
            self.world.set_standing(chat, owner, Standing.CREATOR, {})
        if bot_in:
            self.world.set_standing(chat, self.bot, Standing.MEMBER, {})
        return chat

    def add_channel(self, title: str, linked_group: Chat | None = None, username: str | None = None) -> Chat:
        """Create a channel with the bot as administrator, the only way for it to be in one; nothing is told."""
        channel = self.world.new_chat(ChatKind.CHANNEL, title, username)
        rights = dict.fromkeys((*ADMIN_RIGHTS,), True)
        self.world.set_standing(channel, self.bot, Standing.ADMINISTRATOR, rights)
        channel.linked = linked_group
        if linked_group is not None:
            linked_group.linked = channel
        return channel

    def messages(self, chat: Chat) -> list[Message]:
        """Return what stands in a chat, oldest first."""
        return [message for message in chat.messages.values() if not message.deleted]

    def draft(self, chat: Chat) -> str | None:
        """Return the text that the bot is seen writing in a private chat now."""
        draft = self.message_methods.drafts.get(chat.id)
        fresh = draft is not None and self.world.now() - draft.at < self.message_methods.draft_life_s
        return draft.text if draft is not None and fresh else None

    def action(self, chat: Chat, topic: Topic | None = None) -> str | None:
        """Return what the bot is seen doing, such as "typing"; in a forum no topic is General, shown under id 1."""
        thread = topic.id if topic is not None else (1 if chat.forum else None)
        action, at = self.message_methods.actions.get((chat.id, thread), ("", 0))
        return action if action and self.world.now() - at < self.message_methods.action_life_s else None

    async def start_private(self, user: User) -> Chat:
        """Open the private chat with the bot, saying nothing yet."""
        return self.world.private_chat(user)

    async def block(self, user: User, blocked: bool = True) -> None:
        """Block the bot, or with False let it be again; the bot is told."""
        chat = self.world.private_chat(user)
        before = chat.member(self.bot)
        chat.blocked = blocked
        self.world.set_standing(chat, self.bot, Standing.BANNED if blocked else Standing.MEMBER, {})
        self.world.tell_standing(chat, self.bot, user, before, chat.member(self.bot))

    async def say(
        self, user: User, chat: Chat, text: str, *, entities: Sequence[Entity] = (), **where: Unpack[Where]
    ) -> Message:
        """Say something; commands, mentions, addresses and hashtags are marked as the server would.

        Who is no member joins silently; this holds for everything that is sent.

        Raises:
            PermissionError: the person is banned or muted, the topic is closed, or nobody speaks in this chat.
            ValueError: the text is too long for one message.
        """
        return self._speak(user, chat, Styled(text, tuple(entities)), **where)

    async def quote_reply(self, user: User, message: Message, quote: str, text: str) -> Message:
        """Answer a chosen part of a message."""
        position = utf16_length(message.text[: message.text.index(quote)])
        about = {"quote": {"text": quote, "position": position, "is_manual": True}}
        return self._speak(user, message.chat, Styled(text), reply_to=message, extra=about)

    async def edit(self, message: Message, text: str | None = None, entities: Sequence[Entity] = ()) -> Message:
        """Change a text; None is one of the edits that change no text, such as a link's preview."""
        old = Styled(message.text, message.entities)
        new = old if text is None else trim(Styled(text, tuple(entities)))
        self.world.edit(message, new.text, new.entities)
        self.world.spread(message, edited=True)
        return message

    async def delete(self, *messages: Message) -> None:
        """Delete messages. The bot gets no update, in the double as in life."""
        for message in messages:
            self.world.delete(message)

    async def react(self, user: User, message: Message, *emoji: str) -> None:
        """Set one's reactions, or with none take them back; told to administrators that asked for it."""
        old = message.reactions.get(user.id, ())
        message.reactions[user.id] = emoji
        chat = message.chat
        if chat.kind is not ChatKind.PRIVATE and chat.member(self.bot).standing not in ADMINS:
            return
        change = {
            "chat": chat.to_json(),
            "message_id": message.id,
            "user": user.to_json(),
            "date": self.world.now(),
            "old_reaction": [{"type": "emoji", "emoji": each} for each in old],
            "new_reaction": [{"type": "emoji", "emoji": each} for each in emoji],
        }
        self.world.queue.put("message_reaction", change)

    async def send_photo(
        self, user: User, chat: Chat, caption: str = "", content: bytes = b"photo", **where: Unpack[Where]
    ) -> Message:
        """Send a picture."""
        return self._speak(user, chat, Styled(caption), content={"photo": self._photo(content)}, **where)

    async def send_album(
        self,
        user: User,
        chat: Chat,
        n: int,
        caption_on: int | None = 0,
        caption: str = "look",
        **where: Unpack[Where],
    ) -> list[Message]:
        """Send n pictures at once: n messages of one group, the caption on one of them, counted from 0."""
        group = {"media_group_id": f"1{self._next_event():016}"}
        captions = [caption if at == caption_on else "" for at in range(n)]
        return [
            self._speak(user, chat, Styled(text), content={"photo": self._photo(b"photo")}, extra=group, **where)
            for text in captions
        ]

    async def send_sticker(self, user: User, chat: Chat, emoji: str = "👍", **where: Unpack[Where]) -> Message:
        """Send a sticker."""
        file = self.world.store_file("stickers", "sticker.webp", b"sticker").to_json()
        look = {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False}
        return self._speak(user, chat, Styled(""), content={"sticker": file | look | {"emoji": emoji}}, **where)

    async def send_voice(self, user: User, chat: Chat, duration_s: int = 3, **where: Unpack[Where]) -> Message:
        """Send a spoken message."""
        file = self.world.store_file("voice", "voice.oga", b"voice").to_json()
        about = {"duration": duration_s, "mime_type": "audio/ogg"}
        return self._speak(user, chat, Styled(""), content={"voice": file | about}, **where)

    async def send_document(
        self,
        user: User,
        chat: Chat,
        name: str,
        content: bytes = b"",
        caption: str = "",
        mime_type: str = "text/plain",
        size: int | None = None,
        **where: Unpack[Where],
    ) -> Message:
        """Send a file; `size` in bytes lets a small one pass for a large one."""
        file = self.world.store_file("documents", name, content, size).to_json()
        about = {"file_name": name, "mime_type": mime_type}
        return self._speak(user, chat, Styled(caption), content={"document": file | about}, **where)

    async def send_poll(self, user: User, chat: Chat, question: str, *options: str) -> Message:
        """Send a poll."""
        number = self._next_event()
        poll: dict[str, Any] = {
            "id": str(number),
            "question": question,
            "options": [
                {"persistent_id": f"{number}-{at}", "text": text, "voter_count": 0} for at, text in enumerate(options)
            ],
            "total_voter_count": 0,
            "type": "regular",
            **dict.fromkeys(("is_closed", "allows_multiple_answers", "allows_revoting", "members_only"), False),
            "is_anonymous": True,
        }
        return self._speak(user, chat, Styled(""), content={"poll": poll})

    async def forward(self, user: User, message: Message, chat: Chat, hidden: bool = False) -> Message:
        """Forward a message; `hidden` keeps back who wrote it, as people may wish."""
        origin: dict[str, Any] = {"date": message.date}
        if message.chat.kind is ChatKind.CHANNEL:
            origin |= {"type": "channel", "chat": message.chat.to_json(), "message_id": message.id}
        elif message.sender_chat is not None:
            origin |= {"type": "chat", "sender_chat": message.sender_chat.to_json()}
        elif message.sender is not None and not hidden:
            origin |= {"type": "user", "sender_user": message.sender.to_json()}
        else:
            origin |= {"type": "hidden_user", "sender_user_name": message.sender.first_name if message.sender else ""}
        text = Styled(message.text, message.entities)
        return self._speak(user, chat, text, content=dict(message.content), extra={"forward_origin": origin})

    async def click(
        self, user: User, message: Message, data: str, inaccessible: bool = False, forged: bool = False
    ) -> str:
        """Press a button and return the query's id; `inaccessible`: the bot no longer sees the message.

        `forged`: a client of somebody's own making sends what it likes, or has not heard that a button is gone.

        Raises:
            LookupError: there is no such button below the message.
        """
        if not forged and data not in message.buttons:
            raise LookupError(f"message {message.id} has no button {data!r}, only {message.buttons}")
        query = str(9_000_000_000 + self._next_event())
        self.message_methods.presses[query] = Press(self.world.now())
        shown = (
            {"chat": message.chat.to_json(), "message_id": message.id, "date": 0} if inaccessible else message.to_json()
        )
        self.world.queue.put(
            "callback_query",
            {
                "id": query,
                "from": user.to_json(),
                "message": shown,
                "chat_instance": str(message.chat.id),
                "data": data,
            },
        )
        return query

    def answer_to(self, query: str) -> str | None:
        """Return what the presser of a button saw; None while nothing came."""
        return self.message_methods.presses[query].answer

    async def create_topic(self, user: User, chat: Chat, name: str) -> Topic:
        """Create a topic of a forum."""
        topic = self.world.create_topic(chat, name, user)
        if topic.root is not None:
            self.world.spread(topic.root)
        return topic

    async def close_topic(self, user: User, chat: Chat, topic: Topic, closed: bool = True) -> Message:
        """Close a topic, or with False open it again."""
        topic.closed = closed
        return self._event(chat, user, {"forum_topic_closed" if closed else "forum_topic_reopened": {}}, topic=topic)

    async def join(self, user: User, chat: Chat, by: User | None = None) -> Message:
        """Come in, or be brought in by someone; the bot too."""
        by = by or user
        self.world.change_standing(chat, user, by, Standing.MEMBER)
        return self._event(chat, by, {"new_chat_members": [user.to_json()]})

    async def leave(self, user: User, chat: Chat, by: User | None = None) -> Message:
        """Go, or be put out and banned by someone; the bot too."""
        self.world.change_standing(chat, user, by or user, Standing.BANNED if by else Standing.LEFT)
        return self._event(chat, by or user, {"left_chat_member": user.to_json()})

    async def promote(self, user: User, chat: Chat, by: User | None = None, **rights: bool) -> None:
        """Make someone an administrator, with the rights named or, where none is, the usual ones."""
        given = {"can_manage_chat": True, **(rights or dict.fromkeys(USUAL_RIGHTS, True))}
        if unknown := given.keys() - set(ADMIN_RIGHTS):
            raise ValueError(f"no such rights: {sorted(unknown)}")
        self.world.change_standing(chat, user, by or user, Standing.ADMINISTRATOR, given)

    async def demote(self, user: User, chat: Chat, by: User | None = None) -> None:
        """Make an administrator a plain member again."""
        self.world.change_standing(chat, user, by or user, Standing.MEMBER)

    async def restrict(self, user: User, chat: Chat, by: User | None = None, **permissions: bool) -> None:
        """Leave someone, or the bot, only the permissions named true."""
        rights = dict.fromkeys(PERMISSIONS, False) | permissions
        self.world.change_standing(chat, user, by or user, Standing.RESTRICTED, rights)

    async def anonymous_admin_say(self, chat: Chat, text: str, topic: Topic | None = None) -> Message:
        """Speak as an administrator who stays anonymous: in the name of the group."""
        return self._tell(self.world.store(chat, GROUP_ANONYMOUS_BOT, Styled(text), sender_chat=chat, topic=topic))

    async def channel_post(self, channel: Chat, text: str) -> Message:
        """Post in a channel; a linked group gets its automatic forward."""
        return self._tell(self.world.store(channel, None, Styled(text), sender_chat=channel))

    async def say_as_channel(self, channel: Chat, group: Chat, text: str) -> Message:
        """Speak in a group in the name of a channel."""
        return self._tell(self.world.store(group, CHANNEL_BOT, Styled(text), sender_chat=channel))

    async def migrate(self, group: Chat, announce: Sequence[str] = ("old", "new"), by: User | None = None) -> Chat:
        """Turn a basic group into a supergroup and return it; from then on the old id is refused.

        `announce`: which of the two service messages the bot gets to see, in which order.
        """
        chat = self.world.new_chat(ChatKind.SUPERGROUP, group.title)
        chat.members = dict(group.members)
        actor = by or GROUP_ANONYMOUS_BOT
        told = {
            "old": self.world.store(group, actor, Styled(""), content={"migrate_to_chat_id": chat.id}),
            "new": self.world.store(chat, actor, Styled(""), content={"migrate_from_chat_id": group.id}),
        }
        for which in announce:
            self.world.spread(told[which])
        group.moved_to = chat
        return chat

    def _next_event(self) -> int:
        self._events += 1
        return self._events

    def _photo(self, content: bytes) -> list[dict[str, Any]]:
        sizes = ((90, content[:10]), (800, content))
        return [
            self.world.store_file("photos", "", part).to_json() | {"width": side, "height": side}
            for side, part in sizes
        ]

    def _tell(self, message: Message) -> Message:
        self.world.spread(message)
        return message

    def _event(self, chat: Chat, actor: User, content: dict[str, Any], topic: Topic | None = None) -> Message:
        return self._tell(self.world.store(chat, actor, Styled(""), content=content, topic=topic))

    def _speak(self, user: User, chat: Chat, styled: Styled, topic: Topic | None = None, **fields: Any) -> Message:
        """Store and tell what a person says, if the chat lets them; an answer stands in the topic of its target."""
        answered: Message | None = fields.get("reply_to")
        topic = topic or (answered.topic if answered is not None else None)
        if utf16_length(styled.text) > MESSAGE_UNITS:
            raise ValueError(f"a person's client splits what is over {MESSAGE_UNITS} UTF-16 units")
        if chat.kind is ChatKind.PRIVATE:
            if user.id != chat.id:
                raise PermissionError(f"user {user.id} speaks in the private chat of {chat.id}")
        elif chat.moved_to is not None or chat.kind is ChatKind.CHANNEL:
            raise PermissionError(f"nobody speaks in chat {chat.id}: it moved, or is a channel")
        else:
            member = chat.member(user)
            muted = member.standing is Standing.RESTRICTED and not member.rights.get("can_send_messages")
            if member.standing is Standing.BANNED or muted or (topic is not None and topic.closed):
                raise PermissionError(f"user {user.id} may not speak in chat {chat.id}")
            if member.standing not in PRESENT:
                self.world.set_standing(chat, user, Standing.MEMBER, {})
        return self._tell(self.world.store(chat, user, trim(styled), topic=topic, **fields))
