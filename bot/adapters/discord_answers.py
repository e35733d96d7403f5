"""The token by which an interaction is answered, in one string with what has to be known of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_PRIVATE, _OPEN = "private", "open"


@dataclass(frozen=True, slots=True)
class Hook:
    """Where the answer of an interaction goes. `private`: only the asker sees it, as was promised at once."""

    application: str
    private: bool
    token: str = field(repr=False)

    @property
    def ids(self) -> Mapping[str, str]:
        """Return the parts of its path."""
        return {"webhook_id": self.application, "webhook_token": self.token}

    @property
    def chat(self) -> str:
        """Return the name of its own budget: it has limits of its own."""
        return f"hook:{self.token[-24:]}"

    def text(self) -> str:
        """Return it as the one string that goes with a message."""
        return f"{self.application}:{_PRIVATE if self.private else _OPEN}:{self.token}"


def hook_of(answer_token: str) -> Hook | None:
    """Return what such a string says; None if it is none."""
    application, _, rest = answer_token.partition(":")
    kind, _, token = rest.partition(":")
    if not application.isdigit() or kind not in (_PRIVATE, _OPEN) or not token:
        return None
    return Hook(application, kind == _PRIVATE, token)
