"""Who is spoken to, by name or mention."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.adapters.addressing import Names, addressed_by_text, spoken
from core.domain.messages import Address

NAME, MENTION = Address.NAME, Address.MENTION


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("void, when do we open?", {NAME}),
        ("When do we open, VoidBot?", {NAME}),
        ("hey (void) are you there", {NAME}),
        ("one two three four void six seven eight nine ten", {NAME}),
        ("thanks—void", {NAME}),
        ("void, where is the key?", {NAME}),
        ("@void when do we open?", {MENTION}),
        ("one two three four five six @voidbot eight nine ten eleven twelve thirteen", {MENTION}),
        ("@void and void", {MENTION, NAME}),
        ("when do we open?", set()),
        ("avoid the devoid", set()),
        ("void's answer was odd", set()),
        ("the void-bot of old", set()),
        ("write to me@void please", set()),
        ("see void.example.org for more", set()),
        ("@voidance", set()),
        ("@everyone @here look", set()),
        ("one two three four five six void eight nine ten eleven twelve", set()),
    ],
)
def test_a_name_counts_at_word_boundaries_near_the_edges(text: str, expected: set[Address]) -> None:
    assert addressed_by_text(text, Names()) == expected


@pytest.mark.parametrize(
    "text",
    [
        "`void` is a keyword",
        "what does ``void `x` @void`` do",
        "```c\nvoid main()\n@void\n```",
        "~~~\n@void",
        "> @void when do we open?\nI wonder too",
        'Ann wrote "@void, hello" to me',
        "Ann wrote “void, hello” to me",
        "Ann schrieb „void, hallo“ an mich",
        f"Ann wrote “{'so ' * 300}void, hello” to me",
        "Ann a écrit «void, bonjour» à moi",
        f"[void](https://example.org/{'a' * 900}) is a page",
        f"`{'so ' * 300}void`",
        "look at https://example.org/@void",
        "look at www.example.org/void/void",
        "[void](https://example.org) is a page",
        "![@void](https://example.org/a.png)",
    ],
)
def test_code_quotes_and_links_never_address(text: str) -> None:
    assert addressed_by_text(text, Names()) == frozenset()


def test_an_address_outside_a_code_block_still_counts() -> None:
    assert addressed_by_text("void, what does `void` mean?", Names()) == {NAME}


@pytest.mark.parametrize("text", ["I stared into the void", "null and void", "void of meaning", "This leaves a void"])
def test_a_phrase_in_which_the_name_is_a_word_does_not_count(text: str) -> None:
    assert addressed_by_text(text, Names()) == frozenset()


def test_names_and_phrases_are_settings() -> None:
    names = Names(("Ferro",), {"ferro": ("ferro concrete",)})
    assert addressed_by_text("ferro, hello", names) == {NAME}
    assert addressed_by_text("ferro concrete is heavy", names) == frozenset()
    assert addressed_by_text("void, hello", names) == frozenset()


def test_unclosed_marks_do_not_hide_an_address() -> None:
    assert addressed_by_text('a 5" board, void?', Names()) == {NAME}
    assert addressed_by_text("a ` tick, void?", Names()) == {NAME}


@pytest.mark.parametrize(
    "text",
    [
        "[ hm, void [page](https://x.example)",
        "[a]( hm, void [b](https://x.example)",
        "“ hm, void, “yes”",
        "„ hm, void, „ja“",
        "« hm, void, «oui»",
    ],
)
def test_an_open_mark_hides_nothing_before_the_next_one(text: str) -> None:
    assert addressed_by_text(text, Names()) == {NAME}


@given(st.text())
def test_any_text_is_judged_without_an_error(text: str) -> None:
    assert addressed_by_text(text, Names()) <= {NAME, MENTION}


@given(st.text(alphabet="`'\"<>[]()~ \n\\ab"))
def test_marks_alone_never_address(text: str) -> None:
    assert addressed_by_text(text, Names()) == frozenset()


@pytest.mark.parametrize("piece", ["a", "`", "[", "a.", "www.", "\u201e", "> ", "``` ", "a:/", "@"])
def test_hostile_lengths_are_read_at_their_ends_only(piece: str) -> None:
    text = piece * (256_000 // len(piece))
    assert addressed_by_text(f"void, look\n{text}", Names()) == {Address.NAME}
    assert addressed_by_text(f"{text}@void{text}", Names()) == frozenset()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ["[", "“", "„", "«", "[](", "`", "~", "` ``` `` "])
def test_a_row_of_opening_marks_is_read_once(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    assert spoken(f"{text}void").endswith("void")
