"""Whatever a model does, the room sees an answer or one honest line; never internal text, never nothing."""

import json
from functools import partial

import pytest

from bot.settings import PROJECT
from core.prompt.catalog import load_catalog
from core.prompt.stock import StockKey
from core.providers.model_settings import Limits, ModelSettings
from core.providers.models import ConnectedModel, connect
from core.store.engine import Database
from tests.doubles.model_server import Answer, Fail, ModelServer, Raw, Say
from tests.fakes import ManualClock, RecordingFrontEnd
from tests.flows.line import Line, running_line, until, wait_over

SHORT = Limits(first_s=0.4, between_s=0.4, total_s=1.5)
NONE_AT_ALL = Limits(first_s=0.05, between_s=0.05, total_s=0.2)
"""For a model that never ends: nothing is lost where it is too short."""
GOOD = "The door opens at ten."
SECRET_BODY = {
    "error": {"message": "key sk-live-aaaabbbbccccddddeeeeffff0000 refused at http://inside/v1", "code": "x"}
}


def impatient(limits: Limits, clock: ManualClock, settings: ModelSettings, _: Limits) -> ConnectedModel:
    return connect(settings, limits, clock=clock, guard=lambda: None, estimate=len)


async def honest_lines(line: Line) -> set[str]:
    """Every line that may stand in for an answer, with this turn's code."""
    stock = load_catalog(PROJECT).stock
    trace = str(await line.value("select trace from voidbot.turns"))
    found = set()
    for key in (StockKey.ERROR_GENERIC, StockKey.ERROR_PROVIDER_DOWN):
        found |= {stock.pick("en", key, n, id=trace) for n in range(stock.count("en", key))}
    for key in (StockKey.REPLY_NOTHING_TO_ADD, StockKey.ERROR_TOO_LONG):
        found |= {stock.pick("en", key, n) for n in range(stock.count("en", key))}
    return found


async def one_answer(
    fresh_dsn: str,
    clock: ManualClock,
    *script: Answer,
    stream: bool = False,
    thinks: bool = True,
    limits: Limits = SHORT,
) -> tuple[str, set[str]]:
    """Ask once; return what the room saw at last, and the honest lines it may have seen instead."""
    front_end = RecordingFrontEnd(stream_every_s=0.0 if stream else None)
    async with ModelServer(*script) as server:
        settings = ModelSettings(name="double", base_url=server.url, thinks_in_text=thinks)
        async with running_line(
            fresh_dsn,
            front_end=front_end,
            models=[settings],
            clock=clock,
            connect=partial(impatient, limits, clock),
            dead_after_s=600.0,
        ) as line:
            await line.say("Ana", "@void when does the door open?")

            async def over() -> bool:
                await wait_over(line, clock)  # retries wait by the database's clock
                return bool(front_end.shown) and await line.value("select count(*) from queue.job") == 0

            await until(over)
            await line.quiet()
            (text,) = front_end.texts()
            assert await line.value("select count(*) from voidbot.reservations where state = 'held'") == 0
            return text, await honest_lines(line)


