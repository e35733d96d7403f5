"""How large a prompt may be for one model, and what goes with it."""

from dataclasses import dataclass, replace

from core.domain.prompt import JsonSchema, ToolSpec

BYTES_PER_TOKEN = 6
"""What a token of the input window may weigh in UTF-8 by default; English has about 4.5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPolicy:
    """How large a prompt may be and what goes with it.

    `window_tokens` holds input and output. `hard_cap_tokens` is the largest hard bound allowed, output
    included; None means 6 bytes per token of the input window. `bound_factor` is for models whose tokens
    may cover less than a byte of UTF-8. `image_tokens`: what one image may cost; 0: the model reads none.
    """

    window_tokens: int = 11_000
    max_output_tokens: int = 1_000
    family: str = "default"
    bound_factor: float = 1.0
    hard_cap_tokens: int | None = None
    image_tokens: int = 0
    tools: tuple[ToolSpec, ...] = ()
    output_schema: JsonSchema | None = None

    @property
    def input_tokens(self) -> int:
        """What the window leaves for the prompt."""
        return self.window_tokens - self.max_output_tokens

    @property
    def images_most(self) -> int:
        """How many images a prompt takes: together they leave half of the input window to words."""
        return self.input_tokens // 2 // self.image_tokens if self.image_tokens else 0

    @property
    def hard_cap(self) -> int:
        """The tokens to reserve before the prompt exists: no prompt under this policy can cost more."""
        if self.hard_cap_tokens is not None:
            return self.hard_cap_tokens
        return BYTES_PER_TOKEN * self.input_tokens + self.max_output_tokens

    def shrunk(self, share: float) -> "PromptPolicy":
        """Return the policy for another try with `share` of the input window, after a refusal for length."""
        return replace(self, window_tokens=self.max_output_tokens + int(self.input_tokens * share))
