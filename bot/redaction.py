"""What is hidden in log events: secrets by key, by shape and by value, and people's words."""

import re
from collections.abc import Iterable, Mapping

HIDDEN = "[hidden]"

_SECRET_KEY = re.compile(
    r"(?i)(^|[_.-])(token|secret|password|passwd|api_?key|authorization|cookie|credentials?|dsn"
    r"|database_url|private_key)$"
)
# Logs tell what happened, never what somebody said.
_WORDS_KEY = frozenset({"text", "body", "content", "prompt", "message_text", "completion"})
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(shape), shown)
    for shape, shown in (
        (r"([a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@]*):[^\s@/]+@", rf"\1:{HIDDEN}@"),
        (r"(?i)\b(bearer|basic|bot)\s+[a-z0-9._~+/=-]{12,}", rf"\1 {HIDDEN}"),
        (r"\bsk-[A-Za-z0-9_-]{12,}", HIDDEN),
        (r"(?<![A-Za-z0-9])\d{6,12}:[A-Za-z0-9_-]{30,}", HIDDEN),  # Telegram
        (r"\b[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,}", HIDDEN),  # Discord
        (r"(?i)(/(?:webhooks|interactions)/\d+/)[^/\s?#'\"<>]+", rf"\1{HIDDEN}"),  # Discord, inside an address
        (r"(?<=bot)\d{6,12}:[A-Za-z0-9_-]{30,}", HIDDEN),  # Telegram, inside an address
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", HIDDEN),  # JSON web token
        (r"\b(gh[pousr]_|github_pat_|xox[abp]-|AKIA|AIza)[A-Za-z0-9_-]{12,}", HIDDEN),
        (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)", HIDDEN),
        (
            r"(?i)\b((?:access_|refresh_|auth_)?token|password|passwd|pwd|api[_-]?key|secret|signature)"
            r"(['\"]?\s*[=:]\s*['\"]?)[^\s&'\",;)}\]]{4,}",
            rf"\1\2{HIDDEN}",
        ),
        # The driver and the validator repeat the row's or the caller's values, which may be people's words.
        (r"(?m)^(DETAIL|CONTEXT):.*$", rf"\1: {HIDDEN}"),
        (r"input_value=.*?, input_type=", f"input_value={HIDDEN}, input_type="),
    )
)
_DEPTH = 6


class Redactor:
    """Hides in everything that is logged. `secrets` are values known from the settings."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Longest first: a secret that holds another one is hidden whole. Short ones would hide words.
        known = sorted({secret for secret in secrets if len(secret) >= 6}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def line(self, text: str) -> str:
        """Return `text` without what looks like a secret or is one."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for shape, shown in _SHAPES:
            text = shape.sub(shown, text)
        return text

    def fields(self, fields: Mapping[str, object]) -> dict[str, object]:
        """Return the fields of an event with secrets and people's words hidden."""
        return {
            key: HIDDEN if _hides(key) and value is not None else self._value(value, _DEPTH)
            for key, value in fields.items()
        }

    def _value(self, value: object, depth: int) -> object:
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return self.line(value)
            case _ if depth == 0:
                return HIDDEN
            case Mapping():
                return {
                    self.line(str(key)): HIDDEN if _hides(str(key)) else self._value(inner, depth - 1)
                    for key, inner in value.items()
                }
            case list() | tuple() | set() | frozenset():
                return [self._value(inner, depth - 1) for inner in value]
            case _:
                return self.line(str(value))


def _hides(key: str) -> bool:
    return key in _WORDS_KEY or _SECRET_KEY.search(key) is not None
