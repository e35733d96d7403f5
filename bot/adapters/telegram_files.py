"""Files beside Telegram's messages: asked for by their id, read from the Bot API's own address within limits."""

import asyncio

from telegram import Bot
from telegram.error import TelegramError

from bot.adapters.telegram_content import DOWNLOAD_BYTES, TOO_LARGE
from bot.adapters.telegram_errors import result_of
from bot.adapters.telegram_requests import CalmRequest, TooMuch
from core.domain.errors import OutsideRefused, Unavailable
from core.ports import SendRefused

FETCH_S = 15.0


class Files:
    """Fetches. `own_url`: what the address of every file begins with; it holds the token and is never told."""

    def __init__(self, bot: Bot, request: CalmRequest, own_url: str) -> None:
        self._bot, self._request, self._own_url = bot, request, own_url

    async def read(self, file_id: str, limit_bytes: int) -> bytes:
        """Return a file of at most 20 MB, which is what bots are given.

        Raises:
            OutsideRefused: It is gone, over the limit, or not at the platform.
            Unavailable: It did not come in time.
        """
        try:
            async with asyncio.timeout(FETCH_S):
                file = await self._bot.get_file(file_id)
                if max(file.file_size or 0, 0) > min(limit_bytes, DOWNLOAD_BYTES):
                    raise _over(limit_bytes)
                address = file.file_path or ""
                if not address.startswith(self._own_url):
                    raise OutsideRefused("telegram: file refused", why="it is not at the platform")
                status, found = await self._request.read(address, limit_bytes)
        except TooMuch as exc:
            raise _over(limit_bytes) from exc
        except TelegramError as exc:
            if "too big" in exc.message.lower():
                raise OutsideRefused("telegram: file refused", why=TOO_LARGE) from exc
            if isinstance(result_of(exc), SendRefused):
                raise OutsideRefused("telegram: file refused", why="it is gone") from exc
            raise Unavailable("telegram: file not fetched", why="the platform did not answer") from exc
        except TimeoutError as exc:
            raise Unavailable("telegram: file not fetched", why="it did not come in time") from exc
        if status != 200:
            raise OutsideRefused("telegram: file refused", why=f"status {status}")
        return found


def _over(limit_bytes: int) -> OutsideRefused:
    return OutsideRefused("telegram: file refused", why=f"over the {limit_bytes // 1024} KB limit")
