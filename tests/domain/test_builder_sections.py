"""How one section is cut to its share."""

from hypothesis import given
from hypothesis import strategies as st

from core.domain.prompt import Provenance
from core.prompt.material import ends_first
from core.prompt.sections import CAPS, Cut, Item, Part, allot, cut_middle, cut_sentences, fit, item_of
from core.prompt.tokens import FAMILIES, Meter

METER = Meter(FAMILIES["default"], bytes_per_token=7.5)
FRAME = 5


def item(header: str, body: str) -> Item:
    return item_of(METER, header, body, (), Provenance(), 100_000)


def talk(*bodies: str, headers: tuple[str, ...] = (), cut: Cut = Cut.MIDDLE) -> Part:
    """A section whose newest item, the last, is kept longest, and of which four stay."""
    names = headers or tuple(f"<<{number}>>" for number in range(len(bodies)))
    items = tuple(map(item, names, bodies))
    order = tuple(reversed(range(len(items))))
    return Part("transcript", items, order, FRAME, cut, floor=4, shares=4)


def test_what_fits_is_left_alone() -> None:
    part = talk("short", "word " * 900)
    assert fit(part, part.need, METER).items == part.items
    assert fit(part, part.need - 1, METER).trimmed


def test_one_long_line_does_not_crowd_out_the_talk() -> None:
    part = talk(*["a short line"] * 30, "word " * 2_000)
    fitted = fit(part, 400, METER)
    assert len(fitted.items) > 15
    assert "characters left out" in fitted.items[-1].body


def test_lines_that_stay_leave_each_other_their_least() -> None:
    wordy = "<<" + "header " * 60 + ">>"
    part = talk(*["word " * 500] * 4, headers=(wordy, "<<b>>", "<<c>>", "<<d>>"))
    share = part.least(METER)
    fitted = fit(part, share, METER)
    assert len(fitted.items) == 4
    assert FRAME + sum(kept.cost for kept in fitted.items) <= share


def test_a_share_without_room_for_the_frame_keeps_nothing() -> None:
    assert fit(talk("a"), FRAME, METER).items == ()
    assert fit(talk("a"), 0, METER).dropped == 1


def test_items_that_are_never_cut_make_way_for_smaller_ones() -> None:
    part = Part("memories", (item("<<a>>", "word " * 500), item("<<b>>", "small")), (0, 1), FRAME)
    assert fit(part, 60, METER).items == part.items[1:]


def test_the_ends_of_a_chain_outlast_its_middle() -> None:
    assert [ends_first(count) for count in (0, 1, 2)] == [(), (0,), (1, 0)]
    assert ends_first(5) == (4, 0, 3, 1, 2)
    assert ends_first(6) == (5, 0, 4, 1, 3, 2)


def test_a_passage_ends_with_a_whole_sentence() -> None:
    text = "This sentence says one thing. " * 200
    cut = cut_sentences(text, 100, METER)
    assert cut.split("\n[… ")[0].endswith("one thing.")
    assert METER.cost(cut.split("\n[… ")[0]) > 80


def test_a_section_of_passages_is_cut_at_sentences_not_in_the_middle() -> None:
    body = "This sentence says one thing. " * 200
    part = Part("passages", (item("<<k>>", body),), (0,), FRAME, Cut.SENTENCES, least_body=40)
    (kept,) = fit(part, 200, METER).items
    assert kept.body.split("\n")[0].endswith("one thing.")
    assert kept.body.endswith("characters left out …]")


def test_a_passage_without_sentences_is_cut_where_the_budget_ends() -> None:
    cut = cut_sentences("word " * 500, 100, METER)
    assert METER.cost(cut.split("\n[… ")[0]) == 100


def test_a_passage_is_never_cut_below_forty_tokens() -> None:
    text = "Short. " + "word " * 500
    assert METER.cost(cut_sentences(text, 60, METER).split("\n[… ")[0]) >= 40
    part = Part("passages", (item("<<k>>", text),), (0,), FRAME, Cut.SENTENCES, least_body=40)
    assert fit(part, FRAME + 45, METER).items == ()


@given(st.text(st.characters(exclude_categories=()), max_size=400), st.integers(0, 300))
def test_a_text_cut_in_the_middle_says_how_much_is_missing(text: str, budget: int) -> None:
    cut = cut_middle(text, budget, METER)
    head = METER.head(text, int(budget * 0.7))
    if cut != text:
        missing = int(cut[len(head) :].split()[1])
        tail = text[len(head) + missing :]
        assert cut == f"{head}\n[… {missing} characters left out …]\n{tail}"
        assert METER.cost(head) + METER.cost(tail) <= budget


def filled(name: str, tokens: int, floor: int = 0) -> Part:
    return Part(name, (item("<<h>>", "word " * tokens),), (0,), FRAME, Cut.MIDDLE, floor)


def test_what_others_leave_flows_to_passages_first_then_to_the_talk() -> None:
    parts = [filled(name, 5_000) for name in ("memories", "passages", "transcript")] + [filled("turn", 10, 1)]
    shares = allot(parts, 8_000, 1.0, METER)
    assert shares["passages"] == parts[1].need
    assert shares["transcript"] > CAPS["transcript"]
    assert shares["memories"] == CAPS["memories"]
    assert sum(shares.values()) == 8_000


@given(st.lists(st.integers(1, 4_000), min_size=len(CAPS), max_size=len(CAPS)), st.integers(2_000, 20_000))
def test_shares_never_exceed_the_room(sizes: list[int], room: int) -> None:
    parts = [filled(name, size, int(name == "turn")) for name, size in zip(CAPS, sizes, strict=True)]
    shares = allot(parts, room, 1.0, METER)
    assert sum(shares.values()) <= room
    assert all(shares[part.name] <= part.need for part in parts)
