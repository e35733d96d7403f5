"""`voidbot index` and `voidbot reembed` as an operator types them."""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bot import index_command
from bot.search_settings import SearchSettings
from core.domain.errors import InputRejected
from core.domain.messages import MessageKind
from core.providers.embeddings import EmbeddingSettings
from core.retrieval.indexing import index_all
from core.store.engine import Database
from tests.conftest import run_sql
from tests.fakes import WordEmbedder
from tests.flows.line import Line, running_line, settings_for
from tests.flows.test_vectors import embedded, line_with, open_room

ENTRY = EmbeddingSettings(name="new", base_url="http://127.0.0.1:9/v1", dimension=1024)
DUMP = """
select message_id, part, community_id, room_id, author_id, by_bot, sent_at, kind, sources, quote_from, quote_to, len,
       unit_hash, own_hash, tsv::text from voidbot.units order by message_id, part
"""


async def voidbot(dsn: str, home: Path, *words: str, search: SearchSettings | None = None) -> int:
    """Run the command in this process: a process each would spend its time starting."""
    parser = argparse.ArgumentParser(prog="voidbot")
    index_command.add_commands(parser.add_subparsers())
    options = parser.parse_args(list(words))
    settings = settings_for(dsn, home=home, search=search or SearchSettings(entries=(ENTRY,)))
    return int(await asyncio.to_thread(options.run, options, settings))


async def dump(database: Database) -> list[tuple[Any, ...]]:
    async with database.transaction(durable=False) as tx:
        return [tuple(row.values()) for row in await tx.fetch(DUMP)]


async def index(line: Line) -> None:
    async with line.database.transaction() as tx:
        await index_all(tx)


async def live(line: Line) -> None:
    """Let people talk, answer, mend and delete, with the index kept all the while."""
    await open_room(line)
    for number in range(12):
        await line.say(
            "Ana" if number % 3 else "Ben", f"Stone {number} of the wall weighs {number * 7} kg, ERR_{number}"
        )
        if number % 4 == 1:
            await index(line)
    await line.say("Ben", "That one is too heavy.", reply_to="m4")
    await index(line)
    await line.say("Ana", "Stone 3 is gone.", kind=MessageKind.EDIT, message_id="m5")
    await line.say("Ben", "", kind=MessageKind.DELETE, message_id="m8")
    await index(line)


async def test_units_made_anew_are_those_that_were_kept_up_and_are_found_meanwhile(
    fresh_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_line(fresh_dsn) as line:
        await live(line)
        kept = await dump(line.database)
        assert len(kept) > 12
        await run_sql(fresh_dsn, "update voidbot.units set tsv = '' where id < 5")  # what a rebuild is for
        assert await voidbot(fresh_dsn, tmp_path, "index", "rebuild", "--lexical", "--no-wait", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["rooms"], told["messages"], told["vectors"], told["done"]) == (
            1,
            len(kept) + 1,
            0,
            False,
        )  # one was deleted
        await index(line)
        assert await dump(line.database) == kept
        await voidbot(fresh_dsn, tmp_path, "index", "rebuild", "--lexical", "--no-wait")
        await line.say("Cora", "@void which stone weighs 49 kg?")
        assert "Stone 7" in (await line.answers(2))[-1]


async def test_the_status_counts_by_room_and_refuses_what_is_not_there(
    fresh_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_line(fresh_dsn, sample=True, works=False):
        pass  # the sample community is there and indexed
    assert await voidbot(fresh_dsn, tmp_path, "index", "status", "--room", "workshop", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [(room["room"], room["waiting"], room["messages"] > 0) for room in told["rooms"]] == [("workshop", 0, True)]
    assert told["models"] == []
    assert await voidbot(fresh_dsn, tmp_path, "index", "status", search=SearchSettings(embeddings="off")) == 0
    assert "#workshop" in (out := capsys.readouterr().out) and out.endswith("embeddings are off\n")
    with pytest.raises(InputRejected, match="room attic: there is none with an index"):
        await voidbot(fresh_dsn, tmp_path, "index", "rebuild", "--room", "attic")
    assert await voidbot(fresh_dsn, tmp_path, "index", "rebuild", "--room", "workshop") == 0
    assert "no worker is running" in capsys.readouterr().err


async def test_vectors_are_made_anew_and_another_model_takes_over_by_a_command_that_waits(
    fresh_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = WordEmbedder("old"), WordEmbedder("new", 1024)
    async with line_with(fresh_dsn, [old, new]) as line:
        await open_room(line)
        await line.say("Ana", "granite arrives tomorrow")
        await embedded(line.database)
        old.texts.clear()
        assert await voidbot(fresh_dsn, tmp_path, "index", "rebuild", "--dense") == 0
        assert "index: made anew" in capsys.readouterr().out
        assert "Ana: granite arrives tomorrow" in old.texts
        assert await voidbot(fresh_dsn, tmp_path, "reembed", "--to", "new", "--json") == 0
        assert json.loads(capsys.readouterr().out) == {"name": "new", "dimension": 1024, "read": True}
        assert "Ana: granite arrives tomorrow" in new.texts
        await line.say("Root", "/void status")
        assert "Search: by words and likeness (new)\nVectors: old is not read any more" in (await line.answers(2))[-1]


@pytest.mark.parametrize(
    ("search", "name", "said"),
    [
        (SearchSettings(), "others", "no model is called others; there are minilm"),
        (SearchSettings(embeddings="off"), "minilm", "VOIDBOT_EMBEDDINGS names off"),
        (SearchSettings(embeddings="minilm", entries=(ENTRY,)), "new", "set VOIDBOT_EMBEDDINGS=new first"),
    ],
)
async def test_a_model_that_would_not_last_is_refused(
    fresh_dsn: str, tmp_path: Path, search: SearchSettings, name: str, said: str
) -> None:
    with pytest.raises(InputRejected, match=said):
        await voidbot(fresh_dsn, tmp_path, "reembed", "--to", name, search=search)
