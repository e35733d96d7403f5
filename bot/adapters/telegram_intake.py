"""Updates of Telegram in our words. Pure and total: every update is a message, a change of rooms, or counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from telegram import (
    CallbackQuery,
    Chat,
    Message,
    MessageEntity,
    MessageReactionUpdated,
    ReactionTypeEmoji,
    Update,
    User,
)

from bot.adapters.addressing import Names, addressed_by_text
from bot.adapters.telegram_content import (
    QUOTES,
    attachments,
    forward_source,
    forwarded,
    is_service,
    markdown,
    quotes,
    stretch_of,
)
from bot.adapters.telegram_places import (
    PLATFORM,
    Gone,
    Learned,
    Moved,
    Removed,
    chat_report,
    member_report,
    own_standing,
    room_key,
    standing,
    topic_ref,
)
from core.domain.choices import read_ref
from core.domain.messages import Address, InboundMessage, MessageKind, Origin, Reaction, ReactionChange
from core.domain.platforms import CommunityReport
from core.ports import CommandForm

LIVE_WITHIN = timedelta(minutes=2)
"""What is older when it arrives has waited at the platform: it came by catch-up."""
UNKNOWN_CONTENT = "[a message of a kind that is not known here]"


class IgnoreReason(StrEnum):
    """Why an update is no message."""

    UNREADABLE = "unreadable"
    UNKNOWN_KIND = "unknown_kind"
    OWN = "own"
    SERVICE = "service"
    OTHER_BOTS_COMMAND = "other_bots_command"
    EDITED_COMMAND = "edited_command"
    SAME_TEXT = "same_text"
    STANDING = "standing"
    FOREIGN_BUTTON = "foreign_button"


@dataclass(frozen=True, slots=True)
class Ignored:
    """An update that asks for nothing; counted by its reason. `press`: the button's id, which wants an answer."""

    reason: IgnoreReason
    press: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message, and what its chat is. `form`: the command of the table that it uses. `press`: the button's id."""

    message: InboundMessage
    report: CommunityReport
    form: CommandForm | None = None
    press: str = ""


