"""States of embedding models: what is queued, which one is read, and what may not happen between two of them."""

import pytest

from core.domain.errors import Misconfigured, Refused
from core.domain.vectors import EmbeddingModel
from core.passes.embedding import vectors_of
from core.store import embeddings
from core.store.embeddings import ModelState
from core.store.engine import Database
from tests.conftest import run_sql
from tests.contracts.test_vector_stores import PLANT, UNITS
from tests.fakes import WordEmbedder

OLD, NEW, OTHER = EmbeddingModel("old", 8), EmbeddingModel("new", 16), EmbeddingModel("other", 16)
COUNT = 50


@pytest.fixture
async def database_with_units(database: Database) -> Database:
    await run_sql(database.dsn, PLANT.replace(f"generate_series(1, {UNITS})", f"generate_series(1, {COUNT})"))
    return database


async def add(database: Database, model: EmbeddingModel) -> ModelState:
    async with database.transaction() as tx:
        return (await embeddings.add_model(tx, model)).state


async def queue_all(database: Database, model: EmbeddingModel, limit: int = 20) -> int:
    """Queue the backlog in steps; return how many steps there were."""
    steps, more = 0, True
    while more:
        async with database.transaction() as tx:
            more = await embeddings.queue_backlog(tx, model.name, limit=limit)
        steps += 1
    return steps


async def count(database: Database, model: EmbeddingModel) -> int:
    async with database.transaction() as tx:
        return await embeddings.count_waiting(tx, model.name)


async def embed_all(database: Database, model: EmbeddingModel) -> None:
    await run_sql(database.dsn, f"delete from voidbot.embed_queue where model = '{model.name}'")


async def states(database: Database) -> dict[str, ModelState]:
    async with database.transaction() as tx:
        return {each.model.name: each.state for each in await embeddings.list_models(tx)}


async def switched(database: Database, model: EmbeddingModel) -> bool:
    async with database.transaction() as tx:
        return await embeddings.switch_reading(tx, model.name)


async def set_state(database: Database, model: EmbeddingModel, state: ModelState) -> None:
    async with database.transaction() as tx:
        await embeddings.set_state(tx, model.name, state)


async def test_the_first_model_is_read_at_once_and_every_unit_is_queued_in_steps(database_with_units: Database) -> None:
    assert await add(database_with_units, OLD) is ModelState.READING
    assert (await queue_all(database_with_units, OLD), await count(database_with_units, OLD)) == (3, COUNT)
    async with database_with_units.transaction() as tx:
        assert await embeddings.next_unsettled(tx) is None


async def test_a_further_model_is_not_read_and_one_that_was_on_its_way_gives_way(database_with_units: Database) -> None:
    for model in (OLD, NEW):
        await add(database_with_units, model)
    await queue_all(database_with_units, NEW)
    assert await add(database_with_units, OTHER) is ModelState.BACKFILLING
    assert await states(database_with_units) == {"old": "reading", "new": "retired", "other": "backfilling"}
    assert await add(database_with_units, OLD) is ModelState.READING
    assert (await states(database_with_units))["other"] == "retired"
    assert await add(database_with_units, NEW) is ModelState.BACKFILLING


async def test_the_name_of_vectors_of_another_dimension_is_refused(database: Database) -> None:
    await add(database, OLD)
    with pytest.raises(Misconfigured, match="give the model another name"):
        await add(database, EmbeddingModel("old", 9))


async def test_reads_move_as_a_whole_and_only_when_nothing_lags(database_with_units: Database) -> None:
    database = database_with_units
    for model in (OLD, NEW):
        await add(database, model)
        await queue_all(database, model)
    await embed_all(database, OLD)
    await set_state(database, NEW, ModelState.VERIFIED)
    assert not await switched(database, NEW)
    await embed_all(database, NEW)
    # What waits for both is in neither: nobody loses it.
    await run_sql(database.dsn, "insert into voidbot.embed_queue values ('old', 7, 1), ('new', 7, 1), ('new', 8, 1)")
    assert not await switched(database, NEW)
    await run_sql(database.dsn, "delete from voidbot.embed_queue where unit_id = 8")
    assert await switched(database, NEW)
    assert await states(database) == {"old": "retired", "new": "reading"}


async def test_a_model_is_dropped_when_no_search_can_ask_it_any_more(database_with_units: Database) -> None:
    database = database_with_units
    await add(database, OLD)
    await queue_all(database, OLD)
    await set_state(database, OLD, ModelState.RETIRED)
    async with database.transaction() as tx:
        assert await embeddings.let_go(tx) == 0
    await run_sql(database.dsn, "update voidbot.embedding_models set at = at - interval '2 minutes'")
    async with database.transaction() as tx:
        assert await embeddings.let_go(tx) == 1
        assert await embeddings.models_with_work(tx, ()) == ["old"]
        await embeddings.end_model(tx, "old")
    assert (await states(database), await count(database, OLD)) == ({"old": ModelState.DROPPED}, 0)


async def test_a_model_that_is_wanted_again_while_it_is_dropped_keeps_what_is_queued(
    database_with_units: Database,
) -> None:
    database = database_with_units
    await add(database, OLD)
    await set_state(database, OLD, ModelState.DROPPING)
    await add(database, OLD)
    await queue_all(database, OLD)
    async with database.transaction() as tx:
        await embeddings.end_model(tx, "old")
    assert (await states(database), await count(database, OLD)) == ({"old": ModelState.READING}, COUNT)


async def test_a_text_that_a_model_will_not_take_keeps_no_other_from_its_vector() -> None:
    embedder = WordEmbedder()
    embedder.refused = "forbidden"
    texts = ["tea", "a forbidden word", "kettle"]
    vectors = await vectors_of(embedder, texts)
    embedder.refused = ""
    assert list(vectors) == await embedder.embed(["tea", ".", "kettle"])
    embedder.refused = "."
    with pytest.raises(Refused):
        await vectors_of(embedder, ["."])
