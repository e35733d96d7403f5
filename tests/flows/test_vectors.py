"""Vectors in the whole line: made, asked, down, and one model in the place of another while people go on writing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bot.app import Role, open_app
from bot.search_settings import SearchSettings
from core.domain.errors import Unavailable
from core.domain.ids import CommunityId, RoomId
from core.domain.retrieval import Near, Query
from core.passes.comparing import tend_vectors
from core.passes.scheduler import Scheduler
from core.ports import Embedder
from core.providers.minilm import MiniLm
from core.retrieval.service import Likeness
from core.store import embeddings
from core.store.embeddings import ModelState
from core.store.engine import Database
from core.store.pgvector import PgVectorStore, name_of
from tests.conftest import run_sql
from tests.fakes import WordEmbedder
from tests.flows.line import Line, running_line, settings_for, until

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


async def test_the_search_command_finds_by_likeness_what_the_asker_may_read(fresh_dsn: str) -> None:
    async with line_with(fresh_dsn, [WordEmbedder(alike=ALIKE)]) as line:
        await open_room(line)
        await line.say("Ana", "cutter dull")
        await embedded(line.database)
        shown = len(line.front_end.shown)
        await line.say("Ben", "/search saw blunt")
        assert "cutter dull" in (await line.answers(shown + 1))[-1]
        await run_sql(line.database.dsn, "update voidbot.room_access set known = false",
                      "update voidbot.communities set access_epoch = access_epoch + 1")  # fmt: skip
        await line.say("Ben", "/search saw blunt", "elsewhere")
        assert "cutter dull" not in (await line.answers(shown + 2))[-1]


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
    async with line_with(fresh_dsn, [embedder]) as line:
        await open_room(line)
        embedder.down = Unavailable("embeddings: endpoint not reachable")
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


OLD, NEW = WordEmbedder("old", 384), WordEmbedder("new", 1024)


def fresh_likeness(line: Line) -> Likeness:
    """One that has to look which model is read."""
    embedders = {each.model.name: each for each in (OLD, NEW)}
    return Likeness(line.database, line.clock, embedders, PgVectorStore(line.database))


async def near(line: Line, likeness: Likeness, text: str) -> Near:
    async with line.database.transaction(durable=False) as tx:
        room = await tx.fetchrow("select id, community_id from voidbot.rooms")
    assert room is not None
    query = Query(
        text=text,
        community_id=CommunityId(room["community_id"]),
        readable=frozenset({RoomId(room["id"])}),
        now=line.clock.now(),
        k=5,
    )
    return await likeness.near(query)


async def test_a_model_of_another_dimension_takes_over_while_people_write_and_reads_never_fall_into_a_gap(
    fresh_dsn: str,
) -> None:
    async with line_with(fresh_dsn, [OLD]) as line:
        await open_room(line)
        await line.say("Ana", "granite arrives tomorrow")
        await embedded(line.database)
        first = await line.value("select id from voidbot.units")
    async with line_with(fresh_dsn, [OLD, NEW], chosen="new") as line:
        assert await states(line.database) == {"old": "reading", "new": "backfilling"}
        models: list[str] = []
        over = asyncio.Event()

        async def write() -> None:
            while not over.is_set():
                await line.say("Ben", f"pebble number {len(models)}")
                await asyncio.sleep(0.02)

        async def ask() -> None:
            while not over.is_set():
                found = await near(line, fresh_likeness(line), "granite")
                if found.note != "dense_skipped":  # too slow for a busy machine, which is no gap
                    assert first in {hit.unit_id for hit in found.hits}, found
                    models.append(found.model.name if found.model else "")

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            group.create_task(ask())
            await is_read(line.database, "new")
            await until(lambda: "new" in models)
            over.set()
        assert models[0] == "old" and models == sorted(models, reverse=True)
        await embedded(line.database)
        assert await line.value(f"select count(*) from voidbot.{name_of(NEW.model)}") == await line.value(
            "select count(*) from voidbot.units"
        )
        await run_sql(fresh_dsn, "update voidbot.embedding_models set at = at - interval '2 minutes'")
        async with line.database.transaction() as tx:
            await tend_vectors(tx)

        async def gone() -> bool:
            return (await states(line.database))["old"] == ModelState.DROPPED

        await until(gone)
        assert await line.value(f"select to_regclass('voidbot.{name_of(OLD.model)}')") is None


async def test_a_change_of_models_that_is_interrupted_goes_on_in_the_next_process(fresh_dsn: str) -> None:
    new = WordEmbedder("new", 1024)
    async with line_with(fresh_dsn, [OLD]) as line:
        await open_room(line)
        await line.say("Ana", "granite arrives tomorrow")
        await embedded(line.database)
    new.down = Unavailable("embeddings: endpoint not reachable")
    async with line_with(fresh_dsn, [OLD, new], chosen="new") as line:
        await line.say("Ben", "marble arrives today", message_id="m90", event_id="e90")

        async def told() -> bool:
            async with line.database.transaction(durable=False) as tx:
                return any(each.trouble for each in await embeddings.list_figures(tx))

        await until(told)
        assert await states(line.database) == {"old": "reading", "new": "backfilling"}
    new.down = None
    await run_sql(fresh_dsn, "update queue.lane set wake_at = voidbot.now() where state = 3")
    # The name is not said again: what is under way goes on.
    async with line_with(fresh_dsn, [OLD, new]) as line:
        await is_read(line.database, "new")
        await embedded(line.database)
        assert {"Ana: granite arrives tomorrow", "Ben: marble arrives today"} <= set(new.texts)


async def test_the_model_that_ships_answers_a_question_that_shares_no_word_with_the_answer(fresh_dsn: str) -> None:
    minilm = MiniLm(guard=lambda: None)
    await minilm.embed(["loaded before anybody waits for it"])
    async with line_with(fresh_dsn, [minilm]) as line:
        await open_room(line)
        await line.say("Ana", "The best pediatrician is Doctor Okafor.")
        await line.say("Ana", "My cat sleeps on the radiator.")
        await embedded(line.database)
        await line.say("Ben", "@void which physician treats kids?")
        assert "pediatrician" in (await line.answers(2))[-1]
    await minilm.aclose()


async def test_without_vectors_nothing_of_them_is_loaded_or_asked(fresh_dsn: str) -> None:
    async with running_line(fresh_dsn) as line:
        await open_room(line)
        await line.say("Ana", "granite arrives tomorrow")
        await Scheduler(line.database, line.clock).look()
        await line.quiet()
        assert (line.app.parts.search.likeness, dict(line.app.parts.search.embedders)) == (None, {})
        assert await states(line.database) == {} and await waiting(line.database) == 0


async def test_a_store_that_cannot_be_reached_is_one_line_and_stops_no_start(fresh_dsn: str) -> None:
    told: list[str] = []
    search = SearchSettings(qdrant_url="http://127.0.0.1:9")
    async with open_app(
        settings_for(fresh_dsn, search=search),
        frozenset({Role.WORKER}),
        say=told.append,
        front_ends=lambda *_: [],
        embedders=[OLD],
    ):
        pass
    (line,) = told
    assert "qdrant" in line and line.endswith("search goes by words")
