"""Folding: what looks like a listed word is found, what only resembles one is not, and spans are of the original."""

import pytest

from core.moderation.fast.fold import Folded, fold, fold_word
from core.moderation.fast.phrases import read_phrases
from tests.moderation.watching import finding, rule, watched

WORD = "blockhead"
LISTED = rule("terms", words=(WORD, "wretch*", "lazy toad", "!van wretch", "sot"))
DISGUISES = {
    "capitals": "BlockHEAD",
    "wide letters": "ｂｌｏｃｋｈｅａｄ",
    "mathematical letters": "𝓫𝓵𝓸𝓬𝓴𝓱𝓮𝓪𝓭",
    "letters in circles": "ⓑⓛⓞⓒⓚⓗⓔⓐⓓ",
    "small capitals": "ʙʟᴏᴄᴋʜᴇᴀᴅ",
    "letters of flags": "🇧🇱🇴🇨🇰🇭🇪🇦🇩",
    "Cyrillic letters": "blосkhеаd",
    "Greek letters": "blοckheαd",
    "accents": "blöckhéåd",
    "stacked marks": "b̶̷l̴o̷c̸k̶h̷e̴a̶d̷",
    "nothing that can be seen": "block\u200bhe\u00adad\u2060",
    "another direction": "\u202dblockhead\u202c",
    "digits": "bl0ckh34d",
    "signs": "bl0ckhe@d",
    "a one for an l": "b1ockhead",
    "points between": "b.l.o.c.k.h.e.a.d",
    "spaces between": "b l o c k h e a d",
    "a hyphen inside": "block-head",
    "marks and signs": "b_l_0_c_k_h_3_4_d",
    "stretched": "blooooockheeeead",
    "edges": "«blockhead!!»",
}
HARMLESS = {
    "part of a longer word": "the blockheader of a chain, and unblockheaded",
    "two words of a sentence": "the block head of our street",
    "digits alone": "507 and 0 507",
    "an exception": "we saw Van Wretch on stage",
    "a word inside another": "a sottish resort",
    "letters of a list": "a, b, c, d and e, or b l o c k",
    "another word near it": "flockhead and blackhead",
}


@pytest.mark.parametrize("name", DISGUISES)
def test_a_listed_word_is_found_in_its_disguise(name: str) -> None:
    text = f"you are a {DISGUISES[name]} today"
    found = finding(LISTED, watched(text))
    assert found is not None and found.span is not None
    start, end = found.span
    assert text[start:end].strip("«»!\u202d\u202c") in DISGUISES[name]
    assert "you" not in text[start:end] and "today" not in text[start:end]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_resembles_a_listed_word_is_not_found(name: str) -> None:
    assert finding(LISTED, watched(HARMLESS[name])) is None


@pytest.mark.parametrize("text", ["WRETCHED", "you wretch", "L4zy T0ad", "lazy   toad!"])
def test_stems_and_phrases_are_found(text: str) -> None:
    assert finding(LISTED, watched(text)) is not None


def test_folding_twice_changes_nothing() -> None:
    every = "".join(
        map(chr, (*range(0xD800), *range(0xE000, 0x11000), *range(0x1D400, 0x1D800), *range(0x1F100, 0x1F200)))
    )
    assert fold(fold(every)) == fold(every)


def test_a_list_s_words_are_folded_like_the_text() -> None:
    assert fold_word("  Ä-Öl! ") == "a ol"


def test_spans_are_those_of_the_original_where_folding_makes_it_longer_or_shorter() -> None:
    text = "ﬃ ½ \u200b\u200b ß ｃａｔ!"
    folded = Folded(text)
    start, end = folded.span_of_reading("cat")
    assert text[start:end] == "ｃａｔ!"


@pytest.mark.parametrize("text", ["", " ", "\u200b", "...", "a", "\n\n", "😀" * 50, "a." * 3000, "a " * 3000, "\ud800"])
def test_whatever_is_written_can_be_folded(text: str) -> None:
    folded = Folded(text)
    assert len(folded.words) == len(folded.places)
    assert all(map(folded.span_of_reading, folded.all_words))


# Phrases

WAYS = read_phrases({"x": ["give|hand me? ~ key*", "ab cd"]})


@pytest.mark.parametrize(
    "text", ["give keys", "Hand me the keyring", "please GIVE me all of the k3ys now", "a-b c d ab, cd"]
)
def test_a_phrase_is_found_in_its_ways(text: str) -> None:
    assert list(WAYS.find(Folded(text)))


@pytest.mark.parametrize("text", ["give me one two three four keys", "give", "keys, give", "forgive keys", "cd ab"])
def test_other_words_are_no_phrase(text: str) -> None:
    assert not list(WAYS.find(Folded(text)))


@pytest.mark.parametrize("wrong", ["", "a b|", "~", "me?", "(", "a+b", "ab*", " ".join("abcdefghijklmn")])
def test_a_phrase_that_cannot_be_looked_for_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="x: "):
        read_phrases({"x": [wrong]})
