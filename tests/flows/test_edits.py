"""Edits and deletions before the start, while it runs and after the answer."""

import pytest

from core.domain.messages import Address, MessageKind
from core.domain.speech import SilenceReason
from tests.fakes import ScriptedModel
from tests.flows.line import Line, running_line


async def change(line: Line, target: str, text: str, kind: MessageKind = MessageKind.EDIT) -> SilenceReason | None:
    """Edit or delete Ana's message."""
    how = frozenset({Address.MENTION}) if text.startswith("@void") else frozenset()
    changed = line.message("Ana", text, kind=kind, message_id=target, revision=1, addressed_by=how)
    return (await line.app.receiver.accept(changed)).reason


async def lurking(line: Line) -> None:
    await line.say("Root", "/void mode lurk archive:on")
    await line.quiet()


@pytest.mark.field("F040")
async def test_an_edit_before_the_start_replaces_the_question(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda _: "Done.")
    async with running_line(fresh_dsn, model=model) as line:
        asked = line.message("Ana", "@void what of the pears?", quiet_window=True)
        await line.app.receiver.accept(asked)
        for n in range(8):
            await change(line, asked.message_id, f"@void what of the plums {n}?")
        assert (await line.answers(1)) == ["Done."]
        (request,) = model.requests
        assert "plums 7" in request.messages[0].text and "pears" not in request.messages[0].text
        await change(line, asked.message_id, "@void what of the quinces?")
        await line.quiet()
        assert len(line.front_end.shown) == 1 and len(model.requests) == 1


@pytest.mark.field("F040")
async def test_an_edit_that_adds_the_mention_is_answered_once(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel(lambda _: "Done.")) as line:
        said = line.message("Ana", "what of the pears?")
        await line.app.receiver.accept(said)
        assert await change(line, said.message_id, "what of the ripe pears?") is SilenceReason.NOT_ADDRESSED
        for _ in range(3):
            await change(line, said.message_id, "@void what of the pears?")
        assert await line.answers(1) == ["Done."]
        await line.quiet()
        assert len(line.front_end.shown) == 1


@pytest.mark.field("F040")
@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [(MessageKind.EDIT, "never mind", "address_removed"), (MessageKind.DELETE, "", "trigger_deleted")],
)
async def test_a_question_taken_back_before_the_start_is_not_answered(
    fresh_dsn: str, kind: MessageKind, text: str, reason: str
) -> None:
    model = ScriptedModel()
    async with running_line(fresh_dsn, model=model) as line:
        await lurking(line)
        asked = line.message("Ana", "@void what of the pears?", quiet_window=True)
        await line.app.receiver.accept(asked)
        await change(line, asked.message_id, text, kind)
        await line.quiet()
        assert model.requests == []
        assert await line.value("select reason from voidbot.turns where state = 'silent'") == reason
        await line.say("Ana", "/why-silent")
        said = (await line.answers(2))[-1]
        assert "I said nothing" in said and ("deleted" in said or "edit" in said)
        assert await line.value("select count(*) from voidbot.messages where text like '%pears%'") == 0


async def test_a_deletion_after_the_answer_marks_its_receipt_and_takes_the_words(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel(lambda _: "Ripe.")) as line:
        await lurking(line)
        asked = line.message("Ana", "@void what of the pears?")
        await line.app.receiver.accept(asked)
        await line.answers(2)
        await change(line, asked.message_id, "", MessageKind.DELETE)
        await line.say("Ana", "/why")
        assert "(deleted since)" in (await line.answers(3))[-1]
        assert await line.value("select count(*) from voidbot.messages where text like '%pears%'") == 0
        assert await line.value("select count(*) from voidbot.inbox where text like '%pears%'") == 0


async def test_our_own_message_can_be_deleted_from_the_archive_and_replied_to(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda _: f"Answer {len(model.requests)}.")
    async with running_line(fresh_dsn, model=model) as line:
        await lurking(line)
        await line.say("Ana", "@void what of the pears?")
        await line.answers(2)
        await line.say("Ben", "@void why so?", reply_to="s2")
        await line.answers(3)
        chain = model.requests[-1].messages[0].text.partition("The messages this one answers")[2]
        assert "Answer 1." in chain and "what of the pears?" in chain
        await change(line, "s2", "", MessageKind.DELETE)
        await line.say("Ben", "@void and now?")
        await line.answers(4)
        assert "Answer 1." not in model.requests[-1].messages[0].text


async def test_a_private_question_is_nobodys_talk(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda _: f"Answer {len(model.requests)}.")
    async with running_line(fresh_dsn, model=model) as line:
        await lurking(line)
        await line.say("Ana", "/ask private:yes am I owed the pears?")
        await line.say("Ana", "/search owed pears")
        await line.quiet()
        await line.say("Ben", "@void what was said of pears owed?")
        await line.quiet()
        assert "am I owed" not in model.requests[-1].messages[0].text
        assert await line.value("select count(*) from voidbot.messages where text like '%owed the pears%'") == 0
