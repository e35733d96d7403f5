"""Commands through the whole line: rights in code, effects, audit rows, and who sees the answer."""

import json
from collections.abc import AsyncIterator

import pytest

from bot.commands import COMMANDS
from bot.commands.spec import Access
from tests.conftest import on_database, run_sql
from tests.fakes import RecordingFrontEnd, ScriptedModel, Shown
from tests.flows.line import Line, running_line

ARGUMENTS = {
    "appeal": "/appeal I did nothing",
    "ask": "/ask",  # a question would make it a turn
    "search": "/search lamp",
    "void persona": "/void persona dry",
    "void budget": "/void budget room answers 50",
    "void mode": "/void mode mention",
}


async def tell(line: Line, person: str, text: str, room: str = "lobby", **changes: object) -> Shown:
    """Say one thing and return the one message that came of it."""
    before = len(line.front_end.shown)
    await line.say(person, text, room, **changes)
    await line.answers(before + 1)
    (shown,) = list(line.front_end.shown.values())[before:]
    return shown


async def free(line: Line, platform: str, *persons: str) -> None:
    """Take away the persons' limits."""
    async with line.database.transaction() as tx:
        await tx.executemany(
            "insert into voidbot.people (platform, account_ref, limits) values ($1, $2, 'unlimited')",
            [(platform, person) for person in persons],
        )


async def test_each_command_asks_for_its_rights_and_answers_alike_everywhere(fresh_dsn: str) -> None:
    said: dict[str, list[list[str]]] = {}
    for name in ("console", "pigeon"):
        async with running_line(fresh_dsn, front_end=RecordingFrontEnd(name)) as line:
            await free(line, name, "ana", "bea", "cal")
            for spec in COMMANDS:
                if spec.path == "export-me":
                    continue  # it answers twice
                text = ARGUMENTS.get(spec.path, f"/{spec.path}")
                outcomes = []
                for person, rights in (("Ana", {}), ("Bea", {"admin": True}), ("Cal", {"operator": True})):
                    shown = await tell(line, person, text, spec.path.replace(" ", "-"), **rights)
                    allowed = {Access.MEMBER} | ({Access.MODERATOR, Access.ADMIN} if rights else set())
                    refused = "is for administrators" in shown.text or "is for moderators" in shown.text
                    assert refused == (spec.access not in allowed), shown.text
                    assert shown.part.private_to == person.lower() or "is for" not in shown.text
                    outcomes.append(shown.text)
                said.setdefault(spec.path, []).append(outcomes)
            assert await line.value("select count(*) from queue.dead") == 0
    for path, (one, other) in said.items():
        if path not in (
            "void status",
            "void rooms",
            "void setup",
            "void pass",
            "link",
            "forget-me",
        ):  # these show what is there, which differs
            assert [text.split("returns")[0] for text in one] == [text.split("returns")[0] for text in other], path


