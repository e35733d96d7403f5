"""`voidbot sources` as an operator types it."""

import argparse
import asyncio
import json
from pathlib import Path

import pytest

from bot import source_command
from core.domain.errors import InputRejected
from tests.commandline.processes import run
from tests.flows.line import running_line, settings_for
from tests.flows.repositories import Checkout


async def sources(dsn: str, home: Path, *words: str) -> int:
    """Run the command in this process: a process each would spend its time starting."""
    parser = argparse.ArgumentParser(prog="voidbot")
    source_command.add_command(parser.add_subparsers())
    options = parser.parse_args(["sources", *words])
    return int(await asyncio.to_thread(options.run, options, settings_for(dsn, home=home)))


async def test_a_source_is_added_synced_listed_and_removed(
    fresh_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_line(fresh_dsn, sample=True, works=False):
        pass  # the sample community is there now
    checkout, home = Checkout.new(tmp_path / "repo"), tmp_path / "home"
    checkout.write("docs/guide.md", "# Guide\n\nThe kiln is hot.\n")
    (checkout.folder / "link.md").symlink_to("/etc/passwd")
    checkout.commit("first")
    add = ("add", "git", str(checkout.folder), "--name", "guide", "--community", "Kettle Lane Makers")
    with pytest.raises(SystemExit):
        await sources(fresh_dsn, home, *add)
    assert "one of the arguments --all-rooms --room is required" in capsys.readouterr().err
    with pytest.raises(InputRejected, match="room attic: there is none like this"):
        await sources(fresh_dsn, home, *add, "--room", "attic")
    assert await sources(fresh_dsn, home, *add, "--room", "lobby", "--hourly") == 0
    assert capsys.readouterr().out == "source guide: added; read it with `voidbot sources sync guide`\n"
    assert await sources(fresh_dsn, home, "sync") == 0
    out = capsys.readouterr().out
    assert out.startswith("source guide: 1 added, 0 changed") and "    symlink: link.md\n" in out
    assert await sources(fresh_dsn, home, "list", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["files"], listed["chunks"], listed["hourly"], len(listed["rooms"])) == (1, 1, True, 1)
    checkout.folder.rename(tmp_path / "away")
    assert await sources(fresh_dsn, home, "sync", "guide", "--json") == 1
    shown = capsys.readouterr()
    assert "no folder on this machine" in json.loads(shown.out)["error"] and "not synced" in shown.err
    assert await sources(fresh_dsn, home, "remove", "guide") == 0
    with pytest.raises(InputRejected, match="source guide: there is none"):
        await sources(fresh_dsn, home, "sync", "guide")
    code, out, _ = await run(home, "sources", "list", DATABASE_URL=fresh_dsn)
    assert (code, out) == (0, "0 sources\n")
