"""The shapes of keys and tokens; none of them may be said, whoever they belong to."""

import re

# Each begins where a word begins and is bounded, so that no text makes the search slow.
# Sources: the formats that the issuers document for scanners.
_SHAPES = (
    r"sk-(?:ant-|proj-|or-v1-|svcacct-)?[\w-]{20,200}",  # OpenAI, Anthropic, OpenRouter
    r"gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{40,255}",
    r"glpat-[\w-]{20,64}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[0-9]-[A-Za-z0-9-]{10,255}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])",
    r"AIza[0-9A-Za-z_-]{35}|ya29\.[\w-]{20,255}|GOCSPX-[\w-]{20,64}",
    r"hf_[A-Za-z0-9]{30,64}|gsk_[A-Za-z0-9]{40,64}|r8_[A-Za-z0-9]{30,64}|xai-[A-Za-z0-9]{40,128}|pplx-[A-Za-z0-9]{40,64}",
    r"npm_[A-Za-z0-9]{36}|pypi-AgEI[\w-]{40,255}|dckr_pat_[\w-]{20,64}",
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{24,255}",
    r"SG\.[\w-]{16,32}\.[\w-]{16,64}|key-[0-9a-f]{32}(?!\w)|do[opr]_v1_[0-9a-f]{64}",
    r"eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,1000}",  # JSON web token
    r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}",  # Discord bot
    r"[0-9]{8,10}:[\w-]{35}(?![\w-])",  # Telegram bot
    r"AGE-SECRET-KEY-1[0-9A-Z]{20,80}",
)
_TOKEN = re.compile(rf"(?<![\w-])(?:{'|'.join(_SHAPES)})")
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_BEARER = re.compile(r"(?<!\w)bearer[ \t:]{1,4}(?=[\w.~+/=-]{0,64}[0-9])[\w.~+/=-]{20,}", re.IGNORECASE)
_NAMED = re.compile(
    r"(?:api[_-]?key|secret|token|passw(?:or)?d|passphrase)[\"'`]{0,2}[ \t]{0,4}[:=]{1,2}[ \t]{0,4}[\"'`]{0,2}"
    r"(?=[\w+/=.-]{0,64}[0-9])(?=[\w+/=.-]{0,64}[A-Za-z])[\w+/=.-]{20,}",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@]{1,64}:[^\s@/]{3,128}@\w")
_HOOK = re.compile(
    r"hooks\.slack\.com/services/T\w{6,20}/B\w{6,20}/\w{16,40}|discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{10,22}/[\w-]{40,100}"
)
_ALL = (_TOKEN, _PRIVATE_KEY, _BEARER, _NAMED, _IN_ADDRESS, _HOOK)


def holds_secret(text: str) -> bool:
    """Return whether something in `text` has the shape of a key, a token or a private key."""
    return any(shape.search(text) is not None for shape in _ALL)
