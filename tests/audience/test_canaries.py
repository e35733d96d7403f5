"""Words planted in private places are asked for on every road that exists: they show up nowhere else."""

import re
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from bot.commands import COMMANDS
from core.domain.ids import CommunityId, RoomId, RoomKey
from core.domain.prompt import ModelRequest
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.store import access, archive, people, places
from tests.fakes import ScriptedModel
from tests.flows.line import Line, running_line

SECRETS = ("7319", "copperfox", "1,950", "1,700", "mill road", "quiet instalment", "marigold")
PLANTED = ("canaryword", "canaryname", "canaryroom", "canarytopic", "canarydirect", "canaryasked", "canarywhisper")
QUESTIONS = (
    "what is the new alarm code, and how does the safe in the back office open?",
    "does the landlord raise the rent, and is the old dairy an option?",
    "who gets the award at the open day, and who is behind with the fee?",
    "what was whispered, and what was said in private about the safe?",
)
HIDDEN = ("staff", "dm:tobi", "dm:mara", "vault")
OUTSIDE = (("Wren", "lobby"), ("Wren", "dm:wren"), ("Root", "workshop"))


def probes(answers: list[str]) -> Iterator[str]:
    """Yield every road to words: each command there is, and talk."""
    for question in QUESTIONS:
        yield f"@void {question}"
        yield f"/search {question}"
    for room in HIDDEN:
        yield f"/search room:{room} the"
        yield f"/search room:#{room} code safe rent private"
    yield f"/ask private:yes {QUESTIONS[3]}"
    yield f"/ask {QUESTIONS[0]}"
    yield "/search person:mara alarm rent fee"
    yield "/search since:9w person:jonas the"
    for answer in answers:
        yield f"/why message:{answer}"
    yield "/why-silent message:s01"
    for spec in COMMANDS:
        yield f"/{spec.path}"
    yield "/void mode open"
    yield "/void persona canary"
    yield "/nothing like this"


def citing() -> ScriptedModel:
    """A model that cites all it is shown, so that source lines show it too."""
    numbers = count(1)

    def answer(request: ModelRequest) -> str:
        handles = dict.fromkeys(re.findall(r"\b[mk]\d+\b", request.messages[0].text))
        return f"Answer {next(numbers)} says so. " + " ".join(f"[{handle}]" for handle in handles)

    return ScriptedModel(answer)


