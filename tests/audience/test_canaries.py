"""Words planted in private places are asked for on every road that exists: they show up nowhere else."""

import re
import zipfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import aiohttp
import pytest

from bot.commands import COMMANDS
from bot.kinds import kinds_of
from bot.readiness import checks_of
from bot.web.server import HealthServer
from core.domain.passes import PassName
from core.domain.prompt import ModelRequest, PromptKind
from core.store import lore_search
from tests.audience.planted import HIDDEN, KINDS, MAY_HOLD, QUESTIONS, ROADS, TALK, canaries, plant
from tests.fakes import ScriptedModel
from tests.flows.line import HOME, Line, running_line
from tests.flows.test_audience import ids, open_to

SHORT = (("Wren", "lobby", ROADS), ("Jonas", "lobby", {"search": ROADS["search"][:3], "me": ("/me",)}))
"""Who asks each day, where, and how; Jonas has lost the room of the staff a moment ago."""
LONG = (
    *((person, room, ROADS) for person in ("Wren", "Jonas", "Elif") for room in ("lobby", "workshop")),
    ("Wren", "dm:wren", ROADS), ("Jonas", "dm:jonas", ROADS), ("Root", "workshop", ROADS),
)  # fmt: skip
Asked = tuple[tuple[str, str, dict[str, tuple[str, ...]]], ...]
ADMIN = tuple(text for path, texts in ROADS.items() if path.startswith("void") for text in texts)


def citing() -> ScriptedModel:
    """A model that cites all it is shown, so that source lines show it too; now and then wrongly, to be asked again."""
    numbers = count(1)

    def answer(request: ModelRequest) -> str:
        n = next(numbers)
        handles = dict.fromkeys(re.findall(r"\b[mkd]\d+\b", request.messages[0].text))
        wrong = " [k999]" if n % 5 == 0 else ""
        return f"Answer {n} says so{wrong}. " + " ".join(f"[{handle}]" for handle in handles)

    return ScriptedModel(answer)


