"""What happens to an answer that is decided and not yet sent: late, silenced, closed, gone, or at another's place."""

from dataclasses import replace

import pytest

from core.domain.ids import CommunityId, RoomId, RoomKey
from core.domain.rooms import ArchiveSwitch, RoomMode
from core.domain.speech import SilenceReason
from core.ports import RetryAfter, SendRefused, Unsent
from core.store import access, places
from tests.crash.child import answer_to, token_of
from tests.crash.stages import HeldModel, line_that_cannot_send, line_that_only_sends
from tests.fakes import ManualClock, RecordingFrontEnd, ScriptedModel
from tests.flows.line import Line, running_line, until

ENDED = "select state || ':' || coalesce(reason, '') from voidbot.turns order by id desc limit 1"


async def holds(line: Line, sql: str) -> bool:
    return await line.value(sql) is True


async def answered(line: Line, number: int = 1) -> None:
    """Wait until so many answers are decided; none is sent."""

    async def decided() -> bool:
        return await line.value("select count(*) from voidbot.outbox where state = 'ready'") == number

    await until(decided)


async def room_id(line: Line, name: str) -> RoomId:
    return RoomId(int(str(await line.value("select id from voidbot.rooms where chat_ref = $1", name))))


async def close_to_everyone(line: Line, name: str) -> None:
    room = await room_id(line, name)
    community = CommunityId(int(str(await line.value("select community_id from voidbot.rooms where id = $1", room))))
    async with line.database.transaction() as tx:
        await access.save_access(tx, room, community, everyone=False)


async def keep_a_saying(line: Line, name: str, text: str) -> None:
    """Let a room be archived, and something be said in it."""
    await line.say("Ben", "hello all", room=name)
    room = await room_id(line, name)
    async with line.database.transaction() as tx:
        await places.save_mode(tx, room, archive=ArchiveSwitch.ON)
    await line.say("Ben", text, room=name)


async def test_an_answer_that_comes_late_names_its_question(fresh_dsn: str, clock: ManualClock) -> None:
    async with line_that_cannot_send(fresh_dsn, ScriptedModel(), clock) as line:
        await line.say("Ana", "@void when is the feast?")
        await answered(line)
        await clock.advance(16 * 60)
    async with running_line(fresh_dsn, model=ScriptedModel(), clock=clock) as line:
        (text,) = await line.answers(1)
        assert "when is the feast?" in text and text.endswith("Certainly.")


async def test_an_answer_that_is_hours_late_is_dropped(fresh_dsn: str, clock: ManualClock) -> None:
    async with line_that_cannot_send(fresh_dsn, ScriptedModel(), clock) as line:
        await line.say("Ana", "@void when is the feast?")
        await answered(line)
        await clock.advance(6 * 3600 + 1)
    async with running_line(fresh_dsn, model=ScriptedModel(), clock=clock) as line:
        await line.quiet()
        assert line.front_end.shown == {}
        assert await line.value(ENDED) == f"silent:{SilenceReason.TOO_OLD}"


async def test_a_room_silenced_meanwhile_stays_silent(fresh_dsn: str) -> None:
    async with line_that_cannot_send(fresh_dsn, ScriptedModel()) as line:
        await line.say("Ana", "@void when is the feast?")
        await answered(line)
        async with line.database.transaction() as tx:
            await places.save_mode(tx, RoomId(1), mode=RoomMode.SILENT)
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        await line.quiet()
        assert line.front_end.shown == {}
        assert await line.value(ENDED) == f"silent:{SilenceReason.MODE_SILENT}"


async def test_a_room_that_is_gone_gets_nothing(fresh_dsn: str) -> None:
    async with line_that_cannot_send(fresh_dsn, ScriptedModel()) as line:
        await line.say("Ana", "@void when is the feast?")
        await answered(line)
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.rooms set state = 'deleted'")
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        await line.quiet()
        assert line.front_end.shown == {}
        assert await line.value(ENDED) == f"silent:{SilenceReason.ROOM_GONE}"


async def test_an_answer_whose_source_closed_is_made_once_more_without_it(fresh_dsn: str) -> None:
    async with line_that_cannot_send(fresh_dsn) as line:
        await keep_a_saying(line, "den", "The feast begins at nine in the old barn.")
        await line.say("Ana", "@void the feast begins")
        await answered(line)
        assert "barn" in str(await line.value("select body from voidbot.outbox"))
        await close_to_everyone(line, "den")
    async with running_line(fresh_dsn) as line:
        (text,) = await line.answers(1)
        assert "barn" not in text
        assert await line.value("select array_agg(state order by id) = '{dropped,sent}' from voidbot.outbox")


