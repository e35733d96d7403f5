"""Answers without a model: people's own words, with author, time and locator, or the plain word that there are none."""

import re
from dataclasses import replace

import pytest

from core.domain.errors import Refused, Unavailable
from core.domain.messages import MessageKind
from core.domain.prompt import Completion, ModelRequest
from tests.fakes import ManualClock, ScriptedModel
from tests.flows.line import Line, running_line, until, wait_over


class Down(ScriptedModel):
    """A model that fails with the errors it is given, then answers."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__(lambda _: "I am back.")
        self.errors = list(errors)

    async def complete(self, request: ModelRequest) -> Completion:
        if self.errors:
            self.requests.append(request)
            raise self.errors.pop(0)
        return await super().complete(request)


async def ask(line: Line, text: str, person: str = "Wren", room: str = "lobby") -> str:
    before = len(line.front_end.shown)
    await line.say(person, f"@void {text}", room)
    return (await line.answers(before + 1))[-1]


def quoted(answer: str) -> list[str]:
    """Return the quotations of an answer, each joined to what was written."""
    blocks = re.findall(r"(?:^> .*\n?)+", answer, re.MULTILINE)
    return ["\n".join(row.removeprefix("> ") for row in block.splitlines()) for block in blocks]


async def test_quotes_are_verbatim_few_and_say_who_where_and_when(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        answer = await ask(line, "who keeps the spare key to the front door?")
        assert "No language model is set up" in answer
        assert re.search(r"— Mara, #lobby, \d{4}-\d\d-\d\d \d\d:\d\d \(message \d+\)", answer)
        for question in (
            "what do cakes and posters cost for the open day?",
            "laser cutter plywood acrylic felt",
            "belt sander",
        ):
            words = quoted(await ask(line, question))
            assert 1 <= len(words) <= 3
            for text in words:
                assert await line.value(
                    "select count(*) from voidbot.messages where text = $1 and deleted_at is null", text
                )
        locator = re.search(r"\(message (\d+)\)", answer)
        assert locator is not None
        assert "spare key" in str(await line.value("select text from voidbot.messages where id = $1", int(locator[1])))
        assert await line.value("select count(*) from voidbot.receipts where provider = 'quotes' and model = ''") == 4
        sources = "select count(*) from voidbot.receipt_sources where outbox_id = 1"
        assert await line.value(sources) == len(quoted(answer))


async def test_a_question_that_nothing_answers_gets_the_plain_word(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        for question in (
            "how tall is the lighthouse of Alexandria?",
            "key to the quantum chromodynamics zoo",
            "???",
            "the of and",
        ):
            answer = await ask(line, question)
            assert answer.endswith("I found nothing here about that."), question
            assert quoted(answer) == []


async def test_what_is_asked_again_is_not_its_own_answer(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        for person in ("Wren", "Priya"):
            for question in ("where is the obsidian teapot?", "@void where is the obsidian teapot?"):
                answer = await ask(line, question, person)
                assert answer.endswith("I found nothing here about that."), (person, question, answer)


async def test_words_of_the_deleted_and_of_who_opted_out_are_never_quoted(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        key = "who keeps the spare key to the front door while on holiday?"
        assert "Jonas keeps the spare key" in await ask(line, key)
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.people set opted_out = true where account_ref = 'mara'")
        assert "Jonas keeps the spare key" not in await ask(line, key, "Priya")
        assert "Please keep" in await ask(line, "is there a hedgehog under the shed?")
        deleted = line.message("Elif", "", "garden")
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.people set opted_out = false")
        await line.app.receiver.accept(replace(deleted, kind=MessageKind.DELETE, message_id="g09"))
        assert "Please keep" not in await ask(line, "is there a hedgehog under the shed near the fence?", "Sam")
        assert "Jonas keeps the spare key" in await ask(line, key, "Tobi")


async def test_a_bots_words_are_never_quoted(fresh_dsn: str) -> None:
    async with running_line(
        fresh_dsn, model=ScriptedModel(lambda _: "The zeppelin lands at noon."), sample=True
    ) as line:
        await ask(line, "when does it land?")
        assert await line.value("select count(*) from voidbot.messages where kind = 'bot_reply'") == 1
        await line.say("Sam", "/search zeppelin lands noon")
        assert "zeppelin" not in (await line.answers(2))[-1]


@pytest.mark.field("F031")
async def test_a_model_that_is_down_is_tried_again_and_then_owns_up(fresh_dsn: str, clock: ManualClock) -> None:
    model = Down(*[Unavailable("model: http 503 request-id-77") for _ in range(3)])
    async with running_line(fresh_dsn, model=model, sample=True, clock=clock, dead_after_s=600.0) as line:
        await line.say("Wren", "@void who keeps the spare key?")

        async def answered() -> bool:
            await wait_over(line, clock)
            return bool(line.front_end.shown)

        await until(answered)
        (text,) = await line.answers(1)
        assert text == "I am back." or "language model" in text
        assert "request-id" not in text and "503" not in text


@pytest.mark.field("F031")
async def test_a_model_that_refuses_gets_one_plain_line_with_a_code(fresh_dsn: str) -> None:
    model = Down(Refused("model: http 401 key sk-abcdefabcdefabcdef request-id-77"))
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        text = await ask(line, "who keeps the spare key?")
        assert "language model" in text and re.search(r"code [0-9a-f]{16}", text)
        assert "401" not in text and "sk-" not in text
        await line.say("Wren", "/why")
        assert "notice:error.provider_down" in (await line.answers(2))[-1]
        assert await ask(line, "and now?") == "I am back."


async def test_an_earlier_question_is_no_answer_to_the_next_one(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        await line.say("Root", "/void mode lurk archive:on")
        await line.answers(1)
        await line.say("Wren", "@void is MDF allowed in the laser cutter?")
        await line.answers(2)
        await line.say("Sam", "@void can I cut MDF?")
        assert "laser" not in (await line.answers(3))[2]