def probes(roads: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield every road to words: each command there is, and talk."""
    yield from TALK
    for texts in roads.values():
        yield from texts


@pytest.mark.parametrize(
    ("asked", "quotes"),
    [
        pytest.param(SHORT, False, id="model"),
        pytest.param((("Root", "workshop", {"void": ADMIN}), ("Wren", "dm:wren", {})), True, id="quotes"),
        pytest.param(LONG, False, id="model-long", marks=pytest.mark.long),
        pytest.param(LONG, True, id="quotes-long", marks=pytest.mark.long),
    ],
)
async def test_no_planted_word_shows_up_outside(
    fresh_dsn: str, capsys: pytest.CaptureFixture[str], asked: Asked, quotes: bool
) -> None:
    model = citing()
    async with running_line(fresh_dsn, model=None if quotes else model, sample=True, log_level="debug") as line:
        await plant(line)
        await told_in_private(line)
        before, seen = len(line.front_end.calls), len(model.requests)
        inside = " ".join(each.text for each in line.front_end.shown.values())
        inside += " ".join(request.messages[0].text for request in model.requests)
        assert {"copperfox", "7319", "canaryname", "canarychunk", "canarysource", "canarythought"} <= set(
            canaries(inside)
        )  # there to be found
        await open_to(line, "staff", "mara")  # Jonas loses it
        for person, room, roads in asked:
            for text in probes(roads):
                assert (await line.say(person, text, room)).outcome == "reply", text
            await line.quiet()
        for _, part in line.front_end.calls[before:]:
            assert canaries(part.text.text) == [], (part.room, part.text.text)
        for request in model.requests[seen:]:
            assert canaries(request.system + request.messages[0].text) == []
        await _look_inside(line)
        if not quotes:
            purposes = await line.value("select array_agg(distinct purpose) from voidbot.usage where result = 'ok'")
            known = {kind.value for kind in PromptKind} | {f"pass_{name}" for name in PassName}
            assert {"reply", "summarize"} <= set(purposes or ()) <= known  # type: ignore[call-overload]  # names
    logged = capsys.readouterr()
    assert "job.done" in logged.err and canaries(logged.err + logged.out) == []


async def told_in_private(line: Line) -> None:
    """Tell the bot more secrets, where it may hear them, and have them answered there."""
    await line.say("Tobi", "@void hello canarydirect", "dm:tobi")
    await line.say("Mara", "@void hello", "dm:mara")
    async with line.database.transaction() as tx:  # the hard case: direct rooms are archived too
        await tx.execute("update voidbot.rooms set archive = 'on', mode = 'open' where kind = 'dm'")
    await line.say("Tobi", "@void in private I tell you of canarydirect and the safe", "dm:tobi")
    await line.say("Mara", f"@void {QUESTIONS[0]}", "staff")
    await line.say("Mara", "@void is the rent a canaryasked matter?", "staff")
    await line.say("Mara", "@void what does this room know of the safe?", "vault")
    await line.say("Mara", "/ask private:yes was the canarywhisper about the safe?", "lobby")
    await line.say("Mara", "/search canarywhisper safe", "lobby")
    await line.say("Mara", "/summarize room:staff count:20", "lobby")
    await line.say("Mara", "/mind", "staff")
    await line.quiet()


async def _look_inside(line: Line) -> None:
    """Read through every table that is not there for people's words, what answers hold, figures, pages and files."""
    tables = await line.value(
        "select array_agg(n.nspname || '.' || c.relname order by 1) from pg_class c join pg_namespace n"
        " on n.oid = c.relnamespace where c.relkind in ('r', 'p') and n.nspname in ('voidbot', 'queue')"
    )
    for table in tables or ():  # type: ignore[attr-defined]  # names
        if table.removeprefix("voidbot.") not in MAY_HOLD:
            held = await line.value(f"select coalesce(string_agg(x::text, ' '), '') from {table} x")
            assert canaries(str(held)) == [], table
    rows = await line.value(
        "select string_agg(concat_ws(' ', x.body, p.text), ' ') from voidbot.outbox x"
        " join voidbot.outbox_parts p on p.outbox_id = x.id join voidbot.rooms r on r.id = x.room_id"
        " where r.chat_ref <> all($1) and x.private_to is distinct from"
        " (select id from voidbot.people where account_ref = 'mara')",
        list(HIDDEN),
    )
    assert rows and canaries(str(rows)) == []
    metrics = line.app.parts.metrics
    checks = checks_of(line.database, line.app.parts.front_ends)
    server = HealthServer(checks, metrics.text, line.clock, version="1")
    async with server, aiohttp.ClientSession() as session:
        address = await server.start("127.0.0.1", 0)
        for path in ("", "healthz", "readyz", "metrics"):
            async with session.get(address.url + path) as answer:
                assert canaries(await answer.text()) == []
    said = await line.value(
        "select string_agg(m.text, ' ') from voidbot.messages m join voidbot.people p on p.id = m.author_id"
        " where p.account_ref = 'jonas'"
    )
    own = set(canaries(str(said)))
    for text in line.front_end.texts():
        for name in re.findall(rf"{re.escape(str(HOME))}\S+\.zip", text):
            with zipfile.ZipFile(Path(name)) as file:
                found = {word for each in file.namelist() for word in canaries(file.read(each).decode())}
            assert found <= own  # what one said oneself is in one's own file


async def test_a_new_road_has_to_be_listed(fresh_dsn: str) -> None:
    assert set(ROADS) == {spec.path for spec in COMMANDS}
    assert set(PromptKind) == {PromptKind.REPLY, PromptKind.REPAIR, PromptKind.SUMMARIZE}  # each is asked for above
    async with running_line(fresh_dsn) as line:
        assert set(KINDS) == set(kinds_of(line.app.parts))


async def test_lore_of_a_room_is_found_by_its_readers_alone(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, sample=True) as line:
        await plant(line)
        home, _, staff = await ids(line, "mara", "staff")
        _, _, lobby = await ids(line, "mara", "lobby")
        async with line.database.transaction() as tx:
            assert len(await lore_search.search_chunks(tx, [staff], home, "canarychunk", 5)) == len(QUESTIONS)
            assert await lore_search.search_chunks(tx, [lobby], home, "canarychunk", 5) == []


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