THOUGHTS = [
    ["<think>they want the hours; the key is hidden</think>", GOOD],
    ["<THINKING>secret plan", " goes on</THINKING>\n", GOOD],
    ["secret plan</think>\n\n", GOOD],
    ["<thi", "nk>sec", "ret plan</th", "ink>", GOOD],
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("pieces", THOUGHTS)
@pytest.mark.field("F030")
async def test_thinking_is_never_shown(fresh_dsn: str, clock: ManualClock, pieces: list[str], stream: bool) -> None:
    text, _ = await one_answer(fresh_dsn, clock, Say(pieces), stream=stream)
    assert text == GOOD


DRAFTS = [
    [
        json.dumps(
            {"silence": None, "operations": [{"op": "remember", "text": "secret plan. It goes on."}], "text": GOOD}
        )
    ],
    ["```json\n", '{"operations": [],\n', f'"text": "{GOOD}"}}\n', "```"],
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("pieces", DRAFTS)
async def test_a_draft_in_json_nobody_asked_for_is_never_shown_as_one(
    fresh_dsn: str, clock: ManualClock, pieces: list[str], stream: bool
) -> None:
    text, _ = await one_answer(fresh_dsn, clock, Say(pieces), stream=stream, thinks=False)
    assert text == GOOD


async def test_a_broken_draft_in_a_stream_is_asked_for_again(fresh_dsn: str, clock: ManualClock) -> None:
    broken = Say(['{"text": "secret plan. ', "It goes on. "])
    text, _ = await one_answer(fresh_dsn, clock, broken, Say([GOOD]), stream=True, thinks=False)
    assert text == GOOD


USELESS: dict[str, Answer] = {
    "nothing": Say([""]),
    "blanks": Say(["  \n\t"]),
    "zero width": Say(["\u200b\u200d\ufeff"]),
    "only thinking": Say(["<think>I should say nothing"]),
    "a silence word": Say(["NO_REPLY"]),
    "a tool call": Say([], tool="delete_everything"),
    "no json": Raw(b"<html>502</html>", "text/html"),
    "other json": Raw(json.dumps({"detail": "nope"}).encode()),
    "no key": Fail(401, SECRET_BODY),
    "forbidden": Fail(403, SECRET_BODY),
    "throttled": Fail(429, SECRET_BODY, {"retry-after": "1"}),
    "broken": Fail(500, SECRET_BODY),
    "cut at once": Say(["The door"], cut_after=0),
    "cut in the middle": Say(["The door ", "opens"], cut_after=1),
    "never anything": Say(["x"], hold_after=0),
    "never ending": Say(["The door ", "opens"], hold_after=1),
}


@pytest.mark.parametrize("case", USELESS)
@pytest.mark.field("F028", "F031")
async def test_a_useless_answer_becomes_one_honest_line(fresh_dsn: str, clock: ManualClock, case: str) -> None:
    limits = NONE_AT_ALL if case.startswith("never") else SHORT
    text, honest = await one_answer(fresh_dsn, clock, USELESS[case], limits=limits)
    assert text in honest


@pytest.mark.parametrize("case", ["nothing", "no key", "throttled", "broken", "never anything", "cut at once"])
async def test_the_same_holds_for_a_stream(fresh_dsn: str, clock: ManualClock, case: str) -> None:
    limits = NONE_AT_ALL if case.startswith("never") else SHORT
    text, honest = await one_answer(fresh_dsn, clock, USELESS[case], stream=True, limits=limits)
    assert text in honest


@pytest.mark.parametrize("fault", [{"cut_after": 3}, {"hold_after": 3}, {"end_after": 3}])
async def test_a_stream_that_breaks_off_keeps_what_was_shown_and_says_so(
    fresh_dsn: str, clock: ManualClock, fault: dict[str, int]
) -> None:
    pieces = ["The door opens at ten. ", "It closes at six. ", "On Sun", "days never."]
    text, _ = await one_answer(fresh_dsn, clock, Say(pieces, **fault), stream=True, thinks=False)  # type: ignore[arg-type]  # faults
    stock = load_catalog(PROJECT).stock
    ends = [stock.pick("en", StockKey.REPLY_CUT_SHORT, n) for n in range(stock.count("en", StockKey.REPLY_CUT_SHORT))]
    assert text.startswith("The door opens at ten.") and any(text.endswith(end) for end in ends)


async def test_a_megabyte_is_cut_at_a_paragraph(fresh_dsn: str, clock: ManualClock) -> None:
    paragraph = "The door opens at ten and closes at six on every day of the week. " * 10 + "\n\n"
    front_end = RecordingFrontEnd(limit=10_000)
    async with ModelServer(Say([paragraph * 1500])) as server:
        settings = ModelSettings(name="double", base_url=server.url)
        async with running_line(fresh_dsn, front_end=front_end, models=[settings], clock=clock) as line:
            await line.say("Ana", "@void tell me everything")
            (text,) = await line.answers(1)
            assert len(text) <= 6_000 or text in await honest_lines(line)


async def test_an_empty_answer_is_asked_for_again_and_both_calls_are_in_the_ledger(
    fresh_dsn: str, clock: ManualClock, database: Database
) -> None:
    text, _ = await one_answer(fresh_dsn, clock, Say([""]), Say([GOOD]))
    assert text == GOOD
    async with database.transaction() as tx:
        rows = await tx.fetch("select result, input_tokens from voidbot.usage order by id")
    assert [row["result"] for row in rows] == ["empty", "ok"] and all(row["input_tokens"] for row in rows)


async def test_an_unknown_citation_is_repaired_and_a_known_one_becomes_a_source(
    fresh_dsn: str, clock: ManualClock
) -> None:
    text, _ = await one_answer(fresh_dsn, clock, Say(["Ten [m9]."]), Say(["Ten [m1]."]))
    assert text.startswith("Ten [1].") and "[1] Ana" in text


async def test_an_answer_that_was_cut_says_so(fresh_dsn: str, clock: ManualClock) -> None:
    paragraph = "The door opens at ten and closes at six on every day of the week. " * 10 + "\n\n"
    async with ModelServer(Say([paragraph * 20])) as server:
        settings = ModelSettings(name="double", base_url=server.url)
        front_end = RecordingFrontEnd(limit=10_000)
        async with running_line(fresh_dsn, front_end=front_end, models=[settings], clock=clock) as line:
            await line.say("Ana", "@void tell me everything")
            (text,) = await line.answers(1)
            stock, key = load_catalog(PROJECT).stock, StockKey.REPLY_SHORTENED
            assert any(text.endswith(stock.pick("en", key, n)) for n in range(stock.count("en", key)))
