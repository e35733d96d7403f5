"""The fast lane: every detector of every rule in force looks at one message. Pure; what it finds is no verdict.

A detector that fails harms neither the message nor the others: that is counted, and the rest is read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from core.domain.ids import CommunityId
from core.domain.moderation.rules import HINTS, Detector, Rule
from core.domain.moderation.signals import Finding, Signal, Watched
from core.jobs.executor import Observe
from core.moderation.fast import (
    attachments,
    bot_attack,
    duplicate,
    flood,
    forward_kind,
    invites,
    lookalike_name,
    mentions,
    new_member,
    private_data,
    reactions,
    scam_domains,
    scripts,
    spam_score,
    terms,
    urgent,
)
from core.moderation.fast.fold import Folded
from core.moderation.fast.look import Look
from core.moderation.fast.reading import Reading
from core.moderation.fast.windows import Windows
from core.moderation.lists import Lists

log = structlog.get_logger()

Find = Callable[[Look], Finding | None]
DETECTORS: Mapping[Detector, Find] = {
    Detector.FLOOD: flood.find,
    Detector.DUPLICATE: duplicate.find,
    Detector.MENTIONS: mentions.find,
    Detector.SCAM_DOMAINS: scam_domains.find,
    Detector.INVITES: invites.find,
    Detector.SCRIPTS: scripts.find,
    Detector.TERMS: terms.find,
    Detector.ATTACHMENTS: attachments.find,
    Detector.FORWARD_KIND: forward_kind.find,
    Detector.SPAM_SCORE: spam_score.find,
    Detector.BOT_ATTACK: bot_attack.find,
    Detector.URGENT: urgent.find,
    Detector.PRIVATE_DATA: private_data.find,
    Detector.LOOKALIKE_NAME: lookalike_name.find,
    Detector.NEW_MEMBER: new_member.find,
}
"""What looks at messages, in the order in which it looks: what only weighs beside something else comes last."""
_ORDER = {detector: place for place, detector in enumerate(DETECTORS)}


def _unobserved(name: str, value: float, labels: Mapping[str, str]) -> None:
    """Drop a figure that nobody asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FastLane:
    """What reading needs. `score`: how likely a text is spam in a community, 0 to 1; None: there is no model."""

    lists: Lists
    score: Callable[[CommunityId, str], float | None]
    observe: Observe = _unobserved
    detectors: Mapping[Detector, Find] = field(default_factory=lambda: DETECTORS)

    def read(self, message: Watched, windows: Windows, rules: Sequence[Rule]) -> list[Signal]:
        """Return what is found in a message or edit, and remember it; at most one signal for a rule and detector."""
        reading = Reading(message)
        self._note(reading, windows)
        score = self._score(reading, rules)
        signals: list[Signal] = []
        for rule in rules:
            found: list[Finding] = []
            uses = [use for use in rule.detectors if use.name in self.detectors]
            for use in sorted(uses, key=lambda use: _ORDER.get(use.name, 0)):
                look = Look(
                    reading=reading,
                    windows=windows,
                    lists=self.lists,
                    rule=rule,
                    parameters=use.parameters,
                    found=found,
                    score=score,
                )
                if (finding := self._find(use.name, self.detectors[use.name], look)) is not None:
                    found.append(finding)
            signals += [_signal(rule, message, finding) for finding in found]
        return signals

    def read_reactions(
        self, message: Watched, symbols: Sequence[str], windows: Windows, rules: Sequence[Rule]
    ) -> list[Signal]:
        """Return what is found in a change of reactions, and remember it. `message`: by whom, and on what."""
        for symbol in symbols or ("",):
            windows.reacted(message.community_id, message.person_id, message.ref, symbol, message.at)
        signals = []
        for rule in rules:
            use = rule.use_of(Detector.REACTIONS)
            if use is None:
                continue
            look = Look(
                reading=Reading(message), windows=windows, lists=self.lists, rule=rule, parameters=use.parameters
            )
            if (finding := self._find(Detector.REACTIONS, reactions.find, look)) is not None:
                signals.append(_signal(rule, message, finding))
        return signals

    def attacked(self, text: str) -> tuple[int, int] | None:
        """Return where a text speaks to a model's instructions, as a hint to whoever puts it before one."""
        held = bot_attack.attack(Folded(text), self.lists.bot_attack)
        return held[1] if held is not None else None

    def _note(self, reading: Reading, windows: Windows) -> None:
        try:
            sketch, keys = reading.sketch, reading.keys
        except Exception as exc:  # noqa: BLE001  # a text that cannot be compared still counts as said
            self._failed("sketch", exc)
            sketch, keys = frozenset(), ()
        windows.note(reading.message, sketch, keys, new_member.is_newcomer(reading.message))

    def _score(self, reading: Reading, rules: Sequence[Rule]) -> float | None:
        if not reading.message.text or not any(rule.use_of(Detector.SPAM_SCORE) for rule in rules):
            return None
        try:
            return self.score(reading.message.community_id, reading.excerpt)
        except Exception as exc:  # noqa: BLE001  # a detector is never worth a message
            self._failed(Detector.SPAM_SCORE, exc)
            return None

    def _find(self, detector: Detector, find: Find, look: Look) -> Finding | None:
        try:
            finding = find(look)
        except Exception as exc:  # noqa: BLE001  # a detector is never worth a message
            self._failed(detector, exc)
            return None
        return replace(finding, hint=True) if finding is not None and detector in HINTS else finding

    def _failed(self, detector: str, exc: Exception) -> None:
        self.observe("fast_lane_failures_total", 1, {})
        log.error("fast_lane.failed", detector=str(detector), error=type(exc).__name__)


def _signal(rule: Rule, message: Watched, finding: Finding) -> Signal:
    return Signal(
        rule_id=rule.id,
        rule_version=rule.version,
        severity=rule.severity,
        ref=message.ref,
        revision=message.revision,
        finding=finding,
    )
