"""What may be said: each guard alone, and what the guards do together."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.chat.guards import (
    CUT_CHARS,
    LEAST_CUT_CHARS,
    TEXT_CHARS,
    Blocked,
    Guard,
    GuardContext,
    Guarded,
    guard,
    word_runs,
)
from core.chat.promises import Promises, read_promises
from core.chat.secrets import holds_secret
from core.domain.errors import Misconfigured

STOCK = Path(__file__).parents[2] / "prompts" / "stock" / "promises.md"
PROMISES = read_promises("prompts/stock/promises.md", STOCK.read_text(encoding="utf-8"))
SYSTEM = "You speak for a community that has asked you never to shout at night or before noon"
CONTEXT = GuardContext(
    system_runs=word_runs(SYSTEM),
    marker="abcdefghij23",
    own_messages=("The tea is ready.", "Only on Sunday!"),
    promises=PROMISES,
    memory_line="(nothing was kept)",
)


def refused(text: str) -> Guard | None:
    outcome = guard(text, CONTEXT)
    return outcome.guard if isinstance(outcome, Blocked) else None


def said(text: str, context: GuardContext = CONTEXT) -> str:
    outcome = guard(text, context)
    assert isinstance(outcome, Guarded)
    return outcome.text


@pytest.mark.parametrize(
    "text", ["", "  \n\t", "\u200b\u200d\ufeff", "\u2800\u3164", "\u0301", "<@123>", " @ana <@!5> "]
)
def test_a_text_in_which_nothing_is_said_is_empty(text: str) -> None:
    assert refused(text) is Guard.EMPTY


@pytest.mark.parametrize(
    "text",
    ["HEARTBEAT_OK", "**HEARTBEAT_OK**", "no_reply", "NO REPLY.", "[silence]", "SILENT", "`NO_REPLY`", "SCHWEIGEN!"],
)
def test_a_name_of_silence_alone_is_refused(text: str) -> None:
    assert refused(text) is Guard.SENTINEL


@pytest.mark.parametrize(
    "text", ["None.", "Pass", "Silence is golden.", "It printed HEARTBEAT_OK, so all is well.", "silent"]
)
def test_words_that_people_use_are_no_names_of_silence(text: str) -> None:
    assert said(text) == text


@pytest.mark.parametrize(
    "text", ["so ABCDEFGHIJ23 it is", "<<data qqqqqqqqqqqq m3>>", "well <<end qqqqqqqqqqqq>>", "x<<DATA QQQQQQQQQQQQ"]
)
def test_a_fence_marker_is_refused(text: str) -> None:
    assert refused(text) is Guard.FENCE_MARKER


def test_eight_words_of_the_system_part_are_an_echo() -> None:
    assert refused("I was told: a Community, that has asked YOU never to shout.") is Guard.PROMPT_ECHO


def test_seven_words_of_the_system_part_are_none() -> None:
    assert said("a community that has asked you never") == "a community that has asked you never"


def test_a_script_without_blanks_is_compared_sign_by_sign() -> None:
    context = GuardContext(system_runs=word_runs("你在这个社区里回答问题"))
    assert guard("我在这个社区里回答问题", context) == Blocked(Guard.PROMPT_ECHO)


@pytest.mark.parametrize("text", ["The tea is ready.", "the  TEA is\nready."])
def test_the_same_words_as_a_recent_message_are_a_repeat(text: str) -> None:
    assert refused(text) is Guard.REPEAT


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "a1" * 20,
        "sk-ant-" + "a1" * 20,
        "ghp_" + "a1" * 18,
        "github_pat_" + "a1" * 30,
        "glpat-" + "a1" * 10,
        "xoxb-" + "123-abc" * 4,
        "AKIA" + "A1" * 8,
        "AIza" + "a" * 35,
        "hf_" + "a" * 34,
        "npm_" + "a" * 36,
        "sk_live_" + "a" * 24,
        "eyJ" + "a" * 20 + ".eyJ" + "b" * 20 + "." + "c" * 20,
        "M" + "a" * 23 + "." + "b" * 6 + "." + "c" * 27,
        "123456789:" + "a" * 35,
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "Authorization: Bearer " + "a1b2" * 8,
        'api_key = "' + "a1b2" * 8 + '"',
        "postgresql://user:hunter22@db.example/x",
        "https://discord.com/api/webhooks/123456789012345678/" + "a" * 60,
    ],
    ids=lambda secret: secret[:12],
)
def test_the_shape_of_a_secret_is_refused(secret: str) -> None:
    assert refused(f"here it is: {secret} (keep it)") is Guard.SECRET


@pytest.mark.parametrize(
    "text",
    [
        "Set your token: it stands in the settings, under the third heading there.",
        "api_key = YOUR_API_KEY_GOES_HERE_PLEASE",
        "task-force and risk-averse, sk-8 and skating-competition-in-winter",
        "see https://example.org/a:b and mailto:ana@example.org at 12:30",
        "the hash is 5d41402abc4b2a76b9719d911017c592",
        "a bearer of good news",
    ],
)
def test_what_only_resembles_a_secret_is_said(text: str) -> None:
    assert not holds_secret(text)


def test_a_long_text_is_cut_at_a_paragraph() -> None:
    text = ("word " * 200 + "\n\n") * 8
    outcome = guard(text, CONTEXT)
    assert isinstance(outcome, Guarded)
    assert outcome.fired == (Guard.TOO_LONG,)
    assert LEAST_CUT_CHARS <= len(outcome.text) <= CUT_CHARS
    assert text.startswith(outcome.text + " \n\n")


@pytest.mark.parametrize("filler", ["word ", "line\n", "One. ", "x", "🎩", "e\u0301", "日本。"])
def test_a_long_text_without_paragraphs_is_cut_all_the_same(filler: str) -> None:
    assert LEAST_CUT_CHARS - 10 <= len(said(filler * 7000)) <= TEXT_CHARS


def test_a_cut_inside_code_closes_its_fence() -> None:
    assert said("intro\n\n```py\n" + "x = 1\n" * 1500 + "```").endswith("x = 1\n```")


def test_halves_of_a_character_are_joined_or_replaced() -> None:
    outcome = guard("a \ud83c\udfa9 b \ud83c c", CONTEXT)
    assert outcome == Guarded("a 🎩 b \ufffd c", (Guard.SURROGATES,))


PROMISED = [
    "I'll remember that!",
    "I’ll always remember your birthday.",
    "Sure, I will keep this in mind.",
    "I won't forget.",
    "I've noted that down.",
    "I have made a mental note.",
    "Noted!",
    "Okay, noted.",
    "I've added it to my memory.",
    "Ich merke mir das.",
    "Das merke ich mir.",
    "Ich werde es mir merken.",
    "Ich werde das nicht vergessen.",
    "Ich habe mir das notiert.",
    "Ist notiert.",
    "Je m'en souviendrai.",
    "Je ne l'oublierai pas.",
    "C'est noté !",
    "Je vais le retenir.",
    "J'en prends bonne note.",
    "Lo recordaré.",
    "No lo olvidaré.",
    "Voy a recordarlo.",
    "Tomo nota.",
    "Lo tendré en cuenta.",
]
NOT_PROMISED = [
    "I remember the film.",
    "Do you remember that day?",
    "I will not remember this.",
    "I can't keep that in mind for you.",
    "You should note that it rains.",
    "Noted authors wrote about it.",
    "Ich werde mir das nicht merken.",
    "Merk dir das bitte.",
    "Ich erinnere mich nicht.",
    "Je ne m'en souviendrai pas.",
    "Notez que c'est gratuit.",
    "No lo recordaré.",
    "No voy a recordarlo.",
    "Ten en cuenta que llueve.",
]


@pytest.mark.parametrize("sentence", PROMISED)
def test_a_promise_to_remember_is_replaced(sentence: str) -> None:
    outcome = guard(f"It rains today. {sentence} Take a coat.", CONTEXT)
    assert outcome == Guarded("It rains today. (nothing was kept) Take a coat.", (Guard.MEMORY_PROMISE,))


@pytest.mark.parametrize("sentence", NOT_PROMISED)
def test_what_is_no_promise_stays(sentence: str) -> None:
    assert said(f"It rains today. {sentence}") == f"It rains today. {sentence}"


def test_only_the_first_promise_leaves_a_line() -> None:
    assert said("I'll remember. It rains. I won't forget.") == "(nothing was kept) It rains."


def test_a_promise_stays_where_something_was_kept() -> None:
    assert said("I'll remember.", GuardContext(promises=None)) == "I'll remember."


def test_code_is_never_a_promise() -> None:
    text = "```py\nprint('I will remember')\n```"
    assert said(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\nlanguages: [en]\n---\n## de\n- x",
        "---\nlanguages: [en]\n---\n## en\nno patterns",
        "---\nlanguages: [xx]\n---\n## xx\n- x",
        "---\nlanguages: [en]\n---\n## en\n- (x",
    ],
)
def test_a_wrong_file_of_promises_stops_the_start(text: str) -> None:
    with pytest.raises(Misconfigured, match=r"promises\.md"):
        read_promises("promises.md", text)


WORDS = st.sampled_from(
    [*PROMISED, "I'll remember", "HEARTBEAT_OK", "\n\n", "\n", "```\n", "The tea is ready.", "sk-", "a1" * 30]
)
ANYTHING = st.lists(WORDS | st.text(max_size=9), max_size=60).map(" ".join) | st.text()


@given(ANYTHING)
def test_what_passed_once_passes_unchanged(text: str) -> None:
    once = guard(text, CONTEXT)
    if isinstance(once, Guarded):
        assert said(once.text) == once.text
        once.text.encode()


@given(ANYTHING, st.integers(0, 40))
@settings(max_examples=50)
def test_a_long_text_that_passed_passes_unchanged(text: str, times: int) -> None:
    once = guard((text + " ") * times * 20, CONTEXT)
    if isinstance(once, Guarded):
        assert said(once.text) == once.text


@pytest.mark.parametrize(
    "shape",
    ["eyJ", "sk-", "a:", "://", "I'll keep ", "ich werde ", "bearer ", "token=", "-----BEGIN ", "<<data ", "@", ". "],
)
def test_garbage_of_one_shape_is_guarded(shape: str) -> None:
    guard(shape * (100_000 // len(shape)), CONTEXT)
    holds_secret(shape * (100_000 // len(shape)))


def test_a_million_characters_of_garbage_are_guarded() -> None:
    draw = random.Random(7)
    shapes = [
        "eyJ",
        "sk-",
        "a:",
        "://",
        "I'll keep ",
        "ich werde ",
        "bearer ",
        "token=",
        "\n",
        ". ",
        "`",
        "**",
        "🎩",
        "\ud83c",
    ]
    guard("".join(draw.choice(shapes) for _ in range(250_000)), CONTEXT)


def test_patterns_are_tried_in_every_language() -> None:
    assert isinstance(PROMISES, Promises)
    assert all(PROMISES.occur_in(sentence) for sentence in PROMISED)