Translated = Heard | Ignored | Moved | Removed | Learned | Gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a translation needs to know. `topic_of`: the topic in which a message of a chat stood, if remembered."""

    bot_id: int
    username: str
    names: Names
    now: datetime
    forms: Mapping[str, CommandForm] = field(default_factory=dict)
    topic_of: Callable[[str, str], str] = lambda chat, message: ""


def command_name(path: str) -> str:
    """Return the name under which Telegram offers a command: lower case, digits, underscores."""
    return "_".join(path.split()).replace("-", "_").lower()


def forms_by_name(forms: Sequence[CommandForm]) -> Mapping[str, CommandForm]:
    """Return the table of commands by their names here."""
    return {command_name(form.path): form for form in forms}


def translate(update: Update, known: Known) -> Translated:
    """Return what an update is to us."""
    message = update.message or update.channel_post
    edited = update.edited_message or update.edited_channel_post
    if message is not None or edited is not None:
        return _Reading(update.update_id, message or edited, known, edited=edited is not None).result()  # type: ignore[arg-type]  # one is there
    if update.callback_query is not None:
        return _press(update.update_id, update.callback_query, known)
    if update.message_reaction is not None:
        return _reaction(update.update_id, update.message_reaction, known)
    change = update.my_chat_member or update.chat_member
    if change is not None and not _is_there(change.chat, change.new_chat_member, change.old_chat_member):
        return Ignored(IgnoreReason.UNREADABLE)
    if update.my_chat_member is not None:
        return own_standing(update.my_chat_member)
    if update.chat_member is not None:
        return standing(update.chat_member) or Ignored(IgnoreReason.STANDING)
    return Ignored(IgnoreReason.UNKNOWN_KIND)


def _is_there(*parts: object) -> bool:
    """Return whether an update has what the library promises and passes on without: chat, sender."""
    return all(part is not None for part in parts)


def _press(update_id: int, query: CallbackQuery, known: Known) -> Translated:
    message = query.message
    if message is None or not _is_there(message.chat, query.from_user):
        return Ignored(IgnoreReason.UNREADABLE)
    if read_ref(query.data or "") is None:
        return Ignored(IgnoreReason.FOREIGN_BUTTON, press=query.id)
    chat_ref = str(message.chat.id)
    topic = topic_ref(message) if isinstance(message, Message) else known.topic_of(chat_ref, str(message.message_id))
    report = chat_report(message.chat, topic)
    heard = InboundMessage(
        front_end=PLATFORM,
        room=report.rooms[-1].key,
        message_id=f"button:{query.id}",
        event_id=f"{known.bot_id}:{update_id}",
        kind=MessageKind.BUTTON,
        person_ref=str(query.from_user.id),
        display_name=query.from_user.full_name or str(query.from_user.id),
        username=query.from_user.username or "",
        origin=Origin.HUMAN,
        text=query.data or "",
        sent_at=known.now,
        received_at=known.now,
        reply_to=str(message.message_id),
        surroundings=report.rooms[-1].surroundings,
        answer_token=query.id,
        addressed_by=frozenset({Address.COMMAND} | ({Address.DM} if message.chat.type == Chat.PRIVATE else set())),
        quiet_window=False,
    )
    return Heard(heard, report, press=query.id)


def _reaction(update_id: int, change: MessageReactionUpdated, known: Known) -> Translated:
    who = change.user or change.actor_chat
    if who is None or not _is_there(change.chat):
        return Ignored(IgnoreReason.UNREADABLE)
    report = chat_report(change.chat, known.topic_of(str(change.chat.id), str(change.message_id)))
    emoji = tuple(each.emoji if isinstance(each, ReactionTypeEmoji) else "[emoji]" for each in change.new_reaction)
    heard = InboundMessage(
        front_end=PLATFORM,
        room=report.rooms[-1].key,
        message_id=f"reaction:{update_id}",
        event_id=f"{known.bot_id}:{update_id}",
        kind=MessageKind.REACTION,
        person_ref=str(who.id),
        display_name=(who.full_name if isinstance(who, User) else who.effective_name) or str(who.id),
        username=who.username or "",
        origin=Origin.HUMAN if isinstance(who, User) else _chat_origin(who, change.chat),
        text=" ".join(emoji),
        sent_at=change.date,
        received_at=known.now,
        reply_to=str(change.message_id),
        reaction=Reaction(ReactionChange.SET, emoji),
        surroundings=report.rooms[-1].surroundings,
        live=known.now - change.date <= LIVE_WITHIN,
    )
    return Heard(heard, report)


def _chat_origin(speaker: Chat, chat: Chat) -> Origin:
    return Origin.ANONYMOUS_ADMIN if speaker.id == chat.id and chat.type != Chat.CHANNEL else Origin.CHANNEL


@dataclass(slots=True)
class _Reading:
    """One message on its way to our words."""

    update_id: int
    message: Message
    known: Known
    edited: bool

    def result(self) -> Translated:
        """Return what the message is to us."""
        message = self.message
        if not _is_there(message.chat, message.from_user or message.sender_chat):
            return Ignored(IgnoreReason.UNREADABLE)
        if message.from_user is not None and message.from_user.id == self.known.bot_id:
            return Ignored(IgnoreReason.OWN)
        if is_service(message):
            return self._service()
        said = self._said()
        heard = Heard(said, self._report())
        command = None if message.forward_origin else self._command()
        if isinstance(command, Ignored) or command is None:
            return command or heard
        if self.edited:
            return Ignored(IgnoreReason.EDITED_COMMAND)
        text, form = command
        by = frozenset({Address.COMMAND}) | (said.addressed_by & {Address.DM})
        return replace(heard, message=replace(said, kind=MessageKind.COMMAND, text=text, addressed_by=by), form=form)

    def _service(self) -> Translated:
        message, chat = self.message, self.message.chat
        if message.migrate_to_chat_id is not None:
            return Moved(room_key(chat.id), room_key(message.migrate_to_chat_id))
        if message.migrate_from_chat_id is not None:
            return Moved(room_key(message.migrate_from_chat_id), room_key(chat.id))
        if message.left_chat_member is not None and message.left_chat_member.id != self.known.bot_id:
            return Gone(str(chat.id), str(message.left_chat_member.id))
        if message.new_chat_members:
            members = tuple(member_report(user) for user in message.new_chat_members if user.id != self.known.bot_id)
            return Learned(chat_report(chat, members=members))
        if message.new_chat_title or message.forum_topic_created or message.forum_topic_edited:
            return Learned(self._report())
        return Ignored(IgnoreReason.SERVICE)

    def _report(self) -> CommunityReport:
        """Return what the message says of its chat; a topic's name is known from the message that made it."""
        message, root = self.message, self.message.reply_to_message
        named = message.forum_topic_created or message.forum_topic_edited or (root and root.forum_topic_created)
        return chat_report(message.chat, topic_ref(message), (named.name if named else "") or "")

    def _said(self) -> InboundMessage:
        """Return the message as text or edit, with everything that it shows."""
        message, known = self.message, self.known
        private = message.chat.type == Chat.PRIVATE
        words = markdown(message.text or message.caption or "", self._entities())
        shown, files = list(quotes(message)), attachments(message)
        quoted = bool(message.forward_origin) and not message.is_automatic_forward
        if quoted:
            shown.insert(0, forwarded(message, words))
            words = ""
        if not (words or shown or files):
            shown.append(UNKNOWN_CONTENT)
        at = (message.edit_date if self.edited else None) or message.date
        by = frozenset() if quoted else self._addressed_by(words)
        person_ref, name, username, origin = self._speaker()
        return InboundMessage(
            front_end=PLATFORM,
            room=room_key(message.chat.id, topic_ref(message)),
            message_id=str(message.message_id),
            event_id=f"{known.bot_id}:{self.update_id}",
            kind=MessageKind.EDIT if self.edited else MessageKind.TEXT,
            person_ref=person_ref,
            display_name=name,
            username=username,
            origin=origin,
            text=words,
            sent_at=message.date,
            received_at=known.now,
            reply_to=self._reply_to(),
            attachments=files,
            quotes=tuple(shown),
            forwarded_from=forward_source(message) if quoted else "",
            edited_at=message.edit_date if self.edited else None,
            surroundings=self._report().rooms[-1].surroundings,
            album_id=message.media_group_id,
            addressed_by=by | {Address.DM} if private else by,
            revision=1 if self.edited else 0,
            live=known.now - at <= LIVE_WITHIN,
            admin=origin is Origin.ANONYMOUS_ADMIN,
        )

    def _entities(self) -> Sequence[MessageEntity]:
        return self.message.entities if self.message.text else self.message.caption_entities

    def _speaker(self) -> tuple[str, str, str, Origin]:
        """Return ref, name, username and origin. Who speaks as a chat has the chat's id: shared ids are no people."""
        message, user = self.message, self.message.from_user
        if user is not None and message.sender_chat is None:
            name = user.full_name or str(user.id)
            return str(user.id), name, user.username or "", Origin.BOT if user.is_bot else Origin.HUMAN
        chat = message.sender_chat or message.chat
        name = chat.effective_name or str(chat.id)
        origin = Origin.CHANNEL if message.is_automatic_forward else _chat_origin(chat, message.chat)
        return str(chat.id), name, chat.username or "", origin

    def _reply_to(self) -> str | None:
        """Return what is answered. In a topic everything answers, in form, the message that made the topic."""
        answered = self.message.reply_to_message
        if answered is None or answered.forum_topic_created is not None:
            return None
        return str(answered.message_id)

    def _addressed_by(self, words: str) -> frozenset[Address]:
        found = {Address.NAME} & addressed_by_text(words, self.known.names)
        answered = self.message.reply_to_message
        if self._reply_to() is not None and answered is not None and answered.from_user is not None:
            found |= {Address.REPLY} if answered.from_user.id == self.known.bot_id else set()
        if self._first_bot_is_ours():
            found |= {Address.MENTION}
        return frozenset(found)

    def _first_bot_is_ours(self) -> bool:
        """Return whether the first bot that the text names outside of quotations is this one."""
        text, entities = self.message.text or self.message.caption or "", self._entities()
        quoted = [(each.offset, each.offset + each.length) for each in entities if each.type in QUOTES]
        for entity in sorted(entities, key=lambda each: each.offset):
            if any(start <= entity.offset < end for start, end in quoted):
                continue
            name = stretch_of(text, entity).removeprefix("@").lower()
            if entity.type == MessageEntity.TEXT_MENTION and entity.user is not None and entity.user.is_bot:
                return entity.user.id == self.known.bot_id
            if entity.type == MessageEntity.MENTION and (name.endswith("bot") or name == self.known.username.lower()):
                return name == self.known.username.lower()
        return False

    def _command(self) -> tuple[str, CommandForm | None] | Ignored | None:
        """Return a command in our spelling with its form; None if it is none."""
        text, entities = self.message.text or self.message.caption or "", self._entities()
        first = next((each for each in entities if each.offset == 0 and each.type == MessageEntity.BOT_COMMAND), None)
        if first is None:
            return None
        name, _, to = stretch_of(text, first).removeprefix("/").lower().partition("@")
        ours = to == self.known.username.lower()
        if to and not ours:
            return Ignored(IgnoreReason.OTHER_BOTS_COMMAND)
        rest = text[first.length :].strip()
        asked = ours or self.message.chat.type == Chat.PRIVATE
        if name == "start" and asked and "help" in self.known.forms:
            return "/help", self.known.forms["help"]
        word, _, behind = rest.partition(" ")
        for used, left in ((f"{name} {word}", behind.strip()), (name, rest)):
            form = self.known.forms.get(command_name(used))
            if form is not None:
                return f"/{form.path} {left}".rstrip(), form
        if not asked and not self._begins_ours(name):
            return Ignored(IgnoreReason.OTHER_BOTS_COMMAND)
        return f"/{name.replace('_', '-')} {rest}".rstrip(), None

    def _begins_ours(self, name: str) -> bool:
        """Return whether a command of ours has two words and begins with this one."""
        return any(form.path.split()[0] == name for form in self.known.forms.values())
