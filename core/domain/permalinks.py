"""Where a message, or some lines of a file, can be opened: an address, or none. Pure."""

import re
from urllib.parse import quote, urlsplit

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


_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_RENDERED = (".md", ".markdown", ".rst", ".adoc", ".org")
"""What these hosts show as a page: a line of it can be opened in its plain form alone."""
_HOSTS = {
    "github.com": ("/blob/{commit}/{path}", "?plain=1", "#L{start}-L{end}"),
    "gitlab.com": ("/-/blob/{commit}/{path}", "?plain=1", "#L{start}-{end}"),
    "codeberg.org": ("/src/commit/{commit}/{path}", "?display=source", "#L{start}-L{end}"),
    "bitbucket.org": ("/src/{commit}/{path}", "", "#lines-{start}:{end}"),
    "git.sr.ht": ("/tree/{commit}/item/{path}", "?view-source", "#L{start}-{end}"),
}
"""Where public hosts show a file of a commit, how in its plain form, and some of its lines."""


def file_link(location: str, commit: str, path: str, line_start: int, line_end: int) -> str | None:
    """Return the address of some lines of a repository's file; None where its host is not known to have one.

    Args:
        location: Where the repository is read from.
        commit: Its full hash.
        path: The file's, below the root.
        line_start: The first line, from 1.
        line_end: The last line.
    """
    if not location.startswith("https://") or not _COMMIT.fullmatch(commit):
        return None
    parts = urlsplit(location)
    shape = _HOSTS.get(parts.netloc)
    if shape is None or parts.query or parts.fragment:
        return None
    page, plain, lines = shape
    root = quote(parts.path.strip("/").removesuffix(".git"), safe="/~%")
    where = page.format(commit=commit, path=quote(path)) + (plain if path.casefold().endswith(_RENDERED) else "")
    return f"https://{parts.netloc}/{root}{where}{lines.format(start=line_start, end=line_end)}"
