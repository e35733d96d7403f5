"""Growing answers: nothing is edited before it has an id, and the last edit carries the whole text."""

import asyncio

import pytest

from core.ports import OutgoingPart, SendResult
from core.providers.model_settings import ModelSettings
from core.store.engine import Database
from tests.doubles.model_server import ModelServer, Say
from tests.fakes import RecordingFrontEnd
from tests.flows.line import running_line, until

SENTENCES = [f"Sentence number {number} stands here. " for number in range(1, 9)]


class SlowFirst(RecordingFrontEnd):
    """A platform that takes its time to give the first message an id."""

    def __init__(self) -> None:
        super().__init__(stream_every_s=0.0)
        self.known = False

    async def send(self, part: OutgoingPart) -> SendResult:
        await asyncio.sleep(0.3)  # the whole answer is there long before
        result = await super().send(part)
        self.known = True
        return result

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        assert self.known, "edited before it was there"
        return await super().edit(external_id, part)


@pytest.mark.field("F009")
async def test_what_comes_before_the_first_message_has_an_id_is_not_lost(database: Database, fresh_dsn: str) -> None:
    front_end = SlowFirst()
    async with ModelServer(Say(SENTENCES)) as server:
        models = [ModelSettings(name="double", base_url=server.url)]
        async with running_line(fresh_dsn, front_end=front_end, models=models) as line:
            await line.say("Ana", "@void tell me everything")
            await until(lambda: bool(front_end.shown))
            await line.quiet()
    (shown,) = front_end.shown.values()
    assert shown.text == "".join(SENTENCES).strip()
    assert front_end.calls[0][0] == "send"
    first = next(part for how, part in front_end.calls if how == "send")
    assert first.text.text.startswith("Sentence number 1")


async def test_typing_is_shown_while_a_model_works_and_not_where_the_answer_is_private(
    database: Database, fresh_dsn: str
) -> None:
    front_end = RecordingFrontEnd()
    async with ModelServer(Say(SENTENCES[:1])) as server:
        models = [ModelSettings(name="double", base_url=server.url)]
        async with running_line(fresh_dsn, front_end=front_end, models=models) as line:
            await line.say("Ana", "@void tell me")
            await line.answers(1)
            assert [key.chat_ref for key in front_end.typing] == ["lobby"]
            await line.say("Ana", "/ask private:yes what else?")
            await line.answers(2)
    assert [key.chat_ref for key in front_end.typing] == ["lobby"]
