"""The library's HTTP, made so that no answer of a broken server is read, and no broken update blocks the others."""

import json
import ssl
from functools import cache
from typing import Any

import httpx
from telegram import Update
from telegram.error import NetworkError, TelegramError
from telegram.request import HTTPXRequest

GOOD = 200
FROM_A_SERVER = 500
PLAIN_REFUSAL = 400
_TOLD_APART = frozenset({400, 401, 403, 404, 409, 429})
"""Refusals that the library tells apart; it takes all others for failures of the network."""
_NOTHING = b'{"ok": false}'


class TooMuch(Exception):
    """A body is larger than its reader takes."""


@cache
def authorities() -> ssl.SSLContext:
    """Return whom a connection believes. Reading them is most of the work of making a client, so all share one."""
    return httpx.create_ssl_context()


class CalmRequest(HTTPXRequest):
    """Requests whose bodies are read only where they come from the Bot API itself."""

    def __init__(
        self,
        connections: int,
        read_s: float,
        write_s: float,
        connect_s: float,
        pool_s: float,
        httpx_kwargs: dict[str, Any] | None = None,
    ) -> None:
        shared = {"verify": authorities(), **(httpx_kwargs or {})}
        super().__init__(connections, read_s, write_s, connect_s, pool_s, httpx_kwargs=shared)

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """Return status and body; a server's error, which is a page for people, without its body."""
        status, body = await super().do_request(*args, **kwargs)
        if status >= FROM_A_SERVER:
            return status, _NOTHING
        if status >= PLAIN_REFUSAL and status not in _TOLD_APART:
            return PLAIN_REFUSAL, _NOTHING
        return status, body

    async def read(self, url: str, limit_bytes: int) -> tuple[int, bytes]:
        """Return status and body of a file; only a good answer's body is read. The caller limits the time.

        Raises:
            TooMuch: The body is larger than the limit; the rest was not read.
            NetworkError: The connection failed, in words without the address, which holds the token.
        """
        found = bytearray()
        try:
            async with self._client.stream("GET", url, follow_redirects=False) as answer:
                if answer.status_code != GOOD:
                    return answer.status_code, b""
                async for piece in answer.aiter_bytes():
                    found += piece
                    if len(found) > limit_bytes:
                        raise TooMuch
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise NetworkError(f"file not fetched: {type(exc).__name__}") from exc
        return GOOD, bytes(found)

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the answer; what is none is not repeated in any log, for it may hold what people said."""
        try:
            answer = json.loads(payload.decode("utf-8", "replace"))
        except ValueError as exc:
            raise TelegramError("no answer of the Bot API") from exc
        if not isinstance(answer, dict):
            raise TelegramError("no answer of the Bot API")
        return answer


class UpdatesRequest(CalmRequest):
    """Requests for updates. One that the library cannot read is passed on bare, with its number alone."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the answer with every broken update made bare, so that it can be confirmed like the others."""
        answer = CalmRequest.parse_json_payload(payload)
        result = answer.get("result")
        if isinstance(result, list):
            answer["result"] = [bare_unless_readable(update) for update in result if has_number(update)]
        return answer


def has_number(update: object) -> bool:
    """Return whether an update can be confirmed at all."""
    return isinstance(update, dict) and isinstance(update.get("update_id"), int)


def bare_unless_readable(update: dict[str, Any]) -> dict[str, Any]:
    """Return the update, or only its number if the library cannot read it."""
    try:
        Update.de_json(dict(update), None)
    except (TelegramError, TypeError, ValueError, KeyError, AttributeError):
        return {"update_id": update["update_id"]}
    return update
