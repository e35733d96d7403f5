"""Vectors in the whole line: made, asked, down, and one model in the place of another while people go on writing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bot.search_settings import SearchSettings
from core.domain.errors import Unavailable
from core.passes.scheduler import Scheduler
from core.ports import Embedder
from core.store import embeddings
from core.store.embeddings import ModelState
from core.store.engine import Database
from tests.conftest import run_sql
from tests.fakes import WordEmbedder
from tests.flows.line import Line, running_line, until

ALIKE = {"saw": "cutter", "blunt": "dull"}
ON = SearchSettings()


@asynccontextmanager
async def line_with(
    dsn: str, embedders: Sequence[Embedder], *, chosen: str = "", looks: bool = True
) -> AsyncIterator[Line]:
    """Run the line and a scheduler that looks without pause. `chosen`: the model that the operator names."""
    search = SearchSettings(embeddings=chosen) if chosen else ON
    async with running_line(dsn, embedders=embedders, search=search) as line, asyncio.TaskGroup() as group:
        scheduler = Scheduler(line.database, line.clock, [each.model.name for each in embedders])

        async def look() -> None:
            while True:
                await scheduler.look()
                await asyncio.sleep(0.05)

        looking = group.create_task(look()) if looks else None
        yield line
        if looking is not None:
            looking.cancel()


async def open_room(line: Line) -> None:
    """Bring the room about, with its archive on."""
    await line.say("Root", "/void mode lurk archive:on")
    await line.answers(1)


async def waiting(database: Database) -> int:
    async with database.transaction(durable=False) as tx:
        return int(
            await tx.fetchval(
                "select (select count(*) from voidbot.embed_queue)"
                " + (select count(*) from voidbot.messages where index_state in ('queued', 'near'))"
            )
        )


async def embedded(database: Database) -> None:
    async def none() -> bool:
        return await waiting(database) == 0

    await until(none)


async def states(database: Database) -> dict[str, str]:
    async with database.transaction(durable=False) as tx:
        return {each.model.name: each.state.value for each in await embeddings.list_models(tx)}


async def is_read(database: Database, name: str) -> None:
    async def so() -> bool:
        return (await states(database)).get(name) == ModelState.READING

    await until(so)


async def test_a_question_without_a_shared_word_is_answered_by_likeness(fresh_dsn: str) -> None:
    embedder = WordEmbedder(alike=ALIKE)
    async with line_with(fresh_dsn, [embedder]) as line:
        await open_room(line)
        await line.say("Ana", "cutter dull")
        await embedded(line.database)
        await line.say("Ben", "@void saw blunt")
        assert "cutter dull" in (await line.answers(2))[-1]


async def test_an_endpoint_that_is_down_leaves_words_and_is_told_and_tried_again(fresh_dsn: str) -> None:
    embedder = WordEmbedder(alike=ALIKE)
    embedder.down = Unavailable("embeddings: endpoint not reachable")
    async with line_with(fresh_dsn, [embedder]) as line:
        await open_room(line)
        await line.say("Ana", "the blade of the laser cutter is dull again")

        async def told() -> bool:
            async with line.database.transaction(durable=False) as tx:
                return [each.trouble for each in await embeddings.list_figures(tx)] == [embedder.down.message]  # type: ignore[union-attr]

        await until(told)
        await line.say("Ben", "@void is the laser cutter dull?")
        await until(lambda: len(line.front_end.shown) == 2)
        assert "laser cutter is dull" in line.front_end.texts()[-1]
        embedder.down = None
        await run_sql(fresh_dsn, "update queue.lane set wake_at = voidbot.now() where lane = 'embed:words'")
        await embedded(line.database)
        await until(lambda: "laser cutter" in " ".join(embedder.texts))
