"""The Bot API's methods about the bot itself, its updates, its commands, and chats and their members."""

import re
from typing import Any

from pydantic import Json

from tests.doubles.telegram_faults import bad_request
from tests.doubles.telegram_requests import Given
from tests.doubles.telegram_state import (
    ADMINS,
    PERMISSIONS,
    PRESENT,
    Chat,
    ChatKind,
    Member,
    Standing,
    Upload,
    User,
)
from tests.doubles.telegram_updates import Webhook
from tests.doubles.telegram_world import World

COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
COMMAND_SCOPES = frozenset(
    {"default", "all_private_chats", "all_group_chats", "all_chat_administrators", "chat", "chat_administrators",
     "chat_member"}
)  # fmt: skip
SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
SHORTEST_BAN_S = 30
LONGEST_BAN_S = 366 * 86400


class BotCommand(Given):
    """A command that clients offer."""

    command: str
    description: str


class CommandScope(Given):
    """To whom commands are offered."""

    type: str
    chat_id: int | str | None = None
    user_id: int | None = None


Allowed = Json[list[str]] | None
Scope = Json[CommandScope] | None


class RoomMethods:
    """Methods by the Bot API's names and parameters."""

    def __init__(self, world: World) -> None:
        self.long_poll_max = 50.0
        self.commands: dict[tuple[str, str], list[dict[str, str]]] = {}
        self._world = world

    def getMe(self) -> dict[str, Any]:
        """Return the bot, with what privacy mode lets it read."""
        return self._world.bot.to_json() | {
            "can_join_groups": True,
            "can_read_all_group_messages": not self._world.privacy_mode,
            "supports_inline_queries": False,
        }

    async def getUpdates(
        self, offset: int = 0, limit: int = 100, timeout: float = 0, allowed_updates: Allowed = None
    ) -> list[dict[str, Any]]:
        """Confirm what is before the offset and return what is not confirmed."""
        self._allow(allowed_updates)
        return await self._world.queue.poll(offset, max(1, min(limit, 100)), min(timeout, self.long_poll_max))

    def setWebhook(
        self,
        url: str = "",
        secret_token: str | None = None,
        allowed_updates: Allowed = None,
        max_connections: int = 40,
        drop_pending_updates: bool = False,
        certificate: Upload | None = None,
        ip_address: str | None = None,
    ) -> bool:
        """Push updates to an address from now on; unlike Telegram the double takes plain HTTP and any port."""
        if secret_token is not None and not SECRET.fullmatch(secret_token):
            raise bad_request("secret token contains unallowed characters")
        if url and not re.match(r"https?://", url):
            raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
        self._allow(allowed_updates)
        if drop_pending_updates:
            self._world.queue.pending.clear()
        self._world.queue.set_webhook(Webhook(url, secret_token, max_connections) if url else None)
        return True

    def deleteWebhook(self, drop_pending_updates: bool = False) -> bool:
        """Wait to be asked again."""
        return self.setWebhook(drop_pending_updates=drop_pending_updates)

    def getWebhookInfo(self) -> dict[str, Any]:
        """Return the address, what waits for it and how the last attempt failed."""
        queue = self._world.queue
        webhook = queue.webhook or Webhook("", None, 40)
        info: dict[str, Any] = {
            "url": webhook.url,
            "has_custom_certificate": False,
            "pending_update_count": len(queue.pending),
            "max_connections": webhook.max_connections,
        }
        if queue.allowed:
            info["allowed_updates"] = list(queue.allowed)
        if webhook.last_error is not None:
            info |= {"last_error_date": webhook.last_error_date, "last_error_message": webhook.last_error}
        return info

    def getChat(self, chat_id: str) -> dict[str, Any]:
        """Return a chat in full."""
        chat = self._world.chat_for_bot(chat_id)
        gifts = dict.fromkeys(("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription"), False)
        full = chat.to_json() | {
            "accent_color_id": 0,
            "max_reaction_count": 11,
            "accepted_gift_types": gifts | {"gifts_from_channels": False},
        }
        if chat.kind in {ChatKind.GROUP, ChatKind.SUPERGROUP}:
            full["permissions"] = dict.fromkeys(PERMISSIONS, True)
        return full | ({"linked_chat_id": chat.linked.id} if chat.linked else {})

    def getChatMember(self, chat_id: str, user_id: int) -> dict[str, Any]:
        """Return the standing of one person, the only thing that can be asked about members."""
        chat = self._world.chat_for_bot(chat_id)
        return self._member(chat, self._user(user_id)).to_json()

    def getChatAdministrators(self, chat_id: str) -> list[dict[str, Any]]:
        """Return owner and administrators; of bots only this one."""
        chat = self._world.chat_for_bot(chat_id)
        if chat.kind is ChatKind.PRIVATE:
            raise bad_request("there are no administrators in the private chat")
        admins = (member for member in chat.members.values() if member.standing in ADMINS)
        return [member.to_json() for member in admins if not member.user.is_bot or member.user == self._world.bot]

    def getChatMemberCount(self, chat_id: str) -> int:
        """Return how many are in a chat."""
        chat = self._world.chat_for_bot(chat_id)
        if chat.kind is ChatKind.PRIVATE:
            return 2
        return sum(member.standing in PRESENT for member in chat.members.values())

    def leaveChat(self, chat_id: str) -> bool:
        """Leave a chat."""
        chat = self._world.chat_for_bot(chat_id)
        self._world.change_standing(chat, self._world.bot, self._world.bot, Standing.LEFT)
        return True

    def restrictChatMember(
        self,
        chat_id: str,
        user_id: int,
        permissions: Json[dict[str, bool]],
        use_independent_chat_permissions: bool = False,
        until_date: int = 0,
    ) -> bool:
        """Take away or give back what a member of a supergroup may do."""
        chat, user = self._sanctioned(chat_id, user_id)
        if chat.kind is not ChatKind.SUPERGROUP:
            raise bad_request("method is available only for supergroups")
        rights = {name: bool(permissions.get(name)) for name in PERMISSIONS}
        standing = Standing.MEMBER if all(rights.values()) else Standing.RESTRICTED
        until = self._until(until_date) if standing is Standing.RESTRICTED else 0
        self._world.change_standing(chat, user, self._world.bot, standing, rights, until)
        return True

    def banChatMember(self, chat_id: str, user_id: int, until_date: int = 0, revoke_messages: bool = False) -> bool:
        """Put someone out; in a basic group for this once, elsewhere until the date."""
        chat, user = self._sanctioned(chat_id, user_id)
        self._world.change_standing(chat, user, self._world.bot, Standing.BANNED, until=self._until(until_date))
        return True

    def unbanChatMember(self, chat_id: str, user_id: int, only_if_banned: bool = False) -> bool:
        """Let someone come back; without `only_if_banned` it puts out whoever is in."""
        chat, user = self._sanctioned(chat_id, user_id)
        if chat.kind is ChatKind.GROUP:
            raise bad_request("method is available for supergroup and channel chats only")
        if self._member(chat, user).standing is Standing.BANNED or not only_if_banned:
            self._world.change_standing(chat, user, self._world.bot, Standing.LEFT)
        return True

    def setMyCommands(self, commands: Json[list[BotCommand]], scope: Scope = None, language_code: str = "") -> bool:
        """Replace the commands of one scope and language."""
        if len(commands) > 100:
            raise bad_request("BOT_COMMANDS_TOO_MUCH")
        for each in commands:
            if not COMMAND_NAME.fullmatch(each.command):
                raise bad_request("BOT_COMMAND_INVALID")
            if not 1 <= len(each.description) <= 256:
                raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
        self.commands[(self._scope(scope), language_code)] = [each.model_dump() for each in commands]
        return True

    def getMyCommands(self, scope: Scope = None, language_code: str = "") -> list[dict[str, str]]:
        """Return the commands of one scope and language."""
        return self.commands.get((self._scope(scope), language_code), [])

    def deleteMyCommands(self, scope: Scope = None, language_code: str = "") -> bool:
        """Offer nothing more in one scope and language."""
        self.commands.pop((self._scope(scope), language_code), None)
        return True

    def _scope(self, scope: CommandScope | None) -> str:
        """Return the name of a scope, with its chat and person where it has them."""
        if scope is None:
            return "default"
        if scope.type not in COMMAND_SCOPES:
            raise bad_request("can't parse BotCommandScope: unsupported type specified")
        if scope.type in {"chat", "chat_administrators", "chat_member"}:
            self._world.chat_for_bot(str(scope.chat_id))
        return " ".join(str(part) for part in (scope.type, scope.chat_id, scope.user_id) if part is not None)

    def _allow(self, kinds: list[str] | None) -> None:
        if kinds is not None:
            # Telegram knows more kinds than the double; they never come about. An empty list is the default again.
            self._world.queue.allowed = tuple(kinds) or None

    def _user(self, user_id: int) -> User:
        user = self._world.users.get(user_id)
        if user is None:
            raise bad_request("invalid user_id specified")
        return user

    def _member(self, chat: Chat, user: User) -> Member:
        """Return a standing as it is now: what had an end may have ended."""
        member = chat.member(user)
        if member.until and member.until <= self._world.now():
            over = Standing.LEFT if member.standing is Standing.BANNED else Standing.MEMBER
            self._world.set_standing(chat, user, over, {})
        return chat.member(user)

    def _until(self, date: int) -> int:
        span = date - self._world.now()
        return date if SHORTEST_BAN_S <= span <= LONGEST_BAN_S else 0

    def _sanctioned(self, chat_id: str, user_id: int) -> tuple[Chat, User]:
        chat = self._world.chat_for_bot(chat_id)
        user = self._user(user_id)
        if chat.kind is ChatKind.PRIVATE:
            raise bad_request("can't ban members in private chats")
        if user == self._world.bot:
            raise bad_request("can't restrict self")
        if not chat.member(self._world.bot).may("can_restrict_members"):
            raise bad_request("not enough rights to restrict/unrestrict chat member")
        match chat.member(user).standing:
            case Standing.CREATOR:
                raise bad_request("can't remove chat owner")
            case Standing.ADMINISTRATOR:
                raise bad_request("user is an administrator of the chat")
            case _:
                return chat, user
