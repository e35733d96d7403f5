"""A message in, an answer out: the line as a whole, with a scripted model and with none."""

import pytest

from core.domain.speech import SilenceReason
from tests.fakes import RecordingFrontEnd, ScriptedModel
from tests.flows.line import running_line


async def test_a_question_gets_one_answer_with_a_receipt(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel(lambda _: "The door opens at ten.")) as line:
        await line.say("Ana", "@void when does the door open?")
        assert await line.answers(1) == ["The door opens at ten."]
        assert await line.value("select delivered_at is not null and model = 'scripted' from voidbot.receipts")
        assert await line.value("select state from voidbot.turns") == "answered"


async def test_with_no_model_the_answer_says_so_and_invents_nothing(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        await line.say("Ana", "@void when does the door open?")
        (text,) = await line.answers(1)
        assert "model" in text
        assert await line.value("select provider from voidbot.receipts") == "quotes"


async def test_the_same_event_twice_is_answered_once(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        message = line.message("Ana", "@void hello")
        await line.app.receiver.accept(message)
        assert (await line.app.receiver.accept(message)).duplicate
        assert len(await line.answers(1)) == 1


async def test_what_is_not_addressed_is_not_answered_and_not_kept(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        accepted = await line.say("Ana", "just talking to Ben")
        await line.quiet()
        assert accepted.reason is SilenceReason.NOT_ADDRESSED
        assert await line.value("select text from voidbot.inbox") == ""
        assert await line.value("select count(*) from voidbot.messages") == 0


async def test_a_command_is_answered_to_its_asker(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        await line.say("Ana", "/help")
        await line.answers(1)
        (shown,) = line.front_end.shown.values()
        assert shown.part.private_to == "ana" and "/ask" in shown.text


@pytest.mark.parametrize("command", ["/void status", "/void budget", "/void mode open"])
async def test_a_member_may_not_use_admin_commands(fresh_dsn: str, command: str) -> None:
    async with running_line(fresh_dsn) as line:
        await line.say("Ana", command)
        (text,) = await line.answers(1)
        assert "administrators" in text


async def test_a_growing_answer_is_one_message_with_a_final_edit(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd(stream_every_s=0.0)
    model = ScriptedModel(lambda _: "First a sentence.\nThen another one.\nAnd an end.")
    async with running_line(fresh_dsn, front_end=front_end, model=model) as line:
        await line.say("Ana", "@void tell me")
        assert await line.answers(1) == ["First a sentence.\nThen another one.\nAnd an end."]
        assert [kind for kind, _ in front_end.calls].count("send") == 1


async def test_why_explains_the_last_answer(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel(lambda _: "Ten.")) as line:
        await line.say("Ana", "@void when?")
        await line.answers(1)
        await line.say("Ana", "/why")
        text = (await line.answers(2))[1]
        assert "scripted" in text and "sha256" in text and "message:m1" in text
