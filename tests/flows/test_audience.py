"""Doors, lost memberships and borrowed words through the whole line."""

import pytest

from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.prompt import ModelRequest
from core.domain.speech import SilenceReason
from core.ports import RetryAfter
from core.store import access
from tests.fakes import ScriptedModel
from tests.flows.line import Line, running_line


async def ids(line: Line, person: str, room: str) -> tuple[CommunityId, PersonId, RoomId]:
    return (
        CommunityId(int(str(await line.value("select id from voidbot.communities order by id limit 1")))),
        PersonId(int(str(await line.value("select id from voidbot.people where account_ref = $1", person)))),
        RoomId(int(str(await line.value("select id from voidbot.rooms where chat_ref = $1", room)))),
    )


async def open_to(line: Line, room: str, *persons: str) -> None:
    """Let these people alone read a room, or everybody if none is named."""
    home, _, room_id = await ids(line, "mara", room)
    readers = [(await ids(line, person, room))[1] for person in persons]
    async with line.database.transaction() as tx:
        await access.save_access(tx, room_id, home, everyone=not persons, users=readers)


@pytest.mark.field("F041")
async def test_who_is_no_reader_neither_speaks_nor_asks_there(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda _: "Ten.")
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        before = await line.value("select count(*) from voidbot.messages")
        for text in ("@void what is the alarm code?", "/search code", "/why", "/void mode open", "just talk"):
            refused = await line.say("Wren", text, "staff")
            assert (refused.outcome, refused.reason) == ("no_speech", SilenceReason.NO_PERMISSION)
        await line.say("Wren", "@void hello", "dm:mara")
        await line.quiet()
        assert model.requests == [] or "alarm" not in str(model.requests)
        assert await line.value("select count(*) from voidbot.messages") == before
        assert await line.value("select coalesce(max(text), '') from voidbot.inbox where room_id ="
                                " (select id from voidbot.rooms where chat_ref = 'staff')") == ""  # fmt: skip


@pytest.mark.field("F041")
async def test_a_lost_room_is_not_used_in_the_next_answer(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda _: f"Answer {len(model.requests)}.")
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        for _ in range(2):
            await line.say("Jonas", "/ask private:yes what is the new alarm code?")
            await line.say("Jonas", "/search alarm code")
            await line.quiet()
            await open_to(line, "staff", "mara")
        assert ["7319" in request.messages[0].text for request in model.requests] == [True, False]
        answers = [text for text in line.front_end.texts() if "Answer" not in text]
        assert ["7319" in text for text in answers] == [True, False]


@pytest.mark.parametrize("asked", ["/ask private:yes what is the new alarm code?", "/search new alarm code"])
async def test_a_room_lost_while_the_answer_waits_is_not_sent(fresh_dsn: str, asked: str) -> None:
    model = ScriptedModel(lambda request: "It is 7319." if "7319" in request.messages[0].text else "I do not know.")
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        line.front_end.results.append(RetryAfter(2.0))
        await line.say("Jonas", asked, "staff")
        while not line.front_end.calls:
            await line.value("select pg_sleep(0.02)")
        await open_to(line, "staff", "mara")
        await line.quiet()
        assert "7319" not in str(line.front_end.texts())
        assert await line.value("select count(*) > 0 from voidbot.outbox where state = 'dropped'")
        kinds = await line.value("select array_agg(distinct kind) from voidbot.outbox")
        assert kinds == (["command"] if asked.startswith("/search") else ["reply"])


async def test_our_answer_from_one_room_is_not_reused_where_that_room_is_closed(fresh_dsn: str) -> None:
    def answer(request: ModelRequest) -> str:
        knows = "7319" in request.messages[0].text or "copperfox" in request.messages[0].text
        return f"Answer {len(model.requests)}: " + ("sevenseven [k1]" if knows else "I do not know.")

    model = ScriptedModel(answer)
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        await open_to(line, "garden", "mara", "jonas")
        await line.say("Mara", "@void what is the new alarm code?", "garden")
        await line.quiet()
        assert "7319" in model.requests[-1].messages[0].text
        await line.say("Mara", "@void and how does the safe open?", "garden")
        await line.quiet()
        assert "sevenseven" in model.requests[-1].messages[0].text  # its own words, among those who may read both
        await open_to(line, "garden")
        for person, reply_to in (("Wren", None), ("Mara", None), ("Wren", "s1")):
            await line.say(person, "@void and now? alarm code?", "garden", reply_to=reply_to)
            await line.quiet()
            prompt = model.requests[-1].messages[0].text
            assert not any(word in prompt for word in ("sevenseven", "7319", "copperfox"))
        await line.say("Wren", "/why message:s1", "garden")
        assert "a source you can't see" in (await line.answers(6))[-1]


@pytest.mark.field("F036")
async def test_each_of_two_askers_gets_the_answer_to_their_own_question(fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: "pears" if "pears?" in request.messages[0].text else "plums")
    async with running_line(fresh_dsn, model=model) as line:
        asked = []
        for n in range(6):
            fruit, person = ("pears", "Ana") if n % 2 else ("plums", "Ben")
            message = line.message(person, f"@void what of the {fruit}?", f"room{n % 3}")
            asked.append((message.message_id, fruit, message.room.chat_ref))
            await line.app.receiver.accept(message)
        await line.quiet()
        shown = [(each.part.reply_to, each.text, each.part.room.chat_ref) for each in line.front_end.shown.values()]
        assert sorted(map(str, shown)) == sorted(map(str, asked))
        for room in ("room0", "room1", "room2"):
            assert [each for each in shown if each[2] == room] == [each for each in asked if each[2] == room]
