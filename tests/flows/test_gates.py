"""Whether the bot answers: modes, hours, pauses, authors, pace and budgets; each refusal explains itself."""

from collections.abc import AsyncIterator
from datetime import time
from zoneinfo import ZoneInfo

import pytest

from core.chat import receipts
from core.domain.messages import Address, Origin
from core.domain.speech import SilenceReason
from core.store.decisions import DecisionRow
from tests.conftest import on_database, run_sql
from tests.fakes import RecordingFrontEnd, ScriptedModel
from tests.flows.line import Line, running_line

MENTION, REPLY, NAME = frozenset({Address.MENTION}), frozenset({Address.REPLY}), frozenset({Address.NAME})
NOBODY: frozenset[Address] = frozenset()


@pytest.fixture(scope="module")
async def line(server: str, template: str) -> AsyncIterator[Line]:
    """One running line for many small cases, each in a room of its own."""
    await run_sql(server, f"create database gates_line template {template}")
    async with running_line(on_database(server, "gates_line"), model=ScriptedModel(lambda _: "Ten.")) as running:
        yield running
    await run_sql(server, "drop database gates_line with (force)")


async def change(line: Line, room: str, sets: str, *args: object) -> None:
    """Change a room's row, which is made first if it is not there."""
    await line.say("Zoe", "just talk", room)
    async with line.database.transaction() as tx:
        await tx.execute(f"update voidbot.rooms set {sets} where chat_ref = $1", room, *args)


async def last(line: Line) -> str:
    await line.quiet()
    return line.front_end.texts()[-1]


@pytest.mark.parametrize(
    ("mode", "how", "reason"),
    [
        ("silent", MENTION, SilenceReason.MODE_SILENT),
        ("silent", REPLY, SilenceReason.MODE_SILENT),
        ("silent", NAME, SilenceReason.MODE_SILENT),
        ("silent", NOBODY, SilenceReason.NOT_ADDRESSED),
        ("mention", MENTION, None),
        ("mention", REPLY, None),
        ("mention", NAME, SilenceReason.NOT_ADDRESSED),
        ("mention", NOBODY, SilenceReason.NOT_ADDRESSED),
        ("lurk", MENTION, None),
        ("lurk", REPLY, None),
        ("lurk", NAME, None),
        ("lurk", NOBODY, SilenceReason.NOT_ADDRESSED),
        ("open", MENTION, None),
        ("open", NAME, None),
        ("open", NOBODY, SilenceReason.NOT_ADDRESSED),
    ],
)
async def test_each_mode_answers_what_the_table_says(
    line: Line, mode: str, how: frozenset[Address], reason: SilenceReason | None
) -> None:
    room = f"{mode}-{'-'.join(sorted(how))}"
    await change(line, room, "mode = $2, archive = 'on'", mode)
    before = len(line.front_end.shown)
    accepted = await line.say("Ana", "well, void?", room, addressed_by=how)
    assert accepted.reason is reason
    await line.quiet()
    assert len(line.front_end.shown) - before == (reason is None)
    await line.say("Ana", "/why-silent", room)
    said = await last(line)
    assert ("accepted" in said) == (reason is None)
    if reason is not None:
        assert "I said nothing" in said
        decided = await line.value(
            "select reason from voidbot.decisions d join voidbot.rooms r on r.id = d.room_id"
            " where r.chat_ref = $1 and outcome = 'no_speech'",
            room,
        )
        assert decided == (reason if how else None)


@pytest.mark.parametrize(
    "sets", ["mode = 'silent'", "paused = true", "quiet_from = '00:00', quiet_to = '23:59:59.999'"]
)
async def test_commands_work_where_the_bot_is_quiet_and_are_answered_to_the_asker_alone(line: Line, sets: str) -> None:
    room = f"quiet-{abs(hash(sets))}"
    await change(line, room, sets)
    for text in ("/usage", "/ask when is it?", "/void mode"):
        before = len(line.front_end.shown)
        assert (await line.say("Root", text, room)).outcome == "reply"
        await line.answers(before + 1)
        (shown,) = list(line.front_end.shown.values())[before:]
        assert shown.part.private_to == "root" or (text == "/void mode" and "silent" not in sets)


