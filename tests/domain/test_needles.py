"""Needles in a stream: found whatever is around them, however they are written, and wherever the pieces break."""

import json

from hypothesis import given
from hypothesis import strategies as st

from core.domain.needles import TEXT_CHARS, Needles, Stream, forms

TEXT = 'the safe opens with "copperfox"\nand the back door\twith \\blue\\ keys'
LONG = st.text(alphabet=st.sampled_from('ab \n"\\é日本.-'), min_size=TEXT_CHARS, max_size=90)


def copied(text: str) -> str:
    for raw, written in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r"), ("\b", "\\b"), ("\f", "\\f")):
        text = text.replace(raw, written)
    return text


@given(LONG, st.text(alphabet="ab .\n", max_size=30), st.integers(1, 50))
def test_a_text_is_found_in_every_form_and_at_every_break(text: str, around: str, size: int) -> None:
    as_json = json.dumps({"a": text}, ensure_ascii=False)
    for written in (text, copied(text), as_json, copied(as_json)):
        stream = Stream(Needles(forms(text)))
        data = f"{around}.{written}.{around}".encode()
        for at in range(0, len(data), size):
            stream.feed(data[at : at + size])
        assert stream.found


def test_many_texts_are_told_apart() -> None:
    texts = [f"message number {n} speaks of the lamp in the hall, at length" for n in range(200)]
    needles = Needles(form for text in texts for form in forms(text))
    found = needles.find(f"...{texts[7]}... {texts[150]}".encode())
    assert {needles[number].decode() for number in found} == {texts[7], texts[150]}
    assert Needles(forms(TEXT)).find(TEXT[:-1].encode()) == set()


def test_short_texts_are_not_looked_for() -> None:
    assert forms("yes, of course") == frozenset()


def test_an_id_counts_only_as_a_word_of_its_own() -> None:
    needles = Needles([], [b"4711", b"dm:ana"])
    assert needles.find(b"x\t4711\ty") == {0} and needles.find(b"<@4711>") == {0}
    assert needles.find(b"14711 47112 a4711") == set()
    assert needles.find(b"in dm:ana") == {1}
