"""Files beside messages, fetched from the platform's own hosts only, within a size and a time."""

import aiohttp
from yarl import URL

from bot.adapters.discord_payload import parts, payload, ref, text
from bot.adapters.discord_rest import FAILURES, Request, Rest, meaning
from core.domain.errors import BotError, OutsideRefused, Unavailable
from core.ports import SendRefused

OWN_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
FETCH_S = 10.0
_PIECE_BYTES = 1 << 16


class Files:
    """Fetches. `cdn_url`: the one host instead of the platform's own, for another server that speaks its protocol."""

    def __init__(self, cdn_url: str = "") -> None:
        self._origin = URL(cdn_url).origin() if cdn_url else None

    def is_own(self, address: str) -> bool:
        """Return whether an address belongs to the platform."""
        try:
            url = URL(address)
            if self._origin is not None:
                return url.origin() == self._origin
        except ValueError:
            return False
        return url.scheme == "https" and url.host in OWN_HOSTS and url.port == 443 and url.user is None

    async def fetch(self, address: str, limit_bytes: int) -> bytes | str:
        """Return the file, or why there is none."""
        try:
            return await self.read(address, limit_bytes)
        except BotError as exc:
            return f"not read: {exc.attributes['why']}"

    async def read(self, address: str, limit_bytes: int) -> bytes:
        """Return the file at an address.

        Raises:
            OutsideRefused: It is not at the platform, gone, or over the limit.
            Unavailable: It did not come in time.
        """
        if not self.is_own(address):
            raise OutsideRefused("discord: file refused", why="it is not at the platform")
        timeout = aiohttp.ClientTimeout(total=FETCH_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(URL(address, encoded=True), allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise OutsideRefused("discord: file refused", why=f"status {answer.status}")
                found = bytearray()
                async for piece in answer.content.iter_chunked(_PIECE_BYTES):
                    found += piece
                    if len(found) > limit_bytes:
                        raise OutsideRefused("discord: file refused", why=f"over the {limit_bytes // 1024} KB limit")
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as exc:
            raise Unavailable("discord: file not fetched", why="it could not be fetched") from exc
        return bytes(found)

    async def read_of_message(self, rest: Rest, chat: str, handle: str, limit_bytes: int) -> bytes:
        """Return a file by its handle, through its message: links expire, and messages give new ones.

        Raises:
            OutsideRefused: It belongs to another chat, is gone with its message, or cannot be read as by `read`.
            Unavailable: The platform did not answer.
        """
        where, _, rest_of_it = handle.partition("/")
        message, _, file = rest_of_it.partition("/")
        if where != chat or not message or not file:
            raise OutsideRefused("discord: file refused", why="it belongs to another room")
        ids = {"channel_id": chat, "message_id": message}
        try:
            body = payload(await rest.call(Request("GET", "/channels/{channel_id}/messages/{message_id}", ids)))
        except FAILURES as exc:
            if isinstance(meaning(exc), SendRefused):
                raise OutsideRefused("discord: file refused", why="its message is gone") from exc
            raise Unavailable("discord: file not fetched", why="the platform did not answer") from exc
        for one in parts(body, "attachments"):
            if ref(one, "id") == file:
                return await self.read(text(one, "url"), limit_bytes)
        raise OutsideRefused("discord: file refused", why="it is gone")
