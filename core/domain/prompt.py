"""What is sent to a model and what comes back, and what a prompt is made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

JsonSchema = Mapping[str, object]


class Tier(StrEnum):
    """How strong a model a call asks for; a missing tier falls to the next lower one."""

    DEEP = "deep"
    FAST = "fast"
    CHEAP = "cheap"


class Finish(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a request; `system` is a field of its own."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool the model may call."""

    name: str
    description: str
    parameters: JsonSchema


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything one call sends. Constructed in `core/prompt/builder.py` alone."""

    system: str
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSpec, ...]
    output_schema: JsonSchema | None
    cache_breakpoints: tuple[int, ...]  # offsets in characters into `system`
    max_output_tokens: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens one call used. `estimated`: the provider reported none, ours stand in."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer of a model.

    `text` is everything the model said outside reasoning fields; `usd_micro` is 0 for unpriced models.
    """

    text: str
    usage: Usage
    model: str
    finish: Finish
    usd_micro: int = 0
    reasoning_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed answer; the last one carries the completion and no text."""

    text: str = ""
    completion: Completion | None = None