@pytest.mark.field("F056")
async def test_quiet_hours_over_midnight_call_no_model(line: Line) -> None:
    hour = line.clock.now().hour
    await change(line, "night", "quiet_from = $2, quiet_to = $3", time((hour - 1) % 24, 0), time((hour + 2) % 24, 0))
    calls = await line.value("select count(*) from voidbot.usage")
    assert (await line.say("Ana", "@void hello?", "night")).reason is SilenceReason.QUIET_HOURS
    await line.say("Ana", "/why-silent", "night")
    assert "quiet hours" in await last(line)
    assert await line.value("select count(*) from voidbot.usage") == calls


async def test_a_pause_and_a_closed_room_say_so(line: Line) -> None:
    await change(line, "held", "paused = true")
    assert (await line.say("Ana", "@void hello?", "held")).reason is SilenceReason.PAUSED
    await line.say("Ana", "/why-silent", "held")
    assert "paused" in await last(line)
    await change(line, "gone", "state = 'deleted'")
    assert (await line.say("Ana", "@void hello?", "gone")).reason is SilenceReason.ROOM_GONE
    assert (await line.say("Ana", "/usage", "gone")).reason is SilenceReason.ROOM_GONE


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        (Origin.SELF, SilenceReason.OWN_MESSAGE),
        (Origin.BOT, SilenceReason.BOT_IGNORED),
        (Origin.WEBHOOK, SilenceReason.WEBHOOK),
        (Origin.CHANNEL, SilenceReason.WEBHOOK),
        (Origin.PROXIED, None),
        (Origin.ANONYMOUS_ADMIN, None),
    ],
)
async def test_only_people_are_answered(line: Line, origin: Origin, reason: SilenceReason | None) -> None:
    room = f"by-{origin}"
    await change(line, room, "archive = 'on', mode = 'open'")
    person = f"Writer {origin}"
    assert (await line.say(person, "@void is the kettle on?", room, origin=origin)).reason is reason
    await line.quiet()
    stored = "select p.is_bot from voidbot.messages m join voidbot.people p on p.id = m.author_id"
    is_bot = await line.value(f"{stored} where m.text like '%kettle%' and p.account_ref = $1", person.lower())
    assert is_bot is {Origin.SELF: None, Origin.BOT: True, Origin.WEBHOOK: True, Origin.CHANNEL: True}.get(
        origin, False
    )


@pytest.mark.field("F039")
async def test_an_echo_of_ours_is_neither_kept_nor_answered(line: Line) -> None:
    await change(line, "echo", "archive = 'on', mode = 'open'")
    for how in (MENTION, NOBODY):
        await line.say("Void", "@void what we said ourselves", "echo", origin=Origin.SELF, addressed_by=how)
    await line.quiet()
    assert await line.value("select count(*) from voidbot.messages where text like '%said ourselves%'") == 0


async def test_who_opted_out_is_left_alone_but_may_use_commands(line: Line) -> None:
    await line.say("Olga", "@void hello", "opted")
    await line.quiet()
    async with line.database.transaction() as tx:
        await tx.execute("update voidbot.people set opted_out = true where account_ref = 'olga'")
        await tx.execute("update voidbot.rooms set archive = 'on' where chat_ref = 'opted'")
    assert (await line.say("Olga", "@void hello", "opted")).reason is SilenceReason.PERSON_OPTED_OUT
    assert (await line.say("Olga", "/usage", "opted")).outcome == "reply"
    await line.quiet()
    kept = "select count(*) from voidbot.messages m join voidbot.rooms r on r.id = m.room_id where r.chat_ref = 'opted'"
    assert await line.value(f"{kept} and m.kind = 'text'") == 0


@pytest.mark.parametrize("reason", SilenceReason)
def test_every_reason_has_words(reason: SilenceReason, line: Line) -> None:
    said = receipts.render_decision(DecisionRow("m1", reason, line.clock.now()), ZoneInfo("UTC"))
    assert f": {reason.value}." not in said and "I said nothing" in said


@pytest.fixture(scope="module")
async def pigeons(server: str, template: str) -> AsyncIterator[Line]:
    """A front end whose people have limits."""
    await run_sql(server, f"create database pigeon_line template {template}")
    dsn = on_database(server, "pigeon_line")
    async with running_line(
        dsn, front_end=RecordingFrontEnd("pigeon"), model=ScriptedModel(lambda _: "Ten.")
    ) as running:
        yield running
    await run_sql(server, "drop database pigeon_line with (force)")


