"""The library's HTTP, made so that no answer of a broken server is read, and no broken update blocks the others."""

import json
from typing import Any

from telegram import Update
from telegram.error import TelegramError
from telegram.request import HTTPXRequest

FROM_A_SERVER = 500
PLAIN_REFUSAL = 400
_TOLD_APART = frozenset({400, 401, 403, 404, 409, 429})
"""Refusals that the library tells apart; it takes all others for failures of the network."""
_NOTHING = b'{"ok": false}'


class CalmRequest(HTTPXRequest):
    """Requests whose bodies are read only where they come from the Bot API itself."""

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """Return status and body; a server's error, which is a page for people, without its body."""
        status, body = await super().do_request(*args, **kwargs)
        if status >= FROM_A_SERVER:
            return status, _NOTHING
        if status >= PLAIN_REFUSAL and status not in _TOLD_APART:
            return PLAIN_REFUSAL, _NOTHING
        return status, body

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
