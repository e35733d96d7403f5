"""What is said becomes known to the mind that said it: once for each answer, whatever the platform does."""

import asyncio
from typing import Any

from core.chat.work import send_job
from core.domain.ids import CommunityId, OutboxId, RoomId
from core.domain.mind.bodies import CaseStatus
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Actor, Emitter, Needs, speech_hash
from core.domain.mind.speech import Candidate, CandidateStatus, Cause, Receipt
from core.domain.mind.values import EntryId
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, Item
from core.domain.operations.obligations import UpsertOpenCase
from core.domain.operations.speech import AdvanceCandidate, QueueCandidateIntervention
from core.domain.speech import Draft, SpeechKind, speech_key
from core.domain.speech import Receipt as Proof
from core.ports import Ambiguous, SendRefused
from core.store import jobs, mind_facts, outbox, places, state
from core.store.engine import Tx
from tests.domain.minds import read
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
        closed_at = await line.value("select closed_at from voidbot.outbox where id = $1", receipt.outbox_id)
        async with line.database.transaction(durable=False) as tx:
            found = await mind_facts.read(tx, MIND, Needs(spoke=True))
    assert (receipt.cause, receipt.outcome, receipt.preview) == ("reply", "sent", "")
    assert (receipt.content_hash, receipt.content_length) == (speech_hash("Certainly."), 10)
    assert receipt.reply_to_message_id == asked
    assert len(receipt.sent_message_ids) == receipt.chunk_count == 1
    assert found.spoke_at == receipt.sent_at == closed_at


async def test_a_second_answer_to_a_message_is_a_second_receipt(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        await archived(line)
        await line.say("Ana", "@void where is the key?")
        await line.answers(2)
        await line.value(
            "with old as (select * from voidbot.outbox where kind = 'reply')"
            " insert into voidbot.outbox (front_end, community_id, room_id, reply_to, kind, body, audience, dedupe)"
            " select front_end, community_id, room_id, reply_to, kind, 'Under the mat.', audience, 'again' from old"
        )
        async with line.database.transaction() as tx:
            row = await outbox.find(tx, "again")
            assert row is not None
            await _send(tx, row.id, row.community_id, row.room_id)
        await line.answers(3)
        first, second = sorted(await receipts(line), key=lambda each: each.outbox_id)
    assert [each.content_hash for each in (first, second)] == [speech_hash("Certainly."), speech_hash("Under the mat.")]
    assert first.reply_to_message_id == second.reply_to_message_id is not None


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


async def test_what_was_said_unasked_is_spoken_and_what_was_not_waits_again(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd(limit=40)
    async with running_line(fresh_dsn, model=ScriptedModel(), front_end=front_end) as line:
        await archived(line)
        await line.value("update voidbot.rooms set unattended = true")
        await _speak(line, "said", "The amps go upstairs.")
        await line.say("Ana", "/why")
        await line.quiet()
        assert "candidate/said" in "".join(line.front_end.texts())
        front_end.results.append(SendRefused("not here"))
        await _speak(line, "refused", "The cellar floods in spring.")
        front_end.before_send = lambda: _refuse_the_second(front_end)
        await _speak(line, "half", "The lift is out of order, as it was in March, and in May.")
        rows = {row.id: row for row in await _candidates(line)}
        (receipt,) = [each for each in await receipts(line) if each.cause is Cause.CANDIDATE]
        defects = line.app.parts.metrics.text()
    assert receipt.intervention_id == "said"
    said, refused, half = (rows[EntryId(id_)] for id_ in ("said", "refused", "half"))
    assert isinstance(said.body, Candidate) and said.body.receipt_id == f"receipt:{receipt.outbox_id}"
    assert isinstance(refused.body, Candidate) and isinstance(half.body, Candidate)
    assert (said.body.status, refused.body.status, half.body.status) == ("spoken", "queued", "retired")
    assert refused.body.attempts == 1 and half.retired is not None
    assert b"\nvoidbot_delivery_postcondition_total 0.0\n" in defects


async def test_what_the_mind_refuses_is_said_all_the_same_and_is_a_defect(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        await archived(line)
        await line.value("update voidbot.rooms set unattended = true")
        await _speak(line, "queued", "The amps go upstairs.", sending=False)
        assert "The amps go upstairs." in line.front_end.texts()
        assert await line.value("select state from voidbot.outbox where kind = 'speech'") == "sent"
        refused = "select array_agg(code order by seq) from voidbot.state_operations where verdict = 'rejected'"
        assert await line.value(refused) == ["batch_refused", "bad_transition"]
        assert b"\nvoidbot_delivery_postcondition_total 1.0\n" in line.app.parts.metrics.text()


async def _candidates(line: Line) -> list[Entry]:
    async with line.database.transaction(durable=False) as tx:
        return [each.entry for each in await state.list_entries(tx, MIND) if each.entry.type == "candidate"]


def _refuse_the_second(front_end: RecordingFrontEnd) -> None:
    sent = [part.n for kind, part in front_end.calls if kind == "send"]
    if sent[-1] > 1:
        front_end.results.append(SendRefused("not any more"))


async def _speak(line: Line, id_: str, draft: str, *, sending: bool = True) -> None:
    """Have the mind say something unasked, and wait until that is over."""
    room = await line.value("select id from voidbot.rooms where chat_ref = 'lobby'")
    wish: dict[str, Any] = {"intervention_id": id_, "kind": "ripe_thought_share", "summary": "A thought."}
    wish |= {"draft": draft, "delivery_target": {"mode": "channel", "channelId": room}}
    operations: list[tuple[Emitter, Operation]] = [
        (Emitter.OPERATOR, read(QueueCandidateIntervention, intervention=wish)),
        (Emitter.PARENT, AdvanceCandidate(intervention_id=EntryId(id_), to=CandidateStatus.SENDING, reason="its turn")),
    ]
    async with line.database.transaction() as tx:
        for n, (by, operation) in enumerate(operations if sending else operations[:1]):
            batch = Batch(mind_id=MIND, actor=Actor(by), items=(Item(operation, f"{id_}:{n}"),))
            assert (await line.app.parts.minds.apply(tx, batch)).accepted
        place = await places.load_place(tx, RoomId(int(str(room))))
        draft_ = Draft(
            kind=SpeechKind.SPEECH, room_id=place.room.id, front_end="console", reply_to=None, text=draft,
            audience=frozenset({place.room.id}), dedupe=speech_key(MIND, id_, 0),
        )  # fmt: skip
        outbox_id = await outbox.add(tx, draft_, community_id=place.community.id, trace="", asked_at=None)
        assert outbox_id is not None
        proof = Proof(trigger=f"candidate:{id_}", rule="speech:unasked", provider="code")
        await outbox.add_receipt(tx, outbox_id, proof, room_id=place.room.id, person_id=None, job_id=None)
        await _send(tx, outbox_id, place.community.id, place.room.id)
    await line.quiet()


async def _send(tx: Tx, outbox_id: OutboxId, community_id: CommunityId, room_id: RoomId) -> None:
    job = send_job(
        outbox_id, front_end="console", community_id=community_id, room_id=room_id, person_id=None, trace=""
    )  # fmt: skip
    await jobs.enqueue(tx, [job])


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