async def test_help_lists_only_what_the_asker_may_use(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        assert "/void" not in (await tell(line, "Ana", "/help")).text
        assert "/void mode" in (await tell(line, "Root", "/help")).text
        hidden, absent = await tell(line, "Ana", "/help void mode"), await tell(line, "Ana", "/help nonsense")
        assert hidden.text.replace("void mode", "nonsense") == absent.text
        assert "archive" in (await tell(line, "Root", "/help void mode")).text
        unknown = await tell(line, "Ana", "/frobnicate now")
        assert "/frobnicate" in unknown.text and unknown.part.private_to == "ana"
        bad = await tell(line, "Root", "/void mode loud")
        assert "mode" in bad.text and "silent, mention, lurk, open" in bad.text and bad.part.private_to == "root"


async def test_a_mode_that_reads_along_needs_the_archive(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        for mode in ("lurk", "open"):
            refused = await tell(line, "Root", f"/void mode {mode}")
            assert "archive" in refused.text and refused.part.private_to == "root"
        assert await line.value("select mode from voidbot.rooms") == "mention"
        assert await line.value("select count(*) from voidbot.audit") == 0
        done = await tell(line, "Root", "/void mode lurk archive:on")
        assert done.part.private_to is None and "I keep what is written" in done.text
        refused = await tell(line, "Root", "/void mode archive:off")
        assert "lurk needs the archive" in refused.text
        assert await line.value("select mode || archive from voidbot.rooms") == "lurkon"
        again = await tell(line, "Root", "/void mode silent archive:on")
        assert "I keep" not in again.text
        quiet = await tell(line, "Root", "/void mode mention")  # said in a silent room: to the asker
        assert quiet.part.private_to == "root"


async def test_acts_are_audited_and_looking_is_not(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        for text in ("/void mode", "/void budget", "/void mode silent", "/void persona dry", "/void persona nobody"):
            await tell(line, "Root", text)
        await tell(line, "Ana", "/void mode open")
        found = await line.value(
            "select jsonb_agg(jsonb_build_array(act, place, details, person_id) order by id) from voidbot.audit"
        )
        rows = found if isinstance(found, list) else json.loads(str(found))
        assert [row[:3] for row in rows] == [
            ["void mode", "room:1", {"mode": "silent"}],
            ["void persona", "room:1", {"name": "dry"}],
        ]
        assert len({row[3] for row in rows}) == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("room answers -1", "between 0"),
        ("room answers 1.5", "whole number"),
        ("room answers many", "a number"),
        ("room answers NaN", "a number"),
        ("room answers sNaN", "a number"),
        ("room answers 1e999999999", "a number"),
        ("room answers -1e999999999", "a number"),
        ("room answers Infinity", "a number"),
        ("room answers", "amount"),
        ("room amount:5", "unit"),
        ("unit:answers amount:5", "scope"),
        ("room usd 1", "operator"),
        ("person answers 5", "operator"),
        ("deployment calls 5", "operator"),
        ("planet answers 5", "person, room, community, deployment"),
        ("room answers 5 week", "hour, day, month"),
    ],
)
async def test_budgets_that_cannot_be_set_say_why(line: Line, options: str, word: str) -> None:
    before = await line.value("select count(*) from voidbot.purses")
    answer = await tell(line, "Bea", f"/void budget {options}", admin=True)
    assert word in answer.text and answer.part.private_to == "bea"
    assert await line.value("select count(*) from voidbot.purses") == before
    assert await line.value("select count(*) from voidbot.audit") == 0


@pytest.fixture(scope="module")
async def line(server: str, template: str) -> AsyncIterator[Line]:
    """One running line for many small cases."""
    await run_sql(server, f"create database commands_line template {template}")
    async with running_line(on_database(server, "commands_line")) as running:
        yield running
    await run_sql(server, "drop database commands_line with (force)")


async def test_budgets_are_set_for_this_room_or_community_and_only_operators_see_the_deployment(
    fresh_dsn: str,
) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel()) as line:
        answer = await tell(line, "Bea", "/void budget room answers 2 hour", admin=True)
        assert "room · answers a hour: 0 of 2" in answer.text and "deployment" not in answer.text
        assert (
            await line.value("select set_by from voidbot.purses where scope = 'room' and scope_id = '1'") == "person:1"
        )
        assert "deployment · usd" in (await tell(line, "Root", "/void budget deployment usd 0.5")).text
        assert await line.value("select limit_amount from voidbot.purses where scope = 'deployment'") == 500_000
        assert "lifted" not in (await tell(line, "Root", "/void budget deployment usd none")).text
        assert await line.value("select limit_amount from voidbot.purses where scope = 'deployment'") == 500_000
        assert "room · answers a hour" not in (await tell(line, "Ana", "/usage", "elsewhere")).text


async def test_why_never_shows_another_persons_private_answer(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn, model=ScriptedModel(lambda _: "Ten.")) as line:
        await tell(line, "Ana", "@void when?")
        secret = await tell(line, "Ana", "/ask private:yes and when really?")
        assert secret.part.private_to == "ana"
        assert "message:m1" in (await tell(line, "Ben", "/why")).text
        assert "message:m2" in (await tell(line, "Ana", "/why")).text
        assert "sha256" not in (await tell(line, "Ben", f"/why message:{secret.id}")).text
        assert "message:m2" in (await tell(line, "Ana", "/why", reply_to=secret.id)).text
        assert "no record" in (await tell(line, "Ben", "/why message:s999")).text
        assert "no record" in (await tell(line, "Ben", "/why", "elsewhere")).text


async def test_since_takes_dates_far_away(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        await tell(line, "Ana", "/help")
        async with line.database.transaction() as tx:
            await tx.execute("update voidbot.communities set timezone = 'Asia/Tokyo'")
        for since in ("0001-01-01", "9999-12-31", "9999w", "2026-02-30", "yesterday", "٣d"):
            answer = await tell(line, "Ana", f"/search since:{since} lamp")
            assert "nothing" in answer.text.casefold() or "since: write a date" in answer.text
