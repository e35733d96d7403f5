"""The ladder: what a breach leads to by its rule's level and the strikes that count, and steps in words. Pure."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from core.domain.moderation.rules import Level, Rule, Step, StepKind

ASK = Step(StepKind.ASK)
_PART = re.compile(r"(note|warn|delete|timeout|slow|kick|ban|ask)(?:\s+(\d{1,5})\s*(s|m|h|d))?")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIMED = frozenset({StepKind.TIMEOUT, StepKind.SLOW, StepKind.BAN})
_NEEDS_TERM = frozenset({StepKind.TIMEOUT, StepKind.SLOW})


def read_step(text: str) -> Step:
    """Return the step that is written: `warn`, `timeout 1h`, `delete + timeout 1h`, `ban 7d`, `ask`.

    Raises:
        ValueError: It is none; says why.
    """
    parts = [_read_part(part.strip()) for part in text.lower().split("+")]
    kinds = [part.kind for part in parts]
    if len(parts) > 2 or (len(parts) == 2 and (StepKind.DELETE not in kinds or len(set(kinds)) < 2)):
        raise ValueError(f"step {text!r}: only delete goes together with another one, as in delete + timeout 1h")
    if len(parts) == 1:
        return parts[0]
    main = next(part for part in parts if part.kind is not StepKind.DELETE)
    if main.kind is StepKind.ASK:
        raise ValueError(f"step {text!r}: ask stands alone, for then a person decides")
    return Step(main.kind, main.term, delete=True)


def _read_part(text: str) -> Step:
    found = _PART.fullmatch(text)
    if found is None:
        raise ValueError(f"step {text!r}: write note, warn, delete, timeout 1h, slow 30s, kick, ban, ban 7d or ask")
    kind = StepKind(found[1])
    term = None if found[2] is None else timedelta(seconds=int(found[2]) * _UNITS[found[3]])
    if term is not None and (kind not in _TIMED or not term):
        raise ValueError(f"step {text!r}: {kind} takes no such term")
    if term is None and kind in _NEEDS_TERM:
        raise ValueError(f"step {text!r}: say for how long, as in {kind} 1h")
    return Step(kind, term)


def step_words(step: Step) -> str:
    """Return a step as it is written."""
    words = step.kind.value if step.term is None else f"{step.kind} {_term_words(step.term)}"
    return f"delete + {words}" if step.delete else words


def _term_words(term: timedelta) -> str:
    seconds = int(term.total_seconds())
    unit = next(unit for unit in "dhms" if not seconds % _UNITS[unit])
    return f"{seconds // _UNITS[unit]}{unit}"


def step_of(rule: Rule, strikes: int) -> Step:
    """Return what a rule has for the strike that this is; `ASK` where it has nothing, or what it may not do."""
    reached = [count for count in rule.ladder_steps if count <= strikes]
    step = rule.ladder_steps[max(reached)] if reached else ASK
    return step if step.kinds <= rule.actions else ASK


@dataclass(frozen=True, slots=True)
class Effect:
    """What a level means: whether a case is opened, the staff asked at once, and something done by itself."""

    case: bool
    card: bool
    acts: bool


def effect_of(level: Level) -> Effect:
    """Return what a level means; everything that decides, and every table that tells of it, asks here."""
    match level:
        case Level.OFF:
            return Effect(case=False, card=False, acts=False)
        case Level.OBSERVE:
            return Effect(case=True, card=False, acts=False)
        case Level.SUGGEST:
            return Effect(case=True, card=True, acts=False)
        case Level.ACT:
            return Effect(case=True, card=True, acts=True)
        case _:
            assert_never(level)


def acts_alone(rule: Rule, step: Step, *, level: Level, braked: bool) -> bool:
    """Return whether a step is done without a person: as the level was when the case began, and as it is now."""
    return effect_of(level).acts and effect_of(rule.level).acts and step.kind is not StepKind.ASK and not braked
