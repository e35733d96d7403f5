"""Summaries: for the asker alone, from what the asker may read, and nothing in them that cites nothing."""

import re
from datetime import timedelta

import pytest

from core.domain.messages import MessageKind
from core.domain.prompt import ModelRequest
from core.ports import RetryAfter
from tests.fakes import ManualClock, ScriptedModel, Shown
from tests.flows.line import Line, running_line, until, wait_over
from tests.flows.test_audience import open_to
from tests.flows.test_commands import tell
from tests.flows.test_quotes import quoted

WAIT_S = 5.0
"""How long an answer has to wait; less than makes a worker look dead."""

NOTHING = "There is nothing to sum up in that span."


def handle(request: ModelRequest, words: str) -> str:
    """Return the handle of the message with these words in it, as the model sees it."""
    before = request.messages[0].text.partition(words)[0]
    return str(re.findall(r"<<data \S+ (k\d+) ", before)[-1])


def prompt_of(model: ScriptedModel) -> str:
    return model.requests[-1].messages[0].text


async def test_without_a_model_a_summary_is_an_extract_in_peoples_own_words(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        first = await tell(line, "Wren", "/summarize 40 workshop")
        assert first.part.private_to == "wren" and "No language model is set up" in first.text
        count = await line.value(
            "select count(*) from voidbot.messages m join voidbot.rooms r on r.id = m.room_id where r.name = 'workshop'"
        )
        assert re.match(rf"#workshop, \d{{4}}-\d\d-\d\d \d\d:\d\d to .*; messages read: {count}\.", first.text)
        words = quoted(first.text)
        assert 3 <= len(words) <= 8
        for text in words:
            assert await line.value("select count(*) from voidbot.messages where text = $1", text) == 1
        times = re.findall(r"(\d{4}-\d\d-\d\d \d\d:\d\d) \(message", first.text)
        assert len(times) == len(words) and times == sorted(times)
        assert (await tell(line, "Sam", "/summarize since:9w room:#workshop count:40")).text == first.text
        assert await line.value("select array_agg(distinct purpose || provider) from voidbot.usage") == [
            "summarizequotes"
        ]
        why = (await tell(line, "Wren", "/why", reply_to=first.id)).text
        assert "command:summarize" in why and why.count("message ") >= len(words)


async def test_a_room_that_the_asker_may_not_read_is_as_empty_as_one_that_is_not_there(fresh_dsn: str) -> None:
    model = ScriptedModel()
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        for room in ("staff", "nowhere", "dm:mara"):
            assert (await tell(line, "Wren", f"/summarize 50 {room}")).text == NOTHING
        assert model.requests == []
        for text in ("/summarize 0", "/summarize count:501", "/summarize 99999999999", "/summarize whenever"):
            assert "write" in (await tell(line, "Sam", text)).text
        await tell(line, "Mara", "/summarize 50 lobby")
        assert not any(word in prompt_of(model) for word in ("7319", "copperfox"))


async def test_the_usual_span_begins_where_the_asker_last_spoke(fresh_dsn: str) -> None:
    model = ScriptedModel()
    async with running_line(fresh_dsn, model=model) as line:
        await tell(line, "Root", "/void mode lurk archive:on")
        assert (await tell(line, "Ana", "/summarize")).text == NOTHING
        long_ago = line.clock.now() - timedelta(hours=30)
        await line.say("Cal", "Very old words.", sent_at=long_ago)
        for person, text in (("Ben", "Early words."), ("Ana", "I leave now."), ("Ben", "Late words.")):
            await line.say(person, text)
        await tell(line, "Ana", "/summarize")
        assert "Late words" in prompt_of(model) and "Early words" not in prompt_of(model)
        await tell(line, "Dee", "/summarize")
        assert "Early words" in prompt_of(model) and "Very old" not in prompt_of(model)
        assert "last 24 hours" in line.front_end.texts()[-1]
        await tell(line, "Ben", "/summarize")  # nothing came since
        assert "last 24 hours" in line.front_end.texts()[-1] and "I leave now" in prompt_of(model)


async def test_a_summary_keeps_what_cites_the_talk_and_nothing_else(fresh_dsn: str) -> None:
    def sum_up(request: ModelRequest) -> str:
        mdf = handle(request, "MDF is allowed in the laser cutter up to 4 mm")
        return (
            "Decisions:\n"
            f'- Elif wrote "MDF is allowed in the laser cutter" [{mdf}]. Everyone was happy about that.\n'
            f'- Elif wrote "MDF is strictly forbidden everywhere" [{mdf}].\n'
            "- The command was given [m1].\n"
            "Guesses:\n- Nobody knows more."
        )

    model = ScriptedModel(sum_up)
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        shown = await tell(line, "Wren", "/summarize 60 workshop")
        assert shown.part.private_to == "wren" and len(model.requests) == 1
        head, body, sources = re.split(r"\n\n", shown.text)
        assert head.startswith("#workshop, ")
        assert body == 'Decisions:\n- Elif wrote "MDF is allowed in the laser cutter" [1].'
        assert re.fullmatch(r"\[1\] Elif, #workshop, \d{4}-\d\d-\d\d \d\d:\d\d \(message \d+\)", sources)
        order = re.findall(r"<<data \S+ k(\d+) ", prompt_of(model))
        assert order == sorted(order, key=int) and len(order) > 5
        why = (await tell(line, "Wren", "/why")).text
        assert "command:summarize" in why and "uncited:4" in why and "role summary@1" in why


GARBAGE = {
    "no source": "They talked about many things.",
    "a source that is not there": "They agreed [k999].",
    "only the command": "They agreed [m1].",
    "nothing": "",
    "thinking": "<think>what do they want",
    "a silence word": "NO_REPLY",
}


@pytest.mark.parametrize("said", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.field("F030")
async def test_what_cites_nothing_is_asked_for_again_once_and_then_replaced(fresh_dsn: str, said: str) -> None:
    model = ScriptedModel(lambda _: said)
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        shown = await tell(line, "Wren", "/summarize 20 workshop")
        assert len(model.requests) == 2 and "could not be used" in prompt_of(model)
        assert "did not name its sources" in shown.text and quoted(shown.text)
        assert said not in shown.text or not said
        assert await line.value("select count(*) from voidbot.reservations where state = 'held'") == 0


async def test_deleted_words_and_those_of_who_opted_out_are_in_no_summary(fresh_dsn: str) -> None:
    model = ScriptedModel()
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        await tell(line, "Wren", "/summarize 60 garden")
        assert "hedgehog" in prompt_of(model)
        buried = line.message("Elif", "", "garden", kind=MessageKind.DELETE, message_id="g09")
        await line.app.receiver.accept(buried)
        mara = str(await line.value("select text from voidbot.messages m join voidbot.people p on p.id = m.author_id"
                                    " where account_ref = 'mara' and m.deleted_at is null limit 1"))  # fmt: skip
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.people set opted_out = true where account_ref = 'mara'")
        for room in ("garden", "lobby", "workshop"):
            text = (await tell(line, "Sam", f"/summarize 500 {room}")).text
            assert mara not in prompt_of(model) + text and "Mara, #" not in text
            assert '"Mara"' not in prompt_of(model) and "hedgehog lives" not in prompt_of(model)


async def _shown_after_the_room_closed(line: Line, clock: ManualClock, text: str) -> Shown:
    """Ask for something of the staff room, and close it to the asker while the answer waits to be sent."""
    line.front_end.results.append(RetryAfter(WAIT_S))
    await line.say("Jonas", text)
    await until(lambda: bool(line.front_end.calls))
    await open_to(line, "staff", "mara")
    await until(lambda: wait_over(line, clock))
    await line.answers(1)
    (shown,) = line.front_end.shown.values()
    return shown


@pytest.mark.parametrize("with_model", [True, False])
async def test_a_room_lost_while_the_summary_waits_is_in_none(
    fresh_dsn: str, clock: ManualClock, with_model: bool
) -> None:
    model = ScriptedModel(lambda request: f"The code is 7319 [{handle(request, '7319')}].")
    async with running_line(fresh_dsn, model=model if with_model else None, sample=True, clock=clock) as line:
        shown = await _shown_after_the_room_closed(line, clock, "/summarize 500 staff")
        assert shown.text == NOTHING and shown.part.private_to == "jonas"
        assert await line.value("select array_agg(state order by id) from voidbot.outbox") == ["dropped", "sent"]


async def test_who_has_lost_the_room_itself_has_it_read_to_no_model_again(fresh_dsn: str, clock: ManualClock) -> None:
    model = ScriptedModel(lambda request: f"The code is 7319 [{handle(request, '7319')}].")
    async with running_line(fresh_dsn, model=model, sample=True, clock=clock) as line:
        line.front_end.results.append(RetryAfter(WAIT_S))
        await line.say("Jonas", "/summarize 500", "staff")
        await until(lambda: bool(line.front_end.calls))
        await open_to(line, "staff", "mara")
        await until(lambda: wait_over(line, clock))
        await line.quiet()
        assert len(model.requests) == 1 and line.front_end.shown == {}


@pytest.mark.field("F057")
async def test_the_greatest_span_fits_and_what_is_left_out_is_said(fresh_dsn: str) -> None:
    model = ScriptedModel(
        lambda request: "All the same [k1]." if "/summarize" in request.messages[0].text else "Hello."
    )
    async with running_line(fresh_dsn, model=model) as line:
        await tell(line, "Root", "/void mode lurk archive:on")
        await line.say("Ana", "I was here first.")
        async with line.database.transaction() as tx:
            await tx.execute(
                "insert into voidbot.messages (community_id, room_id, author_id, platform_ref, archived_seq, kind,"
                " text, sent_at, index_state) select m.community_id, m.room_id, m.author_id, 'x' || n, 100 + n, 'text',"
                " rpad('Message ' || n || ' ', 4096, 'so it goes on and on, word upon word. '),"
                " m.sent_at - n * interval '1 millisecond', 'none'"
                " from voidbot.messages m, generate_series(1, 520) n where m.text = 'I was here first.'"
            )
        text = (await tell(line, "Ben", "/summarize")).text
        assert "messages read: 500." in text and "these are the newest" in text
        left = re.search(r"Left out for space: (\d+)\.", text)
        assert left is not None and 0 < int(left[1]) <= 470
        assert f"{left[1]} passages" in prompt_of(model) and len(prompt_of(model)) < 6 * 11_000
        assert (await tell(line, "Ben", "@void hi")).text == "Hello."
        assert "Hello" not in (await tell(line, "Ben", "/summarize 3")).text


async def test_a_summary_draws_on_the_budget_like_any_answer(fresh_dsn: str) -> None:
    model = ScriptedModel()
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        await tell(line, "Root", "/void budget room answers 0")
        refused = await tell(line, "Wren", "/summarize 20 workshop")
        assert model.requests == [] and refused.part.private_to == "wren" and "#workshop" not in refused.text
        assert await line.value("select reason from voidbot.turns order by id desc limit 1") == "budget_spent"
