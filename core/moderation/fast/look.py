"""What a detector is given to look at: one message, the rule that asks, its thresholds, and what was found so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from core.domain.moderation.rules import Detector, Parameter, Rule
from core.domain.moderation.signals import Finding, Watched
from core.moderation.fast.reading import Reading
from core.moderation.fast.windows import Recent, Windows
from core.moderation.lists import Lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One message under one rule. `parameters`: as the rule gives them; `score`: None where there is no model."""

    reading: Reading
    windows: Windows
    lists: Lists
    rule: Rule
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    found: Sequence[Finding] = ()
    score: float | None = None

    @property
    def message(self) -> Watched:
        """Return the message."""
        return self.reading.message

    @property
    def recent(self) -> Recent:
        """Return what its author did lately."""
        return self.windows.recent(self.message.community_id, self.message.person_id)

    def number(self, name: str, default: float) -> float:
        """Return a threshold; the default where the rule names none, or none that is a number."""
        value = self.parameters.get(name, default)
        return default if isinstance(value, str | tuple) else float(value)

    def seconds(self, name: str, default: float) -> timedelta:
        """Return a stretch of time that the rule gives in seconds."""
        return timedelta(seconds=self.number(name, default))

    def words(self, name: str) -> tuple[str, ...]:
        """Return words that the rule gives; none where it gives none."""
        value = self.parameters.get(name, ())
        return value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()

    def flag(self, name: str, default: bool) -> bool:
        """Return a yes or no that the rule gives."""
        value = self.parameters.get(name, default)
        return value if isinstance(value, bool) else default

    def finding(
        self,
        detector: Detector,
        value: float,
        threshold: float,
        *,
        refs: Sequence[str] = (),
        span: tuple[int, int] | None = None,
        what: str = "",
        hint: bool = False,
    ) -> Finding:
        """Return what was found in this message; its own id is left out of `refs`."""
        others = tuple(dict.fromkeys(ref for ref in refs if ref != self.message.ref))
        return Finding(
            detector=detector, value=value, threshold=threshold, refs=others, span=span, what=what, hint=hint
        )
