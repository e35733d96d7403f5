"""`voidbot mind` as an operator types it."""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bot import mind_command
from bot.mind_command import moment_of
from core.domain.errors import InputRejected
from core.domain.mind.facts import Emitter
from core.store import places
from core.store.engine import Database
from tests.conftest import run_sql
from tests.fakes import ManualClock
from tests.flows.line import settings_for
from tests.store.minds import Home, make_home, note

Typed = Callable[..., Any]


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> AsyncIterator[Home]:
    """A mind with two notes on one thing, one of another, and a refusal."""
    home = await make_home(database, clock)
    await home.accept(note(home, "van", 0, topics=["van"], claim="The van is late."))
    await home.accept(note(home, "late", 1, topics=["van"], claim="The van is late again."))
    await home.apply(note(home, "lost", 2, claim=None))
    await home.accept(note(home, "choir", 3, target={"kind": "self", "id": "void"}))
    yield home


@pytest.fixture
def voidbot(home: Home, fresh_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Run the command in this process: a process each would spend its time starting."""

    async def run(*words: str, code: int = 0) -> Any:
        parser = argparse.ArgumentParser(prog="voidbot")
        mind_command.add_command(parser.add_subparsers())
        options = parser.parse_args(["mind", *words])
        assert await asyncio.to_thread(options.run, options, settings_for(fresh_dsn, home=tmp_path)) == code
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in words else out

    return run


async def test_what_there_is_is_shown_in_short_lines_and_for_programs(home: Home, voidbot: Typed) -> None:
    (mind,) = await voidbot("list", "--json")
    assert (mind["id"], mind["operations"], mind["live"], mind["communities"]) == (home.mind_id, 4, 2, ["Here"])
    shown = await voidbot("show")
    assert [line.split()[0] for line in shown.splitlines()] == ["short_term/choir", "short_term/van"]
    assert "sources" not in (whole := await voidbot("show", "van")) and "claim: The van is late" in whole
    assert (await voidbot("show", "short_term/van", "--json"))["id"] == "van"
    assert await voidbot("show", "--retired") == await voidbot("show", "--type", "thread") == "there is nothing\n"
    ops = (await voidbot("ops")).splitlines()
    assert [line.split()[1] for line in ops] == ["4", "3", "2", "1"] and "refused: no_claim_or_question" in ops[1]
    assert [row["seq"] for row in await voidbot("ops", "--entry", "van", "--json")] == [2, 1]
    assert [row["code"] for row in await voidbot("ops", "--refused", "--json")] == ["no_claim_or_question"]


async def test_an_entry_is_explained_down_to_the_words_that_prove_it(home: Home, voidbot: Typed) -> None:
    told = await voidbot("explain", "van")
    assert "made from: #open" in told and "Ana, #open" in told and "word 0 of the open room" in told
    assert "op 1 " in told and "op 2 " in told and "chat test" in told
    found = await voidbot("explain", "short_term/van", "--json")
    assert [message["id"] for message in found["messages"]] == home.messages[:2]
    with pytest.raises(InputRejected, match="entry nobody: there is none; `voidbot mind show` lists them"):
        await voidbot("explain", "nobody")


async def test_an_undo_shows_first_what_it_would_do_and_what_goes_along(home: Home, voidbot: Typed) -> None:
    told = await voidbot("undo", "1", "--reason", "it was a joke of hers", "--dry-run")
    assert "1 later operations rest on it:\n  op 2 " in told and "retired: short_term/van" in told
    refused = await voidbot("undo", "1", "--reason", "it was a joke of hers", code=1)
    assert "not undone: undo_has_dependents, add --cascade" in refused and (await home.mind()).last_seq == 4
    done = await voidbot("undo", "1", "--reason", "it was a joke of hers", "--cascade", "--json")
    assert (done["cascade"], done["row"], done["refused"]) == ([2], 5, None)
    again = await voidbot("undo", "1", "--reason", "it was a joke of hers", code=1)
    assert "not undone: not_live, was undone by 5" in again
    assert "undone by op 5" in await voidbot("ops")
    with pytest.raises(InputRejected, match="reason: write in at least 10 characters why"):
        await voidbot("undo", "4", "--reason", "no")
    assert (await voidbot("undo", "99", "--reason", "it was a joke of hers", "--json", code=1))["refused"]["code"]


async def test_a_replay_says_where_something_differs(home: Home, fresh_dsn: str, voidbot: Typed) -> None:
    whole = await voidbot("verify")
    assert "4 operations, 3 accepted, 1 refused" in whole and "the journal gives what is stored" in whole
    assert (await voidbot("replay", "--until", "2", "--json"))["rows"] == 2
    await run_sql(fresh_dsn, "update voidbot.state_entries set version = 7 where entry_id = 'van'")
    told = await voidbot("verify", code=3)
    assert "op 2 left another entry" in told and '"version": 7' in told and "replayed:" in told
    assert (await voidbot("replay", "--json", code=3))["difference"]["seq"] == 2


async def test_what_was_and_what_has_changed(home: Home, clock: ManualClock, voidbot: Typed) -> None:
    await clock.advance(3 * 86_400)
    closed = note(home, "safe", target={"kind": "self", "id": "safe"}, claim="The safe is open.")
    closed["memory"]["anchorRefs"] = [{"ref": f"message:{home.hidden[0]}", "kind": "message"}]
    await home.accept(closed, closed=True)
    await home.accept(note(home, "poster", 4, target={"kind": "self", "id": "p"}, claim="A poster."))
    assert "2 entries" in await voidbot("at", "2", "days", "ago") and "there is nothing" in await voidbot("at", "9d")
    told = await voidbot("diff", "--from", "1d")
    assert "op 5 to op 6, 0 of them refused" in told and "added: short_term/safe" in told
    heard = await voidbot("diff", "--from", "1d", "--room", "open", "--json")
    assert [change["entry"] for change in heard["changes"]] == ["short_term/poster"]
    with pytest.raises(InputRejected, match="room attic: this mind has none"):
        await voidbot("diff", "--from", "1d", "--room", "attic")


async def test_a_mind_is_taken_along_and_comes_in_again(home: Home, tmp_path: Path, voidbot: Typed) -> None:
    file = tmp_path / "mine.voidstate.jsonl.gz"
    assert "4 operations and 2 entries" in await voidbot("export", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InputRejected, match="is there already"):
        await voidbot("export", str(file))
    with pytest.raises(InputRejected, match="is not empty"):
        await voidbot("import", str(file))
    async with home.database.transaction() as tx:
        await places.add_community(tx, "console", "second", "Elsewhere")
    with pytest.raises(InputRejected, match="name one by --mind; there are console:console, console:second"):
        await voidbot("import", str(file))
    there = ("--mind", "console:second")
    with pytest.raises(InputRejected, match="give --map"):
        await voidbot("import", str(file), *there)
    (tmp_path / "map.json").write_text('{"places": {}}')
    with pytest.raises(InputRejected, match="is no JSON such as"):
        await voidbot("import", str(file), *there, "--map", str(tmp_path / "map.json"))
    (tmp_path / "map.json").write_text(json.dumps({"people": {str(home.ana): home.bo}}))
    told = await voidbot("import", str(file), *there, "--map", str(tmp_path / "map.json"))
    assert "4 operations and 2 entries came in" in told and "1 rooms have no counterpart here" in told
    await voidbot("verify", *there)
    with pytest.raises(InputRejected, match="mind nobody: there is none; there are"):
        await voidbot("show", "--mind", "nobody")


async def test_a_paused_mind_takes_nothing_from_models_until_it_is_resumed(home: Home, voidbot: Typed) -> None:
    assert "is paused" in await voidbot("pause")
    assert (await home.apply(note(home, "new", 4, target={"kind": "self", "id": "n"}))).accepted == ()
    assert "paused" in await voidbot("list")
    assert (await voidbot("resume", "--json"))["paused"] is False
    await home.accept(note(home, "new", 4, target={"kind": "self", "id": "n"}, claim="New."), by=Emitter.CHAT)
    async with home.database.transaction() as tx:
        assert await tx.fetchval("select array_agg(act order by id) from voidbot.audit") == [
            "mind pause",
            "mind resume",
        ]


NOW = datetime(2026, 3, 10, 19, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "end", "meant"),
    [
        ("now", False, NOW),
        ("3h", False, datetime(2026, 3, 10, 16, 30, tzinfo=UTC)),
        ("2 days ago", True, datetime(2026, 3, 8, 19, 30, tzinfo=UTC)),
        ("2026-03-08", False, datetime(2026, 3, 7, 23, tzinfo=UTC)),
        ("2026-03-08", True, datetime(2026, 3, 8, 23, tzinfo=UTC)),
        ("2026-03-08T10:00", True, datetime(2026, 3, 8, 9, tzinfo=UTC)),
        ("2026-03-08T10:00Z", False, datetime(2026, 3, 8, 10, tzinfo=UTC)),
        ("yesterday", False, datetime(2026, 3, 8, 23, tzinfo=UTC)),
        ("yesterday", True, datetime(2026, 3, 9, 23, tzinfo=UTC)),
        ("2026-03-10", True, NOW),
    ],
)
def test_times_are_read_in_the_zone_of_the_community(text: str, end: bool, meant: datetime) -> None:
    assert moment_of(text, NOW, ZoneInfo("Europe/Berlin"), end=end) == meant


@pytest.mark.parametrize("text", ["soon", "", "2026-13-45", "2027-01-01"])
def test_what_is_no_time_that_has_been_is_refused(text: str) -> None:
    with pytest.raises(InputRejected):
        moment_of(text, NOW, ZoneInfo("UTC"), end=False)
