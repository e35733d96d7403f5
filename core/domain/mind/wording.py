"""Entries of the mind in words for a prompt: no scores, no ids, no times but relative ones. Pure."""

from datetime import datetime

from core.domain.mind.bodies import (
    Case,
    CaseStatus,
    Durable,
    Pressure,
    PressureItem,
    Profile,
    ShortTerm,
    Sleep,
    Thoughtful,
    Thread,
    Value,
)
from core.domain.mind.deriving import OVER_CHEWED
from core.domain.mind.entries import Entry
from core.domain.mind.speech import Candidate, CandidateStatus, Outcome, Receipt
from core.domain.mind.values import Target, TargetKind
from core.domain.relative import relative

ANCHOR_CHARS = 180
"""How long a memory in one line is at most."""
_HIGH, _MEDIUM = 0.7, 0.35
_CONFESSION = _NOVELTY = 0.6
_DAMPING = 0.5
_DESIRE = 0.65


def band(value: float) -> str:
    """Return a score in a word."""
    return "high" if value >= _HIGH else "medium" if value >= _MEDIUM else "low"


def identity_words(profile: Profile) -> str:
    """Return who the mind is, in one line."""
    pronouns = f" ({profile.pronouns})" if profile.pronouns else ""
    described = f": {one_line(profile.public_description)}" if profile.public_description else ""
    return f"{profile.public_name}{pronouns}{described}"


def sleep_words(sleep: Sleep, now: datetime) -> str:
    """Return whether the mind naps and until when. What it dreams of is made of rooms, and not said."""
    if not sleep.is_napping or (sleep.nap_ends_at is not None and sleep.nap_ends_at <= now):
        soon = sleep.next_nap_starts_at
        return "awake" if soon is None or soon <= now else f"awake; the next nap begins {relative(soon, now)}"
    if sleep.awake_until is not None and sleep.awake_until > now:
        return "awake for a while in the middle of a nap"
    ends = "" if sleep.nap_ends_at is None else f"; it ends {relative(sleep.nap_ends_at, now)}"
    return f"napping{ends}"


def pressure_words(pressure: Pressure) -> str:
    """Return how much the mind is drawn to speak."""
    words = [f"need to speak: {band(pressure.need_to_speak)}"]
    words += ["something wants to be confessed"] if pressure.confession_pressure >= _CONFESSION else []
    words += ["drawn to what is new"] if pressure.novelty_pressure >= _NOVELTY else []
    words += ["has spoken much of late"] if pressure.recent_speech_damping >= _DAMPING else []
    return "; ".join(words)


def label_of(entry: Entry, now: datetime, *, saturation: float = 0.0, short: bool = False) -> str:
    """Return code's words about an entry: what it is, since when, and how it stands."""
    body, when = entry.body, relative(entry.updated_at, now)
    match body:
        case Value():
            return f"value, priority {band(body.priority)}"
        case Case():
            watched = ", watched" if body.status is CaseStatus.WATCHING else ""
            return f"owed here{watched}, {relative(body.last_touched_at, now)}"
        case Receipt():
            said = "said here" if body.outcome is Outcome.SENT else "perhaps said here"
            return f"{said} {relative(body.sent_at, now)}"
        case Durable():
            words = ["memory in one line" if short else "memory", when]
            words += ["crystallized"] if body.crystallized else []
        case ShortTerm():
            words = ["note of the day", when]
        case Thread():
            words = ["thread", when, body.status.value.replace("_", " ")]
            words += ["wants to be said"] if (body.desire_to_speak or 0.0) >= _DESIRE else []
        case PressureItem():
            words = [f"{body.kind.value.replace('_', ' ')}, {band(body.intensity)}", when]
        case Candidate():
            words = [f"wants to be said: {body.kind.value.replace('_', ' ')}", body.status.value.replace("_", " ")]
            if body.status is CandidateStatus.DEFERRED and body.deferred_until is not None:
                words.append(f"until {relative(body.deferred_until, now)}")
        case _:
            return body.type.replace("_", " ")
    if isinstance(body, Thoughtful) and body.needs_review:
        words.append("needs review: some of its proof is gone")
    if saturation >= OVER_CHEWED:
        words.append("over-chewed")
    return ", ".join(words)


def text_of(entry: Entry, *, drafts: bool = False) -> str:
    """Return an entry in full; empty where it has no words. `drafts`: with the words that would be said."""
    body = entry.body
    match body:
        case Value():
            return f"{body.label}: {body.summary}" if body.summary else body.label
        case Case():
            return "\n".join(
                [body.summary, *([f"Matters because: {body.why_it_matters}"] if body.why_it_matters else [])]
            )
        case Receipt():
            return one_line(body.preview)
        case Candidate():
            return "\n".join([body.summary, *([f"Draft: {body.draft}"] if drafts else [])])
        case Durable() | ShortTerm() | Thread() | PressureItem():
            return _thought(body, body.topic if isinstance(body, Thread) else "")
    return ""


def one_line_of(entry: Entry) -> str:
    """Return a thought in one line of at most `ANCHOR_CHARS`; empty for anything else."""
    body = entry.body
    if not isinstance(body, Thoughtful):
        return ""
    about = _about(body.target)
    line = one_line(f"{about} {body.summary}" if about else body.summary)
    return line if len(line) <= ANCHOR_CHARS else line[: ANCHOR_CHARS - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """Return `text` without line breaks."""
    return " ".join(text.split())


def _thought(body: Thoughtful, topic: str) -> str:
    about = _about(body.target)
    lines = [f"{topic}: {body.summary}" if topic else body.summary]
    lines = [f"{about} {lines[0]}" if about else lines[0]]
    if body.claim or body.question:
        lines.append(f"Claim: {body.claim}" if body.claim else f"Question: {body.question}")
    lines += [f"Tension: {body.tension}"] if body.tension else []
    lines += [f"Next: {body.action_implication}"] if body.action_implication else []
    return "\n".join(lines)


def _about(target: Target) -> str:
    """Return what a thought is about, where that can be said without an id of ours."""
    if target.label:
        return f"[{target.label}]"
    return f"[{target.id}]" if target.kind in (TargetKind.REPO, TargetKind.ARCHIVE, TargetKind.LORE) else ""
