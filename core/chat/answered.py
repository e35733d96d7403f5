"""What asking comes to: an answer that may be said, with its proof, its cost and what it proposes."""

from dataclasses import dataclass

from core.chat.proposing import Proposed
from core.domain.budgets import UsageRow
from core.domain.prompt import Prompt
from core.domain.speech import ReceiptSource


@dataclass(frozen=True, slots=True)
class Settle:
    """What one call cost, to be booked on what was held for it."""

    reservation_id: int
    usage: UsageRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Guarded text with its proof. `settle` None: no call is left to be booked with it.

    `proposed`: what it would have the mind take in, if anything.
    """

    text: str
    provider: str
    model: str = ""
    sources: tuple[ReceiptSource, ...] = ()
    prompt: Prompt | None = None
    guards: tuple[str, ...] = ()
    settle: Settle | None = None
    proposed: Proposed | None = None

    def sections(self) -> list[dict[str, object]]:
        """Return what became of each section of the prompt, for the receipt."""
        if self.prompt is None:
            return []
        return [
            {
                "name": part.name,
                "tokens": part.tokens,
                "budget": part.budget,
                "trimmed": part.trimmed,
                "kept": part.items_kept,
                "dropped": part.items_dropped,
            }
            for part in self.prompt.sections
        ]
