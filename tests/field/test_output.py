"""Reports from the field about what models return and people saw."""

import json

import pytest

from core.chat.drafts import BadDraft, DraftFault, DraftOutput, Parsed, parse_output
from core.chat.guards import Blocked, Guard, GuardContext, Guarded, SentenceGate, guard, word_runs
from core.chat.stripping import ReachBack, strip_reasoning

EMPTY = GuardContext()


def letter_by_letter(
    output: str, turn: str = "", reach_back: ReachBack = ReachBack.NEVER
) -> tuple[list[str], SentenceGate]:
    gate = SentenceGate(EMPTY, turn, reach_back)
    return [gate.shown for letter in output if gate.feed(letter)], gate


@pytest.mark.field("F006")
def test_a_line_full_of_marks_is_never_shown_in_pieces() -> None:
    line = "1. Fix (v1.2.3)! - fast, **very fast. Really**, see [the notes. All](https://example.org/a_b)."
    shown, gate = letter_by_letter(f"{line}\nAnd more. So")
    assert shown == [line, f"{line}\nAnd more."]
    assert gate.finish() == Guarded(f"{line}\nAnd more. So")


@pytest.mark.field("F008")
def test_halves_of_an_emoji_in_json_leave_text_that_can_be_encoded() -> None:
    outcome = parse_output('{"text": "ok \\ud83c\\udfa9 and \\ud83c!"}', structured=True)
    assert isinstance(outcome, Parsed)
    final = guard(outcome.text, EMPTY)
    assert isinstance(final, Guarded)
    assert final.text.encode() == "ok 🎩 and \ufffd!".encode()


@pytest.mark.field("F028")
@pytest.mark.parametrize(
    "output", ["", " \n ", "\u200b\u2060\ufeff", "<@1234567890>", "<think>only this</think>", "<think>only this"]
)
def test_an_answer_without_an_answer_is_a_value(output: str) -> None:
    assert guard(strip_reasoning(output).text, EMPTY) == Blocked(Guard.EMPTY)


@pytest.mark.field("F029")
@pytest.mark.parametrize(
    "output", ["HEARTBEAT_OK", "`HEARTBEAT_OK`", "NO_REPLY", "[silent]", "<think>fine</think>NO_REPLY", "SCHWEIGEN"]
)
def test_a_word_of_silence_is_never_said(output: str) -> None:
    assert guard(strip_reasoning(output).text, EMPTY) == Blocked(Guard.SENTINEL)
    assert letter_by_letter(f"{output}\n")[0] == []


@pytest.mark.field("F030")
@pytest.mark.parametrize(
    "output",
    [
        "<think>SECRET. They ask",
        "<think>SECRET.</think>Tea is ready. Come.",
        "<think>SECRET <think>SECRET</think> SECRET. And</think>Tea is ready. Come.",
        "<inner-monologue lang='en'>SECRET. And</inner-monologue>Tea is ready. Come.",
        "SECRET. They ask.</think>Tea is ready. Come.",
        "[THINK]SECRET. And[/THINK]Tea is ready. Come.",
        "<|channel|>analysis<|message|>SECRET. And<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Tea is ready. Come.",
    ],
)
def test_thinking_never_leaves_at_once_or_letter_by_letter(output: str) -> None:
    shown, gate = letter_by_letter(output, reach_back=ReachBack.ONCE)
    assert not any("SECRET" in text for text in shown)
    assert gate.finish() in (Guarded("Tea is ready. Come."), Blocked(Guard.EMPTY))


@pytest.mark.field("F030")
def test_a_quotation_of_a_tag_survives() -> None:
    turn = "why does my log say `<think>`?"
    answer = "Your model writes `<think>` before it thinks. The <think> tag is closed later."
    assert guard(strip_reasoning(answer, turn).text, EMPTY) == Guarded(answer)


@pytest.mark.field("F031")
def test_a_stream_that_is_cut_shows_whole_sentences_and_ends_with_what_came() -> None:
    shown, gate = letter_by_letter("The first one stands. The second one is cu")
    assert shown == ["The first one stands."]
    assert gate.finish() == Guarded("The first one stands. The second one is cu")


@pytest.mark.field("F032")
def test_the_former_line_is_refused_and_never_begins_to_show() -> None:
    context = GuardContext(own_messages=("So quiet here today! Anyone?",))
    gate = SentenceGate(context, reach_back=ReachBack.NEVER)
    assert [gate.feed(letter) for letter in "So quiet here today! Anyone?\n" if gate.feed(letter)] == []
    assert guard("So quiet  here today!\nANYONE?", context) == Blocked(Guard.REPEAT)


@pytest.mark.field("F032")
def test_a_piece_of_the_prompt_is_refused() -> None:
    context = GuardContext(system_runs=word_runs("Speak only when one of the open questions is close to an answer."))
    assert guard("Hm: speak only when one of the open questions is close!", context) == Blocked(Guard.PROMPT_ECHO)


DRAFT = '{"silence": null, "operations": [], "text": "Tea is ready."}'


@pytest.mark.field("F050")
@pytest.mark.parametrize(
    "output",
    [DRAFT, f"```json\n{DRAFT}\n```", f"<think>They ask for JSON.</think>{DRAFT}", f"They ask.</think>\n{DRAFT}"],
)
def test_typed_output_of_small_models_is_read(output: str) -> None:
    outcome = parse_output(output, structured=True)
    assert isinstance(outcome, Parsed)
    assert outcome.text == "Tea is ready."


@pytest.mark.field("F050")
@pytest.mark.parametrize(
    "output",
    [f"Sure! {DRAFT}", f"{DRAFT}\n\n{DRAFT}", DRAFT.replace("]", "],").replace(",,", ",")[:-1] + ",}", "Tea is ready."],
)
def test_typed_output_with_anything_around_it_is_asked_for_again(output: str) -> None:
    outcome = parse_output(output, structured=True)
    assert isinstance(outcome, BadDraft)
    assert (outcome.fault, outcome.note.path) == (DraftFault.BAD_JSON, "$")


@pytest.mark.field("F050")
def test_the_schema_said_back_is_asked_for_again() -> None:
    outcome = parse_output(json.dumps(DraftOutput.model_json_schema()), structured=True)
    assert isinstance(outcome, BadDraft)
    assert outcome.fault is DraftFault.SCHEMA_ECHO


@pytest.mark.field("F050")
def test_one_bad_operation_refuses_the_whole_draft() -> None:
    outcome = parse_output('{"operations": [{"operation": "a"}, "b"], "text": "Tea."}', structured=True)
    assert isinstance(outcome, BadDraft)
    assert outcome.note.path == "operations.1"