async def test_an_answer_whose_sources_close_twice_is_blocked(fresh_dsn: str) -> None:
    async with line_that_cannot_send(fresh_dsn) as line:
        await keep_a_saying(line, "den", "The feast begins at nine in the old barn.")
        await keep_a_saying(line, "loft", "The feast begins at ten in the new hall.")
        await line.say("Ana", "@void the feast begins")
        await answered(line)
        await close_to_everyone(line, "den")
    front_end = RecordingFrontEnd()
    async with line_that_only_sends(fresh_dsn, front_end) as line:
        await until(lambda: holds(line, "select state = 'dropped' from voidbot.outbox"))
    async with line_that_cannot_send(fresh_dsn) as line:
        await answered(line)
        assert "hall" in str(await line.value("select body from voidbot.outbox order by id desc limit 1"))
        await close_to_everyone(line, "loft")
    async with running_line(fresh_dsn, front_end=front_end) as line:
        await line.quiet()
        assert front_end.shown == {}
        assert await line.value(ENDED) == f"silent:{SilenceReason.GUARD_BLOCKED}"


@pytest.mark.parametrize("result", [RetryAfter(0.0), Unsent("no route"), SendRefused("form", form=True)])
async def test_what_was_certainly_not_sent_is_tried_again(fresh_dsn: str, result: RetryAfter) -> None:
    front_end = RecordingFrontEnd(nonce_window=None, history=False)
    front_end.results.append(result)
    async with running_line(fresh_dsn, front_end=front_end, model=ScriptedModel()) as line:
        await line.say("Ana", "@void hello")
        assert await line.answers(1) == ["Certainly."]
        assert await line.value("select state from voidbot.outbox") == "sent"


async def test_a_stream_asked_to_pause_at_its_first_words_leaves_no_doubt(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd(nonce_window=None, history=False, stream_every_s=0.0)
    front_end.results.append(RetryAfter(0.0))
    model = ScriptedModel(lambda _: "<think>Let me see.</think>\nFirst a sentence.\nThen another one.\nAnd an end.")
    async with running_line(fresh_dsn, front_end=front_end, model=model) as line:
        await line.say("Ana", "@void hello")
        assert await line.answers(1) == ["First a sentence.\nThen another one.\nAnd an end."]
        assert await line.value("select state from voidbot.outbox") == "sent"


async def test_a_lost_answer_where_nothing_folds_is_unknown_once(fresh_dsn: str) -> None:
    front_end = RecordingFrontEnd(nonce_window=None, history=False)
    front_end.lost = 1
    async with running_line(fresh_dsn, front_end=front_end, model=ScriptedModel()) as line:
        await line.say("Ana", "@void hello")
        assert await line.answers(1) == ["Certainly."]
        assert await line.value("select state from voidbot.outbox") == "unknown"
        assert [kind for kind, _ in front_end.calls] == ["send"]


@pytest.mark.field("F013")
async def test_answers_go_to_the_topics_of_their_questions_across_a_restart(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: answer_to(token_of(request)))
    async with line_that_cannot_send(fresh_dsn, model) as line:
        for topic, token in (("55", "q55"), ("60", "q60")):
            message = line.message("Ana", f"@void what is {token}?")
            await line.app.receiver.accept(replace(message, room=RoomKey("console", "group", topic)))
        await answered(line, 2)
    async with running_line(fresh_dsn, model=model) as line:
        await line.answers(2)
        said = {shown.part.room.topic_ref: shown.text for shown in line.front_end.shown.values()}
        assert said == {"55": answer_to("q55"), "60": answer_to("q60")}


@pytest.mark.field("F036")
async def test_people_who_ask_at_once_get_their_own_answers(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: answer_to(token_of(request)))
    async with running_line(fresh_dsn, model=model) as line:
        asked = {}
        for n, (person, room) in enumerate([("Ana", "lobby"), ("Ben", "lobby"), ("Cem", "den"), ("Dea", "den")]):
            message = line.message(person, f"@void what is q{n}?", room=room)
            asked[message.message_id] = answer_to(f"q{n}")
            await line.app.receiver.accept(message)
        await line.answers(4)
        assert {shown.part.reply_to: shown.text for shown in line.front_end.shown.values()} == asked


@pytest.mark.field("F037")
async def test_a_private_answer_that_ends_after_others_spoke_stays_private(fresh_dsn: str) -> None:
    model = HeldModel()
    async with running_line(fresh_dsn, model=model) as line:
        await line.say("Ana", "hello, what is my secret?", room="dm:ana")
        await model.called.wait()
        await line.say("Ben", "@void hello", room="lobby")
        model.go_on.set()
        await line.answers(2)
        rooms = {shown.part.reply_to: shown.part.room.chat_ref for shown in line.front_end.shown.values()}
        assert rooms == {"m1": "dm:ana", "m2": "lobby"}
