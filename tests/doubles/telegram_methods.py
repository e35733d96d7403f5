"""The Bot API's methods about messages and files, with the rules and the words with which Telegram refuses."""

import re
from typing import Any

from pydantic import Json
from telegram.constants import ChatAction, ReactionEmoji

from tests.doubles.telegram_entities import (
    Styled,
    check_bounds,
    find_entities,
    parse,
    trim,
    utf16_length,
)
from tests.doubles.telegram_faults import Mutation, Refused, Unimplemented, bad_request
from tests.doubles.telegram_requests import (
    Anything,
    Draft,
    Entities,
    Keyboard,
    Markup,
    Place,
    Press,
    Reaction,
    Reply,
    ReplyParameters,
)
from tests.doubles.telegram_state import (
    GENERAL_TOPIC_ID,
    Chat,
    ChatKind,
    Message,
    Standing,
    StoredFile,
    Topic,
    Upload,
)
from tests.doubles.telegram_world import World

MESSAGE_UNITS = 4096
CAPTION_UNITS = 1024
CALLBACK_DATA_BYTES = 64
CALLBACK_ANSWER_UNITS = 200
DOWNLOAD_BYTES = 20 * 1024 * 1024
DELETABLE_FOR_S = 48 * 3600
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as "
    "a current content and reply markup of the message"
)


