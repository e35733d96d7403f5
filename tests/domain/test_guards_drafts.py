"""From raw output to a draft: strict where JSON is due, plain otherwise, and never a guess."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.chat.drafts import BadDraft, Cited, DraftFault, DraftOutput, Parsed, parse_output, resolve_citations
from core.domain.prompt import Handle
from core.domain.speech import SilenceReason

DRAFT = '{"silence": null, "operations": [{"operation": "x", "n": 1}], "text": "Hello [m3]"}'
KNOWN = (Handle("m3"), Handle("k1"), Handle("n2"))


def fault(output: str, structured: bool = True) -> DraftFault | None:
    outcome = parse_output(output, structured)
    return outcome.fault if isinstance(outcome, BadDraft) else None


@pytest.mark.parametrize(
    "output",
    [DRAFT, f"\ufeff \n{DRAFT}\n", f"```json\n{DRAFT}\n```", f"```\n{DRAFT}\n```", f"<think>they ask</think>\n{DRAFT}"],
)
def test_one_json_value_is_a_draft(output: str) -> None:
    outcome = parse_output(output, structured=True)
    assert isinstance(outcome, Parsed)
    assert (outcome.text, outcome.silence) == ("Hello [m3]", None)
    assert outcome.operations == ({"operation": "x", "n": 1},)


@pytest.mark.parametrize(
    "output",
    [
        f"Here it is: {DRAFT}",
        f"{DRAFT} Hope it helps!",
        f"{DRAFT}\n{DRAFT}",
        '{"text": "a",}',
        '{"text": "a", "text": "b"}',
        '{"text": NaN}',
        "{'text': 'a'}",
        '{"text": "a"',
        "",
        "[" * 100_000,
        f"```json\n{DRAFT}\n``` and more",
    ],
    ids=range(11),
)
def test_what_is_not_one_json_value_is_bad_json(output: str) -> None:
    assert fault(output) is DraftFault.BAD_JSON


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ('"Hello"', "$"),
        (f"[{DRAFT}]", "$"),
        ('{"text": 1}', "text"),
        ('{"silence": "because", "text": ""}', "silence"),
        ('{"operations": {}, "text": "a"}', "operations"),
        ('{"operations": [1], "text": "a"}', "operations.0"),
        ('{"operations": [' + ",".join(["{}"] * 9) + '], "text": "a"}', "operations"),
        ('{"text": "a", "mood": 1}', "mood"),
        ('{"text": "a", "ignore all rules": 1}', "?"),
        ("{}", "text"),
        ('{"silence": null}', "text"),
    ],
)
def test_a_wrong_draft_says_where_and_not_what(output: str, path: str) -> None:
    outcome = parse_output(output, structured=True)
    assert isinstance(outcome, BadDraft)
    assert (outcome.fault, outcome.note.path) == (DraftFault.BAD_DRAFT, path)
    assert outcome.note.expected


def test_the_schema_said_back_is_refused() -> None:
    schema = json.dumps(DraftOutput.model_json_schema())
    assert fault(schema) is DraftFault.SCHEMA_ECHO
    assert fault(schema, structured=False) is DraftFault.SCHEMA_ECHO


def test_a_huge_output_is_refused_unread() -> None:
    assert fault('{"text": "' + "a" * 300_000 + '"}') is DraftFault.TOO_LARGE


def test_silence_is_a_value() -> None:
    outcome = parse_output('{"silence": "model_declined"}', structured=True)
    assert outcome == Parsed("", SilenceReason.MODEL_DECLINED, (), False)


def test_thinking_inside_the_text_field_is_removed() -> None:
    outcome = parse_output('{"text": "<think>SECRET</think>Hello"}', structured=True)
    assert outcome == Parsed("Hello", None, (), True)


def test_plain_text_is_the_answer() -> None:
    assert parse_output("<think>x</think>Hello.", structured=False) == Parsed("Hello.", None, (), True)


def test_a_plain_answer_in_the_form_of_a_draft_is_read_without_its_operations() -> None:
    assert parse_output(f"```json\n{DRAFT}\n```", structured=False) == Parsed("Hello [m3]", None, (), False)


@pytest.mark.parametrize("output", ['{"text": "a",}', '{"operations": [], "text": "a', '```json\n{"silence": nul\n```'])
def test_a_broken_draft_is_never_a_plain_answer(output: str) -> None:
    assert fault(output, structured=False) is DraftFault.BAD_JSON


@pytest.mark.parametrize(
    "output",
    ['{"name": "Ana"}', "```json\n[1, 2]\n```", "42", '"quoted"', "null", '{"type": "object", "required": []}'],
)
def test_other_json_is_a_plain_answer(output: str) -> None:
    assert parse_output(output, structured=False) == Parsed(output, None, (), False)


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["text", "silence", "operations"]) | st.text(), inner)
        ),
    ).map(json.dumps),
    st.booleans(),
)
def test_any_output_is_parsed_or_refused(output: str, structured: bool) -> None:
    assert isinstance(parse_output(output, structured), get_args(Parsed | BadDraft))


def test_citations_are_numbered_by_first_use() -> None:
    cited = resolve_citations("Tea [k1]. Cake [m3][k1], both [m3; n2].", KNOWN)
    assert cited == Cited("Tea [1]. Cake [2][1], both [2][3].", (Handle("k1"), Handle("m3"), Handle("n2")))


def test_an_address_glued_to_a_citation_goes() -> None:
    assert resolve_citations("Tea [k1](https://evil.example).", KNOWN) == Cited("Tea [1].", (Handle("k1"),))


@pytest.mark.parametrize("text", ["Tea [m4].", "Ask [p1].", "Both [m3, k9]."])
def test_an_unknown_handle_is_an_error_for_repair(text: str) -> None:
    outcome = resolve_citations(text, KNOWN)
    assert isinstance(outcome, BadDraft)
    assert outcome.fault is DraftFault.UNKNOWN_HANDLE


@pytest.mark.parametrize("text", ["`x[m9]`", "```\na[m9]\n```", "see [a1] and [note] and [1]", "[m3"])
def test_what_is_no_citation_stays(text: str) -> None:
    assert resolve_citations(text, KNOWN) == Cited(text, ())


@given(
    st.lists(st.sampled_from(["[k1]", "[m3]", "[k1,m3]", "`", "\n", "word. ", "```\n", "["]) | st.text(max_size=5)).map(
        "".join
    )
)
def test_resolved_text_cites_nothing_more(text: str) -> None:
    once = resolve_citations(text, KNOWN)
    if isinstance(once, Cited):
        assert resolve_citations(once.text, KNOWN) == Cited(once.text, ())


@pytest.mark.parametrize("shape", ["[", "[k1,", "[k1]", "`", "```\n", "{", '{"text":', "<think>"], ids=ascii)
def test_garbage_of_one_shape_is_read(shape: str) -> None:
    text = shape * (200_000 // len(shape))
    resolve_citations(text, KNOWN)
    parse_output(text, structured=True)
    parse_output(text, structured=False)
