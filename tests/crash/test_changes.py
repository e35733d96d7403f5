"""Edits, deletions and fragments that come before, while and after an answer is made: the table of the turn."""

from dataclasses import replace

from core.domain.messages import Address
from core.domain.speech import SilenceReason
from tests.crash.stages import HeldModel, ShownThenHeld, deleted, edited, line_that_cannot_send
from tests.fakes import ManualClock, RecordingFrontEnd, ScriptedModel
from tests.flows.line import Line, running_line, until

TURN = "select state || coalesce(':' || reason, '') from voidbot.turns"


async def asked_texts(model: ScriptedModel) -> str:
    return repr(model.requests[-1])


async def wait_for_turn(line: Line, wanted: str) -> None:
    async def reached() -> bool:
        return await line.value(TURN) == wanted

    await until(reached)


async def test_an_edit_before_the_start_is_what_is_answered(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, works=False) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await line.app.receiver.accept(edited(message, "@void when is the market?"))
    model = ScriptedModel()
    async with running_line(fresh_dsn, model=model) as line:
        assert len(await line.answers(1)) == 1
        assert "market" in await asked_texts(model)
        assert "feast" not in await asked_texts(model)


async def test_an_edit_while_the_answer_is_made_restarts_it_once(fresh_dsn: str) -> None:
    model = HeldModel()
    async with running_line(fresh_dsn, model=model) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await model.called.wait()
        await line.app.receiver.accept(edited(message, "@void when is the market?"))
        model.go_on.set()
        assert len(await line.answers(1)) == 1
        assert len(model.requests) == 2
        assert "market" in await asked_texts(model)


async def test_a_second_edit_while_the_answer_is_made_restarts_nothing(fresh_dsn: str) -> None:
    model = HeldModel()
    async with running_line(fresh_dsn, model=model) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await model.called.wait()
        for revision in (1, 2, 3):
            await line.app.receiver.accept(edited(message, f"@void when is market {revision}?", revision))
        model.go_on.set()
        assert len(await line.answers(1)) == 1
        assert len(model.requests) == 2
        assert "market 1" in await asked_texts(model)


async def test_an_edit_after_the_answer_brings_no_second_one(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await line.answers(1)
        await line.app.receiver.accept(edited(message, "@void when is the market?"))
        await line.quiet()
        assert len(line.front_end.shown) == 1


async def test_an_edit_that_adds_the_address_is_answered_once(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        message = line.message("Ana", "when is the feast?")
        await line.app.receiver.accept(message)
        speaks = replace(message, addressed_by=frozenset({Address.MENTION}))
        for revision in (1, 2):
            await line.app.receiver.accept(edited(speaks, "@void when is the feast?", revision))
        assert len(await line.answers(1)) == 1


async def test_an_edit_that_adds_the_address_too_late_is_not_answered(fresh_dsn: str, clock: ManualClock) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel(), clock=clock) as line:
        message = line.message("Ana", "when is the feast?")
        await line.app.receiver.accept(message)
        await clock.advance(301)
        speaks = replace(message, addressed_by=frozenset({Address.MENTION}))
        await line.app.receiver.accept(edited(speaks, "@void when is the feast?"))
        await line.quiet()
        assert line.front_end.shown == {}


async def test_an_edit_that_takes_the_address_away_cancels_the_turn(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, works=False) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await line.app.receiver.accept(edited(message, "when is the feast?", addressed=False))
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        await line.quiet()
        assert line.front_end.shown == {}
        assert await line.value(TURN) == f"silent:{SilenceReason.ADDRESS_REMOVED}"


async def test_a_question_deleted_before_the_start_is_never_answered(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, works=False) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await line.app.receiver.accept(deleted(message))
    model = ScriptedModel()
    async with running_line(fresh_dsn, model=model) as line:
        await line.quiet()
        assert (line.front_end.shown, model.requests) == ({}, [])
        assert await line.value(TURN) == f"silent:{SilenceReason.TRIGGER_DELETED}"


async def test_a_question_deleted_while_its_answer_is_made_is_not_answered_but_paid(fresh_dsn: str) -> None:
    model = HeldModel()
    async with running_line(fresh_dsn, model=model) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await model.called.wait()
        await line.app.receiver.accept(deleted(message))
        model.go_on.set()
        await line.quiet()
        assert line.front_end.shown == {}
        assert len(model.requests) == 1
        assert await line.value(TURN) == f"silent:{SilenceReason.TRIGGER_DELETED}"
        assert await line.value("select input_tokens from voidbot.usage") == 100


async def test_a_question_deleted_before_its_answer_is_sent_is_not_answered(fresh_dsn: str) -> None:
    async with line_that_cannot_send(fresh_dsn, ScriptedModel()) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await wait_for_turn(line, "answered")
        await line.app.receiver.accept(deleted(message))
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        await line.quiet()
        assert line.front_end.shown == {}
        assert await line.value(TURN) == f"silent:{SilenceReason.TRIGGER_DELETED}"
        assert await line.value("select state || ':' || reason from voidbot.outbox") == "dropped:trigger_deleted"


async def test_a_question_deleted_after_its_answer_is_marked_in_the_receipt(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        message = line.message("Ana", "@void when is the feast?")
        await line.app.receiver.accept(message)
        await line.answers(1)
        await line.app.receiver.accept(deleted(message))
        assert await line.value("select source_gone from voidbot.receipts")


async def test_words_shown_for_a_question_deleted_meanwhile_get_an_honest_end(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd(stream_every_s=0.0)
    text = "<think>Let me see.</think>\nFirst a sentence.\nThen another one.\nAnd an end."
    async with running_line(fresh_dsn, front_end=front_end, works=False) as line:
        message = line.message("Ana", "@void tell me")
        await line.app.receiver.accept(message)
    model = ShownThenHeld(text)
    async with running_line(fresh_dsn, front_end=front_end, model=model) as line:
        await until(lambda: len(front_end.shown) == 1)
        await line.app.receiver.accept(deleted(message))
        model.go_on.set()
        await line.quiet()
        (shown,) = front_end.texts()
        assert shown.startswith("First a sentence.") and "rest" in shown
        assert await line.value("select state from voidbot.outbox") == "sent"


async def test_a_fragment_that_comes_while_the_answer_is_made_restarts_it_once(fresh_dsn: str) -> None:
    model = HeldModel()
    async with running_line(fresh_dsn, model=model) as line:
        await line.say("Ana", "@void when is the feast", quiet_window=True)
        await model.called.wait()
        await line.say("Ana", "@void and the market?", quiet_window=True)
        model.go_on.set()
        assert len(await line.answers(1)) == 1
        assert len(model.requests) == 2
        assert "feast" in await asked_texts(model) and "market" in await asked_texts(model)


async def test_a_fragment_deleted_while_the_answer_is_made_is_not_answered(fresh_dsn: str) -> None:
    model = HeldModel()
    async with running_line(fresh_dsn, model=model) as line:
        await line.say("Ana", "@void when is the feast", quiet_window=True)
        second = line.message("Ana", "@void and my secret?", quiet_window=True)
        await line.app.receiver.accept(second)
        await model.called.wait()
        await line.app.receiver.accept(deleted(second))
        model.go_on.set()
        assert len(await line.answers(1)) == 1
        assert "secret" not in await asked_texts(model)
