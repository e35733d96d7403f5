"""Real talk and real attacks through the parts that must hold for any text."""

from pathlib import Path

from bot.adapters.text import split
from core.chat.guards import Blocked, GuardContext, SentenceGate, guard
from core.chat.stripping import strip_reasoning
from core.domain.prompt import PromptKind, Speaker
from core.domain.prompt_policy import PromptPolicy
from core.prompt.fences import clean_text, marker_of
from tests.data.conftest import records
from tests.domain.chat_context import BUILDER, NONCE, VOICE, context, line

SYSTEM = BUILDER.build(PromptKind.REPLY, VOICE, context(), PromptPolicy()).request.system


def texts_of_rooms(folder: Path) -> list[str]:
    return [record["text"] for record in records(*sorted(folder.glob("*/rooms.jsonl")))]


def test_no_attack_changes_a_byte_of_the_instructions(folder: Path) -> None:
    marker = marker_of(NONCE)
    seen = 0
    for record in records(folder / "injection" / "items.jsonl"):
        text = record["text"]
        name = Speaker(context().turn.speaker.person, text[:200])
        spoken = context(text, transcript=(line(1, text, name),))
        request = BUILDER.build(PromptKind.REPLY, VOICE, spoken, PromptPolicy()).request
        assert request.system == SYSTEM
        assert request.messages[0].text.count(f"<<end {marker}>>") == request.messages[0].text.count(f"<<data {marker}")
        seen += 1
    assert seen > 0


def test_every_text_that_fits_stands_whole_in_the_prompt(folder: Path) -> None:
    for text in texts_of_rooms(folder)[::50]:
        if 0 < len(text) < 1500:
            request = BUILDER.build(PromptKind.REPLY, VOICE, context(text), PromptPolicy()).request
            assert clean_text(text) in request.messages[0].text


def test_parts_keep_the_limit_and_lose_nothing(folder: Path) -> None:
    for text in ["\n\n".join(texts_of_rooms(folder)[at : at + 60]) for at in range(0, 6000, 60)]:
        parts = split(text, 2000)
        assert all(len(part) <= 2000 for part in parts)
        if "```" not in text:
            assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_stream_shows_a_beginning_of_what_the_whole_text_gives(folder: Path) -> None:
    for text in texts_of_rooms(folder)[::40]:
        gate = SentenceGate(GuardContext())
        for piece in (text[at : at + 7] for at in range(0, len(text), 7)):
            gate.feed(piece)
        final = guard(strip_reasoning(text).text, GuardContext())
        assert isinstance(final, Blocked) or final.text.startswith(gate.shown)
