"""Files of a source in answers, quotes, searches and receipts: found, cited so that they open, told to nobody else."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from core.domain.prompt import Delta, ModelRequest
from core.ports import RetryAfter
from core.store import sources
from core.store.engine import Database, Tx
from tests.fakes import RecordingFrontEnd
from tests.flows.line import running_line
from tests.flows.lore import GUIDE, Citing, handbook, sync, talked
from tests.flows.repositories import Checkout
from tests.flows.test_audience import ids

ASK = "@void how long does cobalt glaze dry?"


async def test_an_answer_cites_lines_of_a_file_and_its_receipt_names_them(fresh_dsn: str, tmp_path: Path) -> None:
    model = Citing("Cobalt glaze")
    async with running_line(fresh_dsn, model=model) as line:
        await talked(line)
        source_id = await handbook(line, tmp_path)
        commit = str(await line.value("select head from voidbot.sources"))
        seen = len(line.front_end.shown)
        await line.say("Ana", ASK)
        (answer,) = (await line.answers(seen + 1))[seen:]
        header = r'd1 file "docs/kiln.md" of "handbook" lines 7-9 \[outside\]>>'
        assert re.search(header, model.requests[0].messages[0].text)
        assert answer.endswith(f"[1] handbook: docs/kiln.md, lines 7-9 at commit {commit[:7]}")
        kept = await line.value("select array_agg(kind || ' ' || ref) from voidbot.receipt_sources where kind = 'file'")
        assert re.fullmatch(rf"file {source_id}/\d+@\w{{7}}#L7-L9", str(kept[0]))  # type: ignore[index]  # a list
        await line.value("update voidbot.sources set location = 'https://github.com/makers/handbook.git' returning id")
        await line.say("Ben", "/why")
        address = f"https://github.com/makers/handbook/blob/{commit}/docs/kiln.md?plain=1#L7-L9"
        assert f"file handbook: docs/kiln.md, lines 7-9 at commit {commit[:7]} {address}" in (await line.answers(0))[-1]
        await line.say("Ana", ASK)
        assert (await line.answers(0))[-1].endswith(address)
        async with line.database.transaction() as tx:
            await sources.remove_source(tx, source_id)
        await line.say("Ben", f"/why message:s{seen + 1}")
        why = (await line.answers(0))[-1]
        assert "a source you can't see" in why and "kiln.md" not in why


async def test_talk_leads_and_files_join_in(fresh_dsn: str, tmp_path: Path) -> None:
    """What is asked of talk brings no file, what a file documents is found; of eight passages three are files."""
    model = Citing("nothing at all")
    async with running_line(fresh_dsn, model=model) as line:
        await talked(line)
        await handbook(line, tmp_path)
        found: dict[str, list[str]] = {}
        for question in (
            "who has the key of the garden shed?", "when is the summer party?", "who brings the cake?",
            "what does ramp_minutes return?", "how long does the bisque programme take?", "is the kiln hot?",
        ):  # fmt: skip
            await line.say("Cleo", f"@void {question}")
            await line.quiet()
            found[question] = re.findall(r"<<data \w+ ([dk])\d+ ", model.requests[-1].messages[0].text)
        assert [kinds.count("d") for kinds in found.values()] == [0, 0, 0, 1, 1, 0], found
        assert [kinds[:1] for kinds in found.values()] == [["k"], ["k"], ["k"], ["d"], ["d"], ["k"]], found


@pytest.mark.parametrize("asked", [ASK, "/search cobalt glaze"])
async def test_without_a_model_the_lines_that_say_most_are_quoted(fresh_dsn: str, tmp_path: Path, asked: str) -> None:
    async with running_line(fresh_dsn) as line:
        await talked(line)
        await handbook(line, tmp_path)
        seen = len(line.front_end.shown)
        await line.say("Ana", asked)
        (answer,) = (await line.answers(seen + 1))[seen:]
        assert "> Cobalt glaze dries for a day before it is fired.\n— handbook: docs/kiln.md, lines 7-9 at" in answer


async def test_a_search_that_is_narrowed_to_talk_finds_no_files(fresh_dsn: str, tmp_path: Path) -> None:
    async with running_line(fresh_dsn) as line:
        await talked(line)
        await handbook(line, tmp_path)
        for narrowed in ("person:ana", "since:1d", "room:lobby person:ben"):
            await line.say("Ana", f"/search {narrowed} cobalt glaze")
            assert "handbook" not in (await line.answers(0))[-1]


# Audience: who may not be told is not told, whatever happens meanwhile


async def test_a_source_kept_to_a_room_is_told_where_its_readers_alone_read(fresh_dsn: str, tmp_path: Path) -> None:
    model = Citing("Cobalt glaze")
    async with running_line(fresh_dsn, model=model, sample=True) as line:
        await handbook(line, tmp_path, "staff")
        _, _, staff = await ids(line, "mara", "staff")
        for person, text, room, told in (
            ("Mara", ASK, "lobby", False), ("Mara", ASK, "staff", True),
            ("Wren", f"/ask private:yes {ASK}", "lobby", False), ("Mara", f"/ask private:yes {ASK}", "lobby", True),
            ("Jonas", "/search cobalt glaze", "lobby", True), ("Wren", "/search cobalt glaze", "lobby", False),
        ):  # fmt: skip
            seen = len(line.front_end.shown)
            await line.say(person, text, room)
            (answer,) = (await line.answers(seen + 1))[seen:]
            assert ("handbook" in answer) is told, (person, text, room)
        rooms = await line.value("select array_agg(distinct audience) from voidbot.receipt_sources where kind = 'file'")
        assert rooms == [[staff]]


async def remove(tx: Tx) -> None:
    await sources.remove_source(tx, await tx.fetchval("select id from voidbot.sources"))


async def keep_to_staff(tx: Tx) -> None:
    await tx.execute("update voidbot.sources set all_rooms = false")
    await tx.execute(
        "insert into voidbot.source_rooms (source_id, room_id)"
        " select s.id, r.id from voidbot.sources s, voidbot.rooms r where r.chat_ref = 'staff'"
    )


async def rewrite(tx: Tx) -> None:
    await tx.execute("delete from voidbot.source_chunks where text like '%Cobalt%'")


@pytest.mark.parametrize(
    ("asked", "meanwhile", "quotes"),
    [
        (ASK, remove, False),
        (ASK, keep_to_staff, True),
        (f"/ask private:yes {ASK}", rewrite, False),
        ("/search cobalt glaze", keep_to_staff, True),
    ],
    ids=["removed", "closed", "rewritten", "search"],
)
async def test_what_may_no_longer_be_told_stops_the_answer_that_waits(
    fresh_dsn: str, tmp_path: Path, asked: str, meanwhile: Callable[[Tx], Awaitable[None]], quotes: bool
) -> None:
    model = Citing("Cobalt glaze")
    async with running_line(fresh_dsn, model=None if quotes else model, sample=True) as line:
        await handbook(line, tmp_path)
        line.front_end.results.append(RetryAfter(1.0))
        await line.say("Wren", asked)
        while not line.front_end.calls:
            await line.value("select pg_sleep(0.02)")
        assert "handbook" in line.front_end.calls[0][1].text.text
        async with line.database.transaction() as tx:
            await meanwhile(tx)
        await line.quiet()
        (shown,) = line.front_end.texts()
        assert "handbook" not in shown
        assert await line.value("select array_agg(reason) from voidbot.outbox where state = 'dropped'") == [
            "source_voided"
        ]


class Closing(Citing):
    """A model that thinks so long that the source is removed meanwhile."""

    database: Database | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        if self.database is not None and not self.requests:
            async with self.database.transaction() as tx:
                await remove(tx)
        async for delta in super().stream(request):
            yield delta


async def test_a_stream_shows_nothing_of_a_source_that_closed(fresh_dsn: str, tmp_path: Path) -> None:
    front_end = RecordingFrontEnd("console", stream_every_s=0.0)
    model = Closing("Cobalt glaze")
    async with running_line(fresh_dsn, model=model, front_end=front_end) as line:
        await talked(line)
        await handbook(line, tmp_path)
        model.database = line.database
        seen = len(line.front_end.calls)
        await line.say("Ana", ASK)
        await line.quiet()
        said = [part.text.text for _, part in line.front_end.calls[seen:]]
        assert said and all("stands there" not in text for text in said) and "I do not know." in said[-1]


async def test_what_changed_since_is_named_as_changed(fresh_dsn: str, tmp_path: Path) -> None:
    async with running_line(fresh_dsn, model=Citing("Cobalt glaze")) as line:
        await talked(line)
        source_id = await handbook(line, tmp_path)
        await line.say("Ana", ASK)
        await line.quiet()
        (tmp_path / "handbook" / "docs" / "kiln.md").write_text(GUIDE.replace("for a day", "for a week"))
        Checkout(tmp_path / "handbook").commit("second")
        await sync(line, tmp_path, source_id)
        await line.say("Ana", "/why")
        why = (await line.answers(0))[-1]
        assert re.search(r"file handbook, version \w{7} \(changed since\)", why) and "kiln.md" not in why
