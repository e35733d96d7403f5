"""Contexts for prompts, made of plain values."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.prompt import (
    Fact,
    Line,
    Passage,
    Provenance,
    Recollection,
    RequestContext,
    RoomCard,
    Speaker,
    Standing,
)
from core.domain.rooms import RoomKind, RoomMode
from core.prompt.builder import PromptBuilder
from core.prompt.catalog import Catalog, load_catalog

ROOT = Path(__file__).parents[2]
CATALOG: Catalog = load_catalog(ROOT)
VOICE = CATALOG.roles["voice"]
BUILDER = PromptBuilder(CATALOG.templates)

NOW = datetime(2026, 3, 10, 19, 30, tzinfo=UTC)
HERE = RoomId(7)
HERE_ONLY = Provenance(audience=frozenset({HERE}))
ANA = Speaker(PersonId(11), "Ana")
BO = Speaker(PersonId(12), "Bo", Standing.ADMIN)
BOT = Speaker(None, "VoidBot", Standing.YOU)
NONCE = bytes(range(16))


def line(number: int, text: str, speaker: Speaker = ANA, minutes: float = 5, **more: object) -> Line:
    """A message of this room, `minutes` before now."""
    made = Line(MessageId(number), speaker, NOW - timedelta(minutes=minutes), text, HERE_ONLY)
    return replace(made, **more)  # type: ignore[arg-type]  # the fields of Line, by name


def talk(count: int, text: str = "so it goes") -> tuple[Line, ...]:
    """A talk of `count` messages, the last one a minute old."""
    return tuple(
        line(number, f"{text} {number}", (ANA, BO)[number % 2], count - number + 1) for number in range(1, count + 1)
    )


def context(text: str = "When do we meet?", /, **fields: object) -> RequestContext:
    """A context with this question and these fields."""
    made = RequestContext(
        turn=line(900, text, minutes=0),
        room=RoomCard(HERE, RoomKind.CHANNEL, RoomMode.MENTION, "en", "general", "Everything"),
        readable=frozenset({HERE}),
        now=NOW,
        tz=ZoneInfo("Europe/Berlin"),
        nonce=NONCE,
        persona=CATALOG.personas["warm"],
        settings_version=3,
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # the fields of RequestContext, by name


def full_context() -> RequestContext:
    """One of everything, small enough to fit whole."""
    return context(
        rules=("Be kind.", "No spoilers before Monday."),
        self_view=(Recollection("thread:2", "thread", "The move to the new server is unfinished.", 0.5, HERE_ONLY),),
        memories=(Recollection("memory:5", "memory", "Ana leads the Friday meeting.", 0.9, HERE_ONLY),),
        person=(Fact(ANA, "I live in Graz.", MessageId(300), NOW - timedelta(days=30), HERE_ONLY),),
        passages=(Passage("u41", BO, NOW - timedelta(days=3), "planning", "We meet on Friday at five.", HERE_ONLY),),
        chain=(line(850, "Shall we meet this week?", BO, 40),),
        transcript=(
            line(880, "I can bring the projector.", BO, 12, to=PersonId(11), notes=("[image: plan.png, 1.2 MB]",)),
            line(881, "Noted, thanks.", BOT, 11),
        ),
        read="Friendly; the date is open.",
    )


def everything_huge(count: int = 40, chars: int = 4_096) -> Mapping[str, object]:
    """Fields of a context in which every section is far too large."""
    text = ("Words upon words, and then some more of them. " * (chars // 40 + 1))[:chars]
    return {
        "self_view": tuple(Recollection(f"t{n}", "thread", text, n, HERE_ONLY) for n in range(count)),
        "memories": tuple(Recollection(f"m{n}", "memory", text[:300], n, HERE_ONLY) for n in range(count)),
        "person": tuple(Fact(ANA, text[:200], MessageId(n + 1), NOW, HERE_ONLY) for n in range(count)),
        "passages": tuple(Passage(f"u{n}", BO, NOW, "planning", text, HERE_ONLY) for n in range(count)),
        "chain": tuple(line(5_000 + n, text, BO) for n in range(count)),
        "transcript": tuple(line(1_000 + n, text, minutes=count - n) for n in range(count)),
        "read": text[:400],
    }
