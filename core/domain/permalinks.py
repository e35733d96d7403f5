"""Where a message can be opened: its address on the platform, or none. Pure."""

from core.domain.ids import RoomKey

OWN_MARK = "own:"
"""Stands before the platform's id of a message that the bot itself said."""
_DIRECT = "dm:"
_SUPERGROUP = "-100"


def permalink(platform: str, community_ref: str, room: RoomKey, message_ref: str) -> str | None:
    """Return the address of a message; None where the platform has none for it.

    Discord links every message. Telegram links those of supergroups and channels, with their topic; basic groups and
    private chats have no links. The terminal and imported histories have none.

    Args:
        platform: Where the message is.
        community_ref: The platform's id of the server or group.
        room: The room's key: channel or thread at Discord, chat and topic at Telegram.
        message_ref: The platform's id of the message; one that was given out anew since is no id any more.
    """
    ref = message_ref.removeprefix(OWN_MARK)
    if not _is_id(ref):
        return None
    match platform:
        case "discord":
            guild = "@me" if community_ref.startswith(_DIRECT) else community_ref
            if not _is_id(room.chat_ref) or not (guild == "@me" or _is_id(guild)):
                return None
            return f"https://discord.com/channels/{guild}/{room.chat_ref}/{ref}"
        case "telegram":
            chat = room.chat_ref.removeprefix(_SUPERGROUP)
            if chat == room.chat_ref or not _is_id(chat) or not (room.topic_ref == "" or _is_id(room.topic_ref)):
                return None
            return "/".join(filter(None, ("https://t.me/c", chat, room.topic_ref, ref)))
        case _:
            return None


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit()
