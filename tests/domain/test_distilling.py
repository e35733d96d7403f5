"""What a distilled memory may leave out without a word, and what not."""

from typing import Any

import pytest

from core.domain.distilling import Loss, compared, concrete_tokens, labels_of, loss_wall, losses, part_id, parts
from core.domain.mind.codes import RejectionCode
from core.domain.mind.facts import Similarity
from core.domain.mind.values import Thought
from tests.domain.minds import make_thought, read

REPO = {"kind": "repo", "id": "routes", "label": "the bus map"}
NOTES = {
    "seam:cut": make_thought(
        target=REPO,
        claim="src/parser.py drops 14 of 60 stops because `min_rows` is 3.",
        tension="Ana wants every stop shown, Bo only those that are served.",
    ),
    "seam:slow": make_thought(
        target=REPO,
        claim='@bo measured 40 seconds at "cold start" on the bus map.',
        tension="A cache makes the start fast and the tiles old.",
    ),
    "seam:ferry": make_thought(
        target=REPO,
        claim="The ferry timetable of 2025 is read as 2024.",
        tension="The feed gives no year, and guessing it fails in January.",
    ),
}
WHOLE: dict[str, Any] = {
    "target": REPO,
    "summary": "What keeps the bus map from being trusted.",
    "claim": (
        "src/parser.py drops 14 of 60 stops as `min_rows` is 3; @bo measured 40 seconds at cold start; "
        "the ferry timetable of 2025 is read as 2024."
    ),
    "tension": (
        "Ana wants every stop shown, Bo only those served; a cache makes the start fast and the tiles old; "
        "the feed gives no year."
    ),
}
SLOGAN: dict[str, Any] = {"claim": "Maps must be made with care.", "tension": "Care takes time."}
LETTERS = Similarity()


def lost(similarity: Similarity = LETTERS, **more: Any) -> set[Loss]:
    """What is lost of all notes."""
    return set(losses("durable:map", make_thought(**(WHOLE | more)), NOTES, similarity))


def test_a_memory_that_says_what_its_notes_said_loses_nothing() -> None:
    assert lost() == set()


def test_a_slogan_made_of_three_concrete_notes_loses_matter_tokens_and_length() -> None:
    assert lost(**SLOGAN) == {Loss.MATTER, Loss.TOKENS, Loss.LENGTH}


def test_another_target_is_a_loss_but_its_spelling_and_label_are_not() -> None:
    assert lost(target={"kind": "repo", "id": "audio"}) == {Loss.TARGET}
    assert lost(target={"kind": "repo", "id": "Routes"}) == set()


def test_one_note_of_which_nothing_is_left_is_a_loss() -> None:
    without = WHOLE["claim"].partition("; the ferry")[0] + ", which is why nobody trusts the plan."
    assert lost(claim=without, tension=WHOLE["tension"].partition("; the feed")[0]) == {Loss.MATTER}


def test_a_note_is_still_there_as_long_as_its_claim_or_its_tension_is() -> None:
    without = WHOLE["claim"].partition("; the ferry")[0] + "."
    kept = "The feed gives no year, and guessing it fails in January; a cache makes the start fast and the tiles old."
    assert lost(claim=without, tension=kept) == set()


def test_scores_of_an_embedder_say_which_note_is_gone() -> None:
    ids = {part_id(note, part): text for note in NOTES for part, text in parts(NOTES[note]).items()}
    scores = {("durable:map", id_): 0.1 if id_.startswith("seam:slow") else 0.7 for id_ in ids}
    assert lost(Similarity("given", scores)) == {Loss.MATTER}
    scores["durable:map", part_id("seam:slow", "tension")] = 0.41
    assert lost(Similarity("given", scores)) == set()


def test_half_of_what_is_concrete_is_enough() -> None:
    note = {"seam:numbers": make_thought(claim="We saw 11, 22, 33 and 44 of them in the long list of all the stops.")}
    for claim, found in (("We saw 11 and 22 of them in the long list of all the stops.", ()),
                         ("We saw 11 of them in the long list of all the stops.", (Loss.TOKENS,))):  # fmt: skip
        assert losses("durable:n", make_thought(claim=claim), note, LETTERS) == found


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It takes 40 seconds, or 1.5 minutes.", {"40", "1.5"}),
        ("Version v2.1.3 and issue #57.", {"2.1.3", "57"}),
        ("Run `make test` twice.", {"make test"}),
        ('He said "never again" and „nie wieder“ and «jamais».', {"never again", "nie wieder", "jamais"}),
        ("They don't know Ana's or Bo's plan.", set()),
        (
            "Look into src/graph/nodes.py and README.md and /etc/hosts.",
            {"src/graph/nodes.py", "readme.md", "/etc/hosts"},
        ),
        ("and/or, e.g. this one, i.e. that", set()),
        ("Ask @ana.lee, not bo@example.", {"@ana.lee"}),
        ("`src/graph2.py` has 3 faults", {"src/graph2.py", "3"}),
        ("The Bus Map and routes stand still, busmaps do not.", {"the bus map", "routes"}),
    ],
)
def test_concrete_are_numbers_quotes_code_paths_names_and_labels(text: str, tokens: set[str]) -> None:
    source = read(Thought, target=REPO, summary="s", question=text)
    assert concrete_tokens(source, labels_of([source])) == tokens


def test_a_number_is_not_found_within_another() -> None:
    note = {"seam:n": make_thought(claim="There are 4 faults in the long list of stops that were seen.")}
    claim = "There are 14 faults, or 4.5, in the long list of stops that were seen."
    assert losses("durable:n", make_thought(claim=claim), note, LETTERS) == (Loss.TOKENS,)


def test_a_loss_wants_a_note_of_its_own_words() -> None:
    result, reason = make_thought(**(WHOLE | SLOGAN)), "the notes were too long for the map"
    found = losses("durable:map", result, NOTES, LETTERS)
    assert loss_wall((), result, None, reason, "lossNote") is None
    assert loss_wall(found, result, "Numbers went, for they change weekly.", reason, "lossNote") is None
    for note in (None, result.claim, f"  {result.summary.upper()}", reason):
        refused = loss_wall(found, result, note, reason, "lossNote")
        assert refused is not None and refused.code is RejectionCode.LOSS_UNEXPLAINED


def test_the_text_of_a_memory_is_all_that_it_says() -> None:
    result = make_thought(claim=None, question="Which one?")
    assert compared(result).split("\n") == [
        result.summary, "Which one?", result.tension, result.action_implication,
    ]  # fmt: skip
