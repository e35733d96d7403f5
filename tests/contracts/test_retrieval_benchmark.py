"""The retrieval benchmark over a tiny set of our own: it counts as it says, and names what is malformed."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.retrieval import Asked, Malformed, Question, figures, questions
from tests.contracts.test_benchmarks import run

TALK = (
    ("ida", "Has anybody seen the kiln gloves?"),
    ("ben", "On the hook behind the glaze shelf."),
    ("ida", "Found them, thanks."),
    ("cem", "The clay order comes on Thursday."),
    ("ben", "Then I will clear the cellar on Wednesday."),
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A set of one room with two questions, and one that nothing answers."""
    start = datetime(2026, 5, 1, 9, tzinfo=UTC)
    rows = [
        {"room": "kiln", "message_id": f"m{n}", "author": author, "ts": (start + timedelta(minutes=n)).isoformat(),
         "text": text, "reply_to": None, "session": None, "caption": None}
        for n, (author, text) in enumerate(TALK)
    ]  # fmt: skip
    asked = [
        {"room": "kiln", "question_id": f"q{n}", "question": text, "asked_at": None, "answer": "never read",
         "category": category, "evidence": evidence}
        for n, (text, category, evidence) in enumerate([
            ("Where are the kiln gloves?", "single-hop", ["m1"]),
            ("When does the clay order come?", "multi-hop", ["m3"]),
            ("What did the abbot say?", "adversarial", ["m1"]),
            ("Who sings?", "single-hop", []),
        ])
    ]  # fmt: skip
    folder = tmp_path / "pottery"
    folder.mkdir()
    for name, lines in (("rooms.jsonl", rows), ("questions.jsonl", asked)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


async def test_a_set_is_imported_indexed_and_asked(data: Path, fresh_dsn: str) -> None:
    printed = await run("benchmarks.retrieval", "--data", str(data), "--lexical-only", "--database-url", fresh_dsn)
    line = json.loads(printed)
    assert (line["set"], line["n"], line["r_at_5"], line["all_at_20_multi_hop"]) == ("pottery", 2, 1.0, 1.0)
    assert line["config"]["model"] is None and line["query_ms_p50"] > 0


def test_figures_are_means_over_questions() -> None:
    def asked(evidence: tuple[str, ...], found: tuple[str, ...], category: str) -> Asked:
        question = Question(
            room="r", question_id="q", question="?", asked_at=None, category=category, evidence=evidence
        )
        return Asked(question, found, 0.01)

    line = figures("s", [asked(("a", "b"), ("x", "a"), "multi-hop"), asked(("c",), ("c",), "other")], {})
    assert (line["r_at_10"], line["hit_at_10"], line["p_at_10"], line["all_at_20_multi_hop"]) == (0.75, 1.0, 0.1, 0.0)


def test_a_question_that_is_malformed_is_named_by_file_and_line(data: Path) -> None:
    file = data / "questions.jsonl"
    file.write_text(file.read_text(encoding="utf-8") + '{"room": "kiln"}\n', encoding="utf-8")
    with pytest.raises(Malformed, match=r"questions\.jsonl:5"):
        questions(file)
    with pytest.raises(Malformed, match="cannot be read"):
        questions(data / "none.jsonl")
