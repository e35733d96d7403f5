"""What is said becomes known to the mind that said it: once for each answer, whatever the platform does."""

import asyncio
from typing import Any

from core.domain.mind.bodies import CaseStatus
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.speech import Receipt
from core.domain.operations.batch import Batch, Item
from core.domain.operations.obligations import UpsertOpenCase
from core.ports import Ambiguous
from core.store import state
from tests.fakes import RecordingFrontEnd, ScriptedModel
from tests.flows.line import Line, running_line

MIND = "console:console"


async def receipts(line: Line) -> list[Receipt]:
    async with line.database.transaction(durable=False) as tx:
        held = await state.list_live(tx, MIND, ["receipt"])
    return [each.entry.body for each in held if isinstance(each.entry.body, Receipt)]


async def archived(line: Line) -> None:
    await line.say("Root", "/void mode lurk archive:on")
    await line.answers(1)


async def test_an_answer_is_one_receipt_that_names_what_it_answers(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        await archived(line)
        await line.say("Ana", "@void where is the key?")
        await line.answers(2)
        (receipt,) = await receipts(line)
        asked = await line.value("select id from voidbot.messages where text like '%key%'")
    assert (receipt.cause, receipt.outcome, receipt.preview) == ("reply", "sent", "")
    assert receipt.reply_to_message_id == asked
    assert len(receipt.sent_message_ids) == receipt.chunk_count == 1


async def test_commands_are_no_speech_of_the_mind(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        await archived(line)
        await line.say("Ana", "/void status")
        await line.answers(2)
        assert await receipts(line) == []


async def test_what_may_have_arrived_is_recorded_as_unknown(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd(nonce_window=None, history=False)
    async with running_line(fresh_dsn, model=ScriptedModel(), front_end=front_end) as line:
        front_end.results.append(Ambiguous("the line went dead"))
        await line.say("Ana", "@void are you there?")
        await line.quiet()
        (receipt,) = await receipts(line)
    assert (receipt.outcome, receipt.sent_message_ids) == ("unknown", ())


async def test_an_obligation_that_an_answer_settles_is_closed(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel(), works=False) as line:
        await line.say("Root", "/void mode lurk archive:on")
        await _worked(line)
        await line.say("Ana", "@void who brings the amps?")
        await _owe(line)
        await _worked(line)
        assert await line.value("select body->>'status' from voidbot.state_entries where type = 'case'") == (
            CaseStatus.ANSWERED
        )


async def _owe(line: Line) -> None:
    async with line.database.transaction() as tx:
        asked = await tx.fetchval("select id from voidbot.messages where text like '%amps%'")
        owes: dict[str, Any] = {"sourceMessageId": asked, "status": "pending", "summary": "Somebody asked."}
        item = Item(UpsertOpenCase.model_validate(owes), "op:1")
        batch = Batch(mind_id=MIND, actor=Actor(Emitter.PARENT), items=(item,))
        verdict = await line.app.parts.minds.apply(tx, batch)
    assert verdict.accepted


async def _worked(line: Line) -> None:
    """Let the worker of the line run until nothing is left."""
    worker = line.app.worker
    assert worker is not None
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        await line.quiet()
        running.cancel()
