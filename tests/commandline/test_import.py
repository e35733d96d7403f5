"""`voidbot import` as an operator types it: what it prints and its exit codes."""

import json
from pathlib import Path

import pytest

from core.privacy.key import KEY_FILE, load_key
from core.store import places
from core.store.engine import Database
from tests.commandline import processes
from tests.domain.export_samples import discord_file, discord_message, jsonl_file, jsonl_line, later


@pytest.fixture
async def community(database: Database) -> str:
    async with database.transaction() as tx:
        await places.add_community(tx, "discord", "500", "Potters")
    return "discord:500"


async def run(dsn: str, home: Path, *words: str) -> tuple[int, str, str]:
    return await processes.run(home, "import", *words, DATABASE_URL=dsn)


async def count(database: Database) -> int:
    async with database.transaction(durable=False) as tx:
        return int(await tx.fetchval("select count(*) from voidbot.messages"))


async def test_two_files_come_in_with_one_line_of_json_each_and_exit_code_0(
    database: Database, fresh_dsn: str, community: str, tmp_path: Path
) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.jsonl"]
    files[0].write_bytes(discord_file(discord_message(1, "x")))
    files[1].write_bytes(jsonl_file(jsonl_line(1), jsonl_line(2)))
    words = [*map(str, files), "--community", community, "--audience", "community", "--i-am-sure", "--json"]
    code, out, err = await run(fresh_dsn, tmp_path, *words)
    told = [json.loads(line) for line in out.splitlines()]
    assert (code, [line["written"] for line in told], await count(database)) == (0, [1, 2], 3), err
    assert all(line["digest"] for line in told)


async def test_bad_records_are_listed_by_place_without_words_and_give_exit_code_3(
    fresh_dsn: str, community: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(jsonl_file(jsonl_line(1)) + b"{private words\n" + jsonl_file(jsonl_line(2)))
    words = [str(file), "--community", "Potters", "--audience", "community", "--i-am-sure"]
    code, out, _ = await run(fresh_dsn, tmp_path, *words)
    assert code == 3
    assert "read 2, written 2, edited 0, unchanged 0, bad json_syntax 1" in out and "line 2, byte" in out
    assert "private words" not in out


async def test_one_file_that_is_refused_keeps_all_out_with_one_sentence_and_exit_code_2(
    database: Database, fresh_dsn: str, community: str, tmp_path: Path
) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    files[0].write_bytes(discord_file(discord_message(1, "x")))
    files[1].write_bytes(discord_file(discord_message(1, "x"), channel={"type": "DirectTextChat"}, guild="0"))
    words = [*map(str, files), "--community", community, "--audience", "community", "--i-am-sure"]
    code, out, err = await run(fresh_dsn, tmp_path, *words)
    assert (code, out, await count(database)) == (2, "", 0)
    assert err.count("\n") == 1 and "was private" in err


async def test_what_was_erased_stays_out(database: Database, fresh_dsn: str, community: str, tmp_path: Path) -> None:
    key = load_key(tmp_path / KEY_FILE, ())
    async with database.transaction() as tx:
        await tx.execute(
            "insert into voidbot.erasure_ledger (key_id, key_hash, scope, until_at) values ($1, $2, $3, $4)",
            key.id, key.person("import", "ida"), {"reach": "person"}, later(2),
        )  # fmt: skip
    file = tmp_path / "a.jsonl"
    file.write_bytes(jsonl_file(jsonl_line(1), jsonl_line(2), jsonl_line(3), jsonl_line(4, author="ben")))
    words = [str(file), "--community", community, "--audience", "community", "--i-am-sure", "--json"]
    code, out, err = await run(fresh_dsn, tmp_path, *words)
    told = json.loads(out)
    assert (code, told["written"], told["skipped"], await count(database)) == (0, 2, {"erased": 2}, 2), err