class MessageMethods:
    """Methods by the Bot API's names and parameters. Parameters that Telegram has and the double lacks answer 501."""

    def __init__(self, world: World) -> None:
        self.draft_life_s = 30.0
        self.callback_life_s = 60.0
        self.action_life_s = 5.0
        self.drafts: dict[int, Draft] = {}
        self.actions: dict[tuple[int, int | None], tuple[str, int]] = {}
        self.presses: dict[str, Press] = {}
        self._world = world

    def sendMessage(
        self,
        chat_id: str,
        text: str = "",
        parse_mode: str | None = None,
        entities: Entities = None,
        message_thread_id: int | None = None,
        reply_parameters: Reply = None,
        reply_markup: Markup = None,
        link_preview_options: Anything = None,
        disable_notification: bool = False,
        protect_content: bool = False,
    ) -> dict[str, Any]:
        """Store a text of the bot."""
        chat = self._writable(chat_id, "can_send_messages", "text messages")
        place = self._place(chat, message_thread_id, reply_parameters)
        styled = self._compose(text, parse_mode, entities, MESSAGE_UNITS, "message is too long")
        if not styled.text:
            raise bad_request("message text is empty")
        return self._post(chat, place, styled, reply_markup, {})

    def sendDocument(
        self,
        chat_id: str,
        document: str | Upload,
        caption: str = "",
        parse_mode: str | None = None,
        caption_entities: Entities = None,
        message_thread_id: int | None = None,
        reply_parameters: Reply = None,
        reply_markup: Markup = None,
        disable_content_type_detection: bool = False,
        disable_notification: bool = False,
        protect_content: bool = False,
    ) -> dict[str, Any]:
        """Store a file of the bot."""
        chat = self._writable(chat_id, "can_send_documents", "documents")
        place = self._place(chat, message_thread_id, reply_parameters)
        styled = self._caption(caption, parse_mode, caption_entities)
        file = self._file("documents", document)
        about = {"file_name": document.name, "mime_type": document.mime_type} if isinstance(document, Upload) else {}
        return self._post(chat, place, styled, reply_markup, {"document": file.to_json() | about})

    def sendPhoto(
        self,
        chat_id: str,
        photo: str | Upload,
        caption: str = "",
        parse_mode: str | None = None,
        caption_entities: Entities = None,
        message_thread_id: int | None = None,
        reply_parameters: Reply = None,
        reply_markup: Markup = None,
        disable_notification: bool = False,
        protect_content: bool = False,
    ) -> dict[str, Any]:
        """Store a picture of the bot."""
        chat = self._writable(chat_id, "can_send_photos", "photos")
        place = self._place(chat, message_thread_id, reply_parameters)
        styled = self._caption(caption, parse_mode, caption_entities)
        sizes = [self._file("photos", photo).to_json() | {"width": 90, "height": 90}]
        return self._post(chat, place, styled, reply_markup, {"photo": sizes})

    def editMessageText(
        self,
        chat_id: str,
        message_id: int,
        text: str = "",
        parse_mode: str | None = None,
        entities: Entities = None,
        reply_markup: Markup = None,
        link_preview_options: Anything = None,
    ) -> dict[str, Any]:
        """Replace text and buttons of a message of the bot; buttons that are not named again go."""
        message = self._own(chat_id, message_id)
        styled = find_entities(self._compose(text, parse_mode, entities, MESSAGE_UNITS, "MESSAGE_TOO_LONG"))
        if not styled.text:
            raise bad_request("message text is empty")
        if message.has_media or message.is_service:
            raise bad_request("there is no text in the message to edit")
        self._modify(message, styled, self._keyboard(reply_markup))
        return message.to_json()

    def editMessageReplyMarkup(self, chat_id: str, message_id: int, reply_markup: Markup = None) -> dict[str, Any]:
        """Replace the buttons of a message of the bot."""
        message = self._own(chat_id, message_id)
        self._modify(message, Styled(message.text, message.entities), self._keyboard(reply_markup))
        return message.to_json()

    def deleteMessage(self, chat_id: str, message_id: int) -> bool:
        """Delete a message of the bot, or as an administrator anyone's."""
        chat = self._world.chat_for_bot(chat_id)
        message = chat.messages.get(message_id)
        if message is None or message.deleted:
            raise bad_request("message to delete not found")
        me = chat.member(self._world.bot)
        old = self._world.now() - message.date > DELETABLE_FOR_S
        own = message.sender == self._world.bot or chat.kind is ChatKind.PRIVATE
        if not me.may("can_delete_messages") and (old or not own):
            raise bad_request("message can't be deleted")
        self._world.delete(message)
        return True

    def sendMessageDraft(
        self,
        chat_id: int,
        draft_id: int,
        text: str = "",
        parse_mode: str | None = None,
        entities: Entities = None,
        message_thread_id: int | None = None,
    ) -> bool:
        """Show a text that grows; it is gone after `draft_life_s` or when the bot sends."""
        chat = self._world.chat_for_bot(str(chat_id))
        if chat.kind is not ChatKind.PRIVATE:
            raise bad_request("TEXTDRAFT_PEER_INVALID")
        self._place(chat, message_thread_id, None)
        if draft_id == 0:
            raise bad_request("draft identifier must be non-zero")
        styled = self._compose(text, parse_mode, entities, MESSAGE_UNITS, "message is too long")
        self.drafts[chat.id] = Draft(draft_id, styled.text, self._world.now())
        return True

    def sendChatAction(self, chat_id: str, action: str, message_thread_id: int | None = None) -> bool:
        """Show that the bot types. Unlike sends, the General topic shows it only under thread id 1."""
        chat = self._writable(chat_id, "can_send_messages", "text messages")
        if action not in set(ChatAction):
            raise bad_request("wrong parameter action in request")
        if not (chat.forum and message_thread_id == GENERAL_TOPIC_ID):
            self._place(chat, message_thread_id, None)
        self.actions[(chat.id, message_thread_id)] = (action, self._world.now())
        return True

    def setMessageReaction(
        self, chat_id: str, message_id: int, reaction: Json[list[Reaction]] | None = None, is_big: bool = False
    ) -> bool:
        """Set or, with nothing, take back the bot's reaction."""
        message = self._message(chat_id, message_id, "message to react not found")
        emoji = tuple(each.emoji for each in reaction or [])
        if len(emoji) > 1 or not set(emoji) <= set(ReactionEmoji):
            raise bad_request("REACTION_INVALID")
        message.reactions[self._world.bot.id] = emoji
        return True

    def answerCallbackQuery(
        self, callback_query_id: str, text: str = "", show_alert: bool = False, cache_time: int = 0
    ) -> bool:
        """Answer a pressed button while it waits."""
        press = self.presses.get(callback_query_id)
        if press is None or self._world.now() - press.at > self.callback_life_s:
            raise bad_request("query is too old and response timeout expired or query ID is invalid")
        if utf16_length(text) > CALLBACK_ANSWER_UNITS:
            raise bad_request("MESSAGE_TOO_LONG")
        press.answer = text
        return True

    def getFile(self, file_id: str) -> dict[str, Any]:
        """Return where a file can be fetched."""
        file = self._world.files.get(file_id)
        if file is None:
            raise bad_request("wrong file_id or the file is temporarily unavailable")
        if file.size > DOWNLOAD_BYTES and not self._world.mutated(Mutation.NO_DOWNLOAD_LIMIT):
            raise bad_request("file is too big")
        return file.to_json() | {"file_path": file.path}

    def _writable(self, chat_id: str, permission: str, things: str) -> Chat:
        chat = self._world.chat_for_bot(chat_id)
        me = chat.member(self._world.bot)
        if me.standing is Standing.RESTRICTED and not me.rights.get(permission, False):
            raise bad_request(f"not enough rights to send {things} to the chat")
        if chat.kind is ChatKind.CHANNEL and not me.may("can_post_messages"):
            raise bad_request("need administrator rights in the channel chat")
        return chat

    def _message(self, chat_id: str, message_id: int, unknown: str) -> Message:
        message = self._world.chat_for_bot(chat_id).messages.get(message_id)
        if message is None or message.deleted:
            raise bad_request(unknown)
        return message

    def _own(self, chat_id: str, message_id: int) -> Message:
        message = self._message(chat_id, message_id, "message to edit not found")
        if message.sender != self._world.bot and not self._world.mutated(Mutation.EDIT_ANYTHING):
            raise bad_request("message can't be edited")
        return message

    def _place(self, chat: Chat, thread_id: int | None, reply: ReplyParameters | None) -> Place:
        """Find the topic and what is answered; an answer without a thread id goes where its target is."""
        topic = self._topic(chat, thread_id)
        if reply is None:
            return Place(topic, None, None)
        target = chat.messages.get(reply.message_id)
        is_gone = target is None or target.deleted
        if is_gone and reply.allow_sending_without_reply:
            return Place(topic, None, None)
        if target is None or is_gone or (topic is not None and target.topic is not topic):
            raise bad_request("message to be replied not found")
        self._check_open(chat, target.topic)
        quote = None
        if reply.quote is not None:
            at = target.text.find(reply.quote)
            if at < 0 or not reply.quote:
                raise bad_request("QUOTE_TEXT_INVALID")
            quote = {"text": reply.quote, "position": utf16_length(target.text[:at]), "is_manual": True}
        return Place(target.topic, target, quote)

    def _topic(self, chat: Chat, thread_id: int | None) -> Topic | None:
        if thread_id is None:
            return None
        if chat.forum and thread_id == GENERAL_TOPIC_ID and self._world.mutated(Mutation.GENERAL_TAKES_THREAD_ONE):
            return None
        topic = chat.topics.get(thread_id) if chat.forum else None
        if topic is None:
            raise bad_request("message thread not found")
        self._check_open(chat, topic)
        return topic

    def _check_open(self, chat: Chat, topic: Topic | None) -> None:
        if topic is not None and topic.closed and not chat.member(self._world.bot).may("can_manage_topics"):
            raise bad_request("TOPIC_CLOSED")

    def _caption(self, caption: str, parse_mode: str | None, entities: Entities) -> Styled:
        return self._compose(caption, parse_mode, entities, CAPTION_UNITS, "message caption is too long")

    def _compose(self, text: str, parse_mode: str | None, entities: Entities, limit: int, too_long: str) -> Styled:
        """Return the text as people will see it; given entities win over a parse mode."""
        if entities:
            styled = check_bounds(Styled(text, tuple(given.entity() for given in entities)))
        else:
            styled = self._parsed(text, parse_mode)
        styled = trim(styled)
        counted_wrongly = self._world.mutated(Mutation.COUNT_CODE_POINTS)
        if (len(styled.text) if counted_wrongly else utf16_length(styled.text)) > limit:
            raise bad_request(too_long)
        return styled

    def _parsed(self, text: str, parse_mode: str | None) -> Styled:
        try:
            return parse(text, parse_mode)
        except Refused:
            if self._world.mutated(Mutation.MARKUP_UNCHECKED):
                return Styled(text)
            raise

    def _keyboard(self, markup: Keyboard | None) -> dict[str, Any] | None:
        if markup is None or not any(markup.inline_keyboard):
            return None
        for button in (button for row in markup.inline_keyboard for button in row):
            size = len((button.callback_data or button.url or "").encode())
            if size == 0:
                raise bad_request(
                    "can't parse inline keyboard button: text buttons are unallowed in the inline keyboard"
                )
            too_big = button.callback_data is not None and size > CALLBACK_DATA_BYTES
            if too_big and not self._world.mutated(Mutation.NO_CALLBACK_LIMIT):
                raise bad_request("BUTTON_DATA_INVALID")
        return markup.model_dump(exclude_none=True)

    def _modify(self, message: Message, styled: Styled, markup: dict[str, Any] | None) -> None:
        same = (message.text, message.entities, message.reply_markup) == (styled.text, styled.entities, markup)
        if same and not self._world.mutated(Mutation.UNMODIFIED_EDIT_PASSES):
            raise bad_request(NOT_MODIFIED)
        self._world.edit(message, styled.text, styled.entities)
        message.reply_markup = markup

    def _post(
        self, chat: Chat, place: Place, styled: Styled, markup: Keyboard | None, content: dict[str, Any]
    ) -> dict[str, Any]:
        in_channel = chat.kind is ChatKind.CHANNEL
        message = self._world.store(
            chat,
            self._world.bot,
            styled,
            content=content,
            topic=place.topic,
            reply_to=place.reply_to,
            reply_markup=self._keyboard(markup),
            extra={"quote": place.quote} if place.quote else {},
            sender_chat=chat if in_channel else None,
        )
        self.drafts.pop(chat.id, None)
        self._world.spread(message)
        return message.to_json()

    def _file(self, kind: str, given: str | Upload) -> StoredFile:
        if isinstance(given, Upload):
            return self._world.store_file(kind, given.name, given.content)
        if given in self._world.files:
            return self._world.files[given]
        if re.match(r"https?://", given):
            raise Unimplemented("files by address")
        raise bad_request("wrong remote file identifier specified: wrong string length")