async def test_who_asks_too_fast_hears_of_it_once_and_alone(pigeons: Line) -> None:
    outcomes = [await pigeons.say("Ana", f"@void question {n}") for n in range(8)]
    assert [each.reason for each in outcomes[:3]] == [None] * 3
    assert {each.reason for each in outcomes[3:]} == {SilenceReason.RATE_LIMITED}
    assert (await pigeons.say("Ben", "@void and me?")).reason is None
    await pigeons.quiet()
    notices = [each for each in pigeons.front_end.shown.values() if each.part.private_to == "ana"]
    assert len(notices) == 1 and len(pigeons.front_end.shown) == 5
    assert await pigeons.value("select gates ->> 'wait_s' from voidbot.decisions where reason = 'rate_limited' limit 1")


async def _set(line: Line, scope: str, unit: str, amount: int, scope_id: str = "") -> None:
    async with line.database.transaction() as tx:
        await tx.execute("delete from voidbot.purses where scope <> 'deployment' or unit <> 'usd_micro'")
        await tx.execute("delete from voidbot.rates")
        await tx.execute(
            "insert into voidbot.purses (scope, scope_id, unit, window_kind, limit_amount, set_by)"
            " values ($1, $2, $3, 'day', $4, 'test')",
            scope, scope_id, unit, amount,
        )  # fmt: skip


@pytest.mark.field("F060")
async def test_a_heavy_user_hears_the_balance_and_others_are_served(pigeons: Line) -> None:
    await _set(pigeons, "person", "answers", 1)
    before = len(pigeons.front_end.shown)
    assert (await pigeons.say("Hal", "@void one", "hall")).reason is None
    await pigeons.quiet()
    for _ in range(2):
        assert (await pigeons.say("Hal", "@void two", "hall")).reason is SilenceReason.BUDGET_SPENT
    assert (await pigeons.say("Ida", "@void mine", "hall")).reason is None
    await pigeons.quiet()
    told = [each for each in list(pigeons.front_end.shown.values())[before:] if each.part.private_to == "hal"]
    assert len(told) == 1 and "1 answers" in told[0].text
    async with pigeons.database.transaction() as tx:  # the pace is another gate
        await tx.execute("delete from voidbot.rates")
    assert (await pigeons.say("Hal", "/usage", "hall")).outcome == "reply"
    assert "answers a day: 1 of 1" in await last(pigeons)
    async with pigeons.database.transaction() as tx:
        await tx.execute("update voidbot.people set limits = 'boosted:2' where account_ref = 'hal'")
        await tx.execute("delete from voidbot.rates")
    assert (await pigeons.say("Hal", "@void more", "hall")).reason is None
    await pigeons.quiet()
    assert (await pigeons.say("Hal", "@void more", "hall")).reason is SilenceReason.BUDGET_SPENT
    async with pigeons.database.transaction() as tx:
        await tx.execute("update voidbot.people set limits = 'unlimited' where account_ref = 'hal'")
    for _ in range(4):
        assert (await pigeons.say("Hal", "@void more", "hall")).reason is None
    await pigeons.quiet()


@pytest.mark.parametrize(
    ("scope", "unit", "word"),
    [
        ("room", "answers", "room"),
        ("community", "answers", "community"),
        ("deployment", "calls", "budget"),
        ("room", "tokens", "room"),
        ("community", "tokens", "community"),
    ],
)
async def test_nothing_allowed_is_said_once_to_the_room_and_calls_no_model(
    pigeons: Line, scope: str, unit: str, word: str
) -> None:
    await _set(pigeons, scope, unit, 0)
    room = f"{scope}-{unit}"
    before, calls = len(pigeons.front_end.shown), await pigeons.value("select count(*) from voidbot.usage")
    for person in ("Ana", "Ben", "Cal"):
        await pigeons.say(person, "@void hello?", room)
    await pigeons.quiet()
    (notice,) = list(pigeons.front_end.shown.values())[before:]
    assert notice.part.private_to is None and word in notice.text
    assert await pigeons.value("select count(*) from voidbot.usage") == calls
    await pigeons.say("Ben", "/why-silent", room)
    assert "budget is used up" in await last(pigeons)
    private = len(pigeons.front_end.shown)
    await pigeons.say("Dan", "/ask private:yes hello?", room)
    await pigeons.quiet()
    assert [each.part.private_to for each in list(pigeons.front_end.shown.values())[private:]] == ["dan"]
