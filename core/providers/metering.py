"""Our own count of a call, where the provider reports none."""

from collections.abc import Callable

from core.domain.prompt import ModelRequest, Usage

Estimate = Callable[[str], int]


def estimated(request: ModelRequest, text: str, estimate: Estimate, unseen: int = 0) -> Usage:
    """Return our own count of a call; `unseen` are output tokens that may have been made besides `text`."""
    asked = estimate(request.system) + sum(estimate(each.text) for each in request.messages)
    return Usage(asked + request.image_tokens, estimate(text) + unseen, estimated=True)