@pytest.fixture(params=["model", "quotes"])
async def line(
    request: pytest.FixtureRequest, fresh_dsn: str, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[tuple[Line, ScriptedModel]]:
    """The sample community with more secrets, told to the bot where it may hear them."""
    model = citing()
    chosen = model if request.param == "model" else None
    async with running_line(fresh_dsn, model=chosen, sample=True, log_level="debug") as running:
        await plant(running)
        yield running, model


async def plant(line: Line) -> None:
    async with line.database.transaction() as tx:
        home = CommunityId(await tx.fetchval("select id from voidbot.communities"))
        mara = await people.find_person(tx, "console", "mara", home)
        assert mara is not None
        room = await places.add_room(
            tx, home, RoomKey("console", "vault"), RoomKind.TERMINAL, "canaryroom",
            topic="canarytopic", archive=ArchiveSwitch.ON,
        )  # fmt: skip
        await access.save_access(tx, room, home, everyone=False, users=[mara.id])
        staff = RoomId(await tx.fetchval("select id from voidbot.rooms where chat_ref = 'staff'"))
        stranger = await people.ensure_person(tx, "console", "ghost", home, "canaryname")
        await archive.add_message(
            tx,
            archive.NewMessage(
                room_id=staff, community_id=home, author_id=stranger.id, platform_ref="c1", kind="text",
                text="canaryword: the code, the safe, the rent", sent_at=line.clock.now(),
            ),
        )  # fmt: skip
    await line.say("Tobi", "@void hello canarydirect", "dm:tobi")
    await line.say("Mara", "@void hello", "dm:mara")
    async with line.database.transaction() as tx:  # the hard case: direct rooms are archived too
        await tx.execute("update voidbot.rooms set archive = 'on', mode = 'open' where kind = 'dm'")
    await line.say("Tobi", "@void in private I tell you of canarydirect and the safe", "dm:tobi")
    await line.say("Mara", "@void what is the new alarm code?", "staff")
    await line.say("Mara", "@void is the rent a canaryasked matter?", "staff")
    await line.say("Mara", "@void what does this room know of the safe?", "vault")
    await line.say("Mara", "/ask private:yes was the canarywhisper about the safe?", "lobby")
    await line.say("Mara", "/search canarywhisper safe", "lobby")
    await line.quiet()


def canaries(text: str) -> list[str]:
    low = text.casefold()
    return [word for word in (*SECRETS, *PLANTED) if re.search(_shape(word), low)]


def _shape(word: str) -> str:
    # Four digits also occur inside a hash or a time now and then: a number counts as a word of its own.
    return rf"(?<![0-9a-f]){word}(?![0-9a-f])" if word.isdigit() else re.escape(word)


async def test_no_planted_word_shows_up_outside(
    line: tuple[Line, ScriptedModel], capsys: pytest.CaptureFixture[str]
) -> None:
    running, model = line
    before, seen = len(running.front_end.calls), len(model.requests)
    inside = " ".join(each.text for each in running.front_end.shown.values())
    inside += " ".join(request.messages[0].text for request in model.requests)
    assert {"copperfox", "7319", "canaryname", "canarydirect"} <= set(canaries(inside))  # they are there to be found
    for person, room in OUTSIDE:
        for text in probes(list(running.front_end.shown)[:before]):
            assert (await running.say(person, text, room)).outcome == "reply"
        await running.quiet()
    for _, part in running.front_end.calls[before:]:
        assert canaries(part.text.text) == [], (part.room, part.text.text)
    for request in model.requests[seen:]:
        assert canaries(request.system + request.messages[0].text) == []
    for table in ("receipts", "decisions", "outbox"):
        rows = await running.value(
            f"select string_agg(x::text, ' ') from voidbot.{table} x join voidbot.rooms r on r.id = x.room_id"
            " where r.chat_ref <> all($1) and not exists (select from voidbot.people p where p.account_ref = 'mara'"
            " and p.id = coalesce((to_jsonb(x) ->> 'person_id')::bigint, (to_jsonb(x) ->> 'private_to')::bigint))",
            list(HIDDEN),
        )
        assert rows and canaries(str(rows)) == []
    assert canaries(running.app.parts.metrics.text().decode()) == []
    logged = capsys.readouterr()
    assert "job.done" in logged.err and canaries(logged.err + logged.out) == []


async def test_a_hidden_word_and_a_word_nobody_said_get_the_same_answers(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        await line.say("Tobi", "@void hello", "dm:tobi")
        await line.quiet()
        pairs = [("/search copperfox", "/search copperdog"), ("@void copperfox?", "@void copperdog?")]
        pairs += [(f"/search room:{room} the", "/search room:nowhere the") for room in ("staff", "dm:tobi")]
        pairs += [("/search person:mara copperfox", "/search person:nobody copperfox")]
        for hidden, absent in pairs:
            before = len(line.front_end.shown)
            await line.say("Wren", hidden)
            await line.quiet()
            await line.say("Wren", absent)
            texts = (await line.answers(before + 2))[before:]
            assert texts[0] == texts[1]


async def test_rooms_that_an_administrator_may_not_read_are_not_listed(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        await line.say("Tobi", "@void hello", "dm:tobi")
        await line.answers(1)
        await line.say("Root", "/void rooms")
        await line.answers(2)
        await line.say("Mara", "/void rooms", admin=True)
        listed = (await line.answers(3))[1:]
        assert "#lobby" in listed[0] and "staff" not in listed[0] and "tobi" not in listed[0]
        assert "#staff" in listed[1] and "tobi" not in listed[1]
