"""What a reply proposes to the mind: decided on with the reply, owned up to by code, never claimed in vain."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bot.search_settings import SearchSettings
from core.domain.prompt import ModelRequest
from core.ports import Embedder
from core.providers.model_settings import Limits, ModelSettings
from core.providers.models import ConnectedModel
from core.state.replay import verify
from core.store import embeddings, journal, state
from core.store.journal import JournalRow
from tests.fakes import ScriptedModel, WordEmbedder
from tests.flows.line import SETTINGS, running_line

SAID = "I'll remember that the cellar floods."
ASKED = "@void the cellar floods every spring, who moves the amps?"


def _note(request: ModelRequest, **more: Any) -> dict[str, Any]:
    """The note of a model that anchors it on the question."""
    handle = re.findall(r"<<data \S+ (m\d+)", request.messages[-1].text)[-1]
    memory = {
        "memoryId": "cellar:floods",
        "kind": "room_observation",
        "target": {"kind": "room", "id": "here"},
        "summary": "The cellar floods in spring.",
        "claim": "It happens every year.",
        "tension": "Nobody has said who moves the amps.",
        "actionImplication": "Ask before April.",
        "anchorRefs": [{"ref": handle, "kind": "message"}],
    }
    memory = {name: value for name, value in (memory | more).items() if value is not None}
    return {"operation": "record_short_term_memory", "memory": memory}


def _model(*pieces: Callable[[ModelRequest], object], text: str = SAID) -> ScriptedModel:
    def answer(request: ModelRequest) -> str:
        return json.dumps({"operations": [piece(request) for piece in pieces], "text": text})

    return ScriptedModel(answer)


async def _ask(
    fresh_dsn: str, model: ScriptedModel, *lines: str, embedders: Sequence[Embedder] = ()
) -> tuple[list[str], list[JournalRow]]:
    def connected(settings: ModelSettings, limits: Limits) -> ConnectedModel:
        return model

    search = SearchSettings() if embedders else SearchSettings(embeddings="off")
    structured = SETTINGS.model_copy(update={"structured": True})
    async with running_line(
        fresh_dsn, sample=True, models=[structured], connect=connected, embedders=embedders or None, search=search
    ) as line:
        if embedders:
            async with line.database.transaction() as tx:
                await embeddings.add_model(tx, embedders[0].model)
        for text in lines or (ASKED,):
            await line.say("Wren", text)
            await line.quiet()
        async with line.database.transaction() as tx:
            minds = await state.list_minds(tx)
            rows = await journal.list_range(tx, minds[0].id, 0, 100) if minds else []
            rows = [row for row in rows if row.op != "record_delivery_receipt"]  # of the answer itself
            assert not minds or (await verify(tx, minds[0].id)).difference is None
        return line.front_end.texts(), rows


async def test_what_is_noted_is_said_with_its_operation(fresh_dsn: str) -> None:
    (text,), rows = await _ask(fresh_dsn, _model(_note))
    assert text == f"{SAID}\n\nNoted: The cellar floods in spring. · op 1"
    assert [(row.op, row.verdict, row.actor.ref) for row in rows] == [
        ("record_short_term_memory", "accepted", "voice@2")
    ]


async def test_a_promise_is_not_said_where_nothing_was_noted(fresh_dsn: str) -> None:
    (text,), rows = await _ask(fresh_dsn, _model(lambda request: _note(request, claim=None)))
    assert "remember" not in text and "Noted" not in text and "stored" in text
    assert [row.code for row in rows] == ["no_claim_or_question"]


@pytest.mark.parametrize(
    ("piece", "code"),
    [
        ({"operation": "erase_person", "personId": 1, "planId": "x"}, "operation_not_allowed"),
        ({"operation": "dream"}, "unknown_operation"),
        ({"memory": {}}, "missing_field"),
        ({"operation": "record_short_term_memory", "memory": None}, "null_optional"),
        ({"operation": "record_short_term_memory", "memory": []}, "bad_type"),
    ],
)
async def test_what_a_model_may_not_propose_changes_nothing(fresh_dsn: str, piece: dict[str, Any], code: str) -> None:
    (text,), rows = await _ask(fresh_dsn, _model(lambda request: piece, text="The amps go upstairs."))
    assert text == "The amps go upstairs."
    assert [(row.verdict, row.code) for row in rows] == [("rejected", code)]


async def test_a_message_that_the_model_never_saw_proves_nothing(fresh_dsn: str) -> None:
    anchors = [{"ref": "message:1", "kind": "message"}]
    _, rows = await _ask(fresh_dsn, _model(lambda request: _note(request, anchorRefs=anchors)))
    assert [row.code for row in rows] in (["anchor_not_in_packet"], ["unknown_reference"])


async def test_what_was_noted_stands_in_the_next_prompt(fresh_dsn: str) -> None:
    model = _model(_note, text="Upstairs.")
    texts, _ = await _ask(fresh_dsn, model, ASKED, "@void what about the cellar and the amps?")
    assert len(texts) == 2
    asked = model.requests[-1].messages[-1].text
    assert "## What you remember that may matter" in asked and "The cellar floods in spring." in asked


async def test_a_note_in_other_words_is_compared_by_the_embedder(fresh_dsn: str) -> None:
    other = {"memoryId": "cellar:water", "summary": "Water stands down there.", "claim": "Each spring it does."}
    notes = iter([{}, other])
    model = _model(lambda request: _note(request, **next(notes)), text="Upstairs.")
    _, rows = await _ask(fresh_dsn, model, ASKED, "@void and the amps?", embedders=[WordEmbedder()])
    likeness = rows[1].facts["similarity"]
    assert likeness["model"] == "words" and likeness["scores"][0][:2] == ["cellar:water", "cellar:floods"]
