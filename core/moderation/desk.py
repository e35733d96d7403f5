"""What commands and jobs of moderation share: one of each for the process."""

from dataclasses import dataclass

from core.moderation.appeals import Appeals
from core.moderation.cards import Cards
from core.moderation.casework import Casework
from core.moderation.fast.lane import FastLane
from core.moderation.reversal import Reversal
from core.moderation.rulebook import Rulebook


@dataclass(frozen=True, slots=True, kw_only=True)
class ModerationDesk:
    """The services of moderation."""

    casework: Casework
    cards: Cards
    lane: FastLane
    reversal: Reversal
    appeals: Appeals

    @property
    def rulebook(self) -> Rulebook:
        """The rules of all communities."""
        return self.casework.rulebook
