"""Choices below a message of the bot: each stands for a command that a person could as well type. Pure."""

import re
from dataclasses import dataclass

LABEL_CHARS = 40
COMMAND_CHARS = 400
"""The longest command that a choice stands for; one names at most a thing and why."""
MOST_CHOICES = 5
"""As many as one row holds on the platform with the narrower rows."""
_REF = re.compile(r"void:(\d{1,18}):([1-9])")
_PRESSED = re.compile(r"press:(\d{1,18}):([1-9]):.+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to press. `label`: what it says, up to `LABEL_CHARS`; `command`: what it stands for, as typed.

    Raises:
        ValueError: One of the two is empty or too long, or the command is none.
    """

    label: str
    command: str

    def __post_init__(self) -> None:
        if not 0 < len(self.label) <= LABEL_CHARS:
            raise ValueError(f"choice: a label has 1 to {LABEL_CHARS} characters")
        if not self.command.startswith("/") or len(self.command) > COMMAND_CHARS:
            raise ValueError(f"choice: a command begins with a slash and has up to {COMMAND_CHARS} characters")


@dataclass(frozen=True, slots=True)
class ChoiceRef:
    """Which choice is meant: the `n`th, from 1, below what the outbox holds under this id."""

    outbox_id: int
    n: int

    def text(self) -> str:
        """Return it as platforms carry it; 29 bytes at most, while Telegram takes 64 and Discord 100."""
        return f"void:{self.outbox_id}:{self.n}"

    def pressed(self, event_id: str) -> str:
        """Return the id of the message that pressing it counts as; `event_id` tells one press from the next."""
        return f"press:{self.outbox_id}:{self.n}:{event_id}"


def read_ref(text: str) -> ChoiceRef | None:
    """Return which choice a platform says was pressed; None if it is none of ours."""
    return _ref(_REF.fullmatch(text))


def pressed_of(message_id: str) -> ChoiceRef | None:
    """Return the choice whose pressing a message is; None if somebody has written it."""
    return _ref(_PRESSED.fullmatch(message_id))


def _ref(found: re.Match[str] | None) -> ChoiceRef | None:
    return None if found is None else ChoiceRef(int(found[1]), int(found[2]))


def in_words(choices: tuple[Choice, ...]) -> str:
    """Return choices as lines for where nothing can be pressed."""
    return "\n".join(f"{choice.label}: {choice.command}" for choice in choices)
