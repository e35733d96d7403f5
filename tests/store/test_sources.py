"""Lore in the store: who may hear it, what is found first, and what is left when it goes."""

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from core.domain.chunk_formats import chunk_file
from core.domain.errors import InputRejected
from core.domain.graphs import GraphEdge, GraphNode, build_graph
from core.domain.ids import CommunityId, RoomId, RoomKey
from core.domain.rooms import RoomKind
from core.domain.sources import Entry, SourceId, SourceKind, Visibility
from core.store import graphs, moving, places, sources
from core.store.engine import Database, Tx
from core.store.lore_search import read_chunks, search_chunks
from core.store.sources import ReadFile
from tests.flows.repositories import Library, fresh_database


@pytest.fixture(scope="module")
async def shelf(server: str, template: str) -> AsyncIterator[Database]:
    async with fresh_database(server, template) as database:
        yield database


@pytest.fixture
async def library(shelf: Database, tmp_path: Path) -> Library:
    return await Library.open(shelf, tmp_path)


async def put(tx: Tx, source_id: SourceId, path: str, text: str) -> None:
    await sources.write_file(tx, source_id, ReadFile(Entry(path, len(text), f"{path}0000000"), chunk_file(path, text)))


async def test_the_statement_and_the_rule_agree_on_every_venue(library: Library) -> None:
    """Every visibility against every venue: the pure rule is the oracle for both statements that read chunks."""
    async with library.database.transaction() as tx:
        other = await places.add_community(tx, "console", "other", "Other")
        attic = await places.add_room(tx, other, RoomKey("console", "attic"), RoomKind.TERMINAL, "attic")
        rooms = [library.lobby, library.staff, attic]
        communities = [frozenset({library.community}), frozenset({other}), frozenset({library.community, other})]
        chosen: list[frozenset[RoomId] | None] = [None, *(frozenset(pick) for pick in product(rooms, rooms))]
        held: dict[str, Visibility] = {}
        for n, (homes, listed) in enumerate(product(communities, chosen)):
            visibility = Visibility(homes, listed)
            try:
                source_id = await sources.add_source(tx, SourceKind.FOLDER, f"s{n}", "/x", visibility)
            except InputRejected:  # a room of a community that is not listed
                continue
            held[f"s{n}"] = visibility
            await put(tx, source_id, f"{n}.md", "anvil")
        assert len(held) > 10
        ids = [row["id"] for row in await tx.fetch("select id from voidbot.source_chunks")]
        venues = [frozenset[RoomId](), *(frozenset(pick) for pick in product(rooms, rooms))]
        for community, readable in product([library.community, other, CommunityId(99)], venues):
            of = {community} | {other if room == attic else library.community for room in readable}
            usable = {name for name, visibility in held.items() if visibility.usable(frozenset(of), readable)}
            found = await search_chunks(tx, readable, community, "anvil", 100)
            read = await read_chunks(tx, readable, community, ids)
            assert {hit.source for hit in found} == usable == {hit.source for hit in read.values()}
            for hit in found:  # what is made of it counts as said where it may be told, or in any room of its community
                everywhere = held[hit.source].rooms is None and community in held[hit.source].communities
                here = RoomId(99)
                assert hit.audience(here) == {here} if everywhere else hit.audience(here) <= readable
        await tx.execute("delete from voidbot.sources")


@pytest.mark.parametrize("rooms", [frozenset[RoomId](), frozenset({RoomId(999)})])
async def test_a_source_that_nobody_or_no_such_room_may_hear_is_not_added(
    library: Library, rooms: frozenset[RoomId]
) -> None:
    with pytest.raises(InputRejected):
        await library.add(SourceKind.FOLDER, "/x", rooms=rooms)


async def test_a_name_is_taken_once(library: Library) -> None:
    await library.add(SourceKind.FOLDER, "/x")
    with pytest.raises(InputRejected, match="there is one of this name"):
        await library.add(SourceKind.GIT, "/y")


async def test_rare_words_and_own_words_come_first(library: Library) -> None:
    source_id = await library.add(SourceKind.FOLDER, "/x")
    async with library.database.transaction() as tx:
        for n in range(20):
            await put(tx, source_id, f"plain{n}.md", f"the kiln is warm {n}")
        await put(tx, source_id, "rare.md", "the kiln has a pyrometer")
        await put(tx, source_id, "pyrometer.md", "a word that stands in the name alone")
        await put(tx, source_id, "module.py", "import os\nvalue = os.path.readLink(1)\n")
    assert [hit.path for hit in await library.find("kiln pyrometer")][:2] == ["rare.md", "pyrometer.md"]
    assert [hit.path for hit in await library.find("read link")] == ["module.py"]
    assert await library.find("the of and") == await library.find("") == await library.find("zzz") == []


async def test_equal_passages_are_found_once(library: Library) -> None:
    source_id = await library.add(SourceKind.FOLDER, "/x")
    chunks = chunk_file("a.md", "anvil")
    async with library.database.transaction() as tx:
        for path in ("a.md", "copy/a.md"):
            await sources.write_file(tx, source_id, ReadFile(Entry(path, 5, "same"), chunks))
    assert len(await library.find("anvil")) == 1


async def test_a_removed_source_leaves_nothing(library: Library) -> None:
    source_id = await library.add(SourceKind.FOLDER, "/x", rooms=frozenset({library.lobby}))
    async with library.database.transaction() as tx:
        await put(tx, source_id, "a.md", "anvil")
        await sources.save_cursor(tx, source_id, "rumination", "abc")
        assert await sources.load_cursor(tx, source_id, "rumination") == "abc"
        nodes = [GraphNode(ref="a"), GraphNode(ref="b")]
        await graphs.replace_graph(tx, source_id, "h", build_graph(nodes, [GraphEdge(from_ref="a", to_ref="b")]))
        assert await sources.remove_source(tx, source_id)
        assert not await sources.remove_source(tx, source_id)
    assert await library.rows() == []


async def test_a_room_that_goes_takes_its_right_along(library: Library) -> None:
    async with library.database.transaction() as tx:
        attic = await places.add_room(tx, library.community, RoomKey("console", "cellar"), RoomKind.TERMINAL, "cellar")
    source_id = await library.add(SourceKind.FOLDER, "/x", rooms=frozenset({attic}))
    async with library.database.transaction() as tx:
        await put(tx, source_id, "a.md", "anvil")
    assert len(await library.find("anvil", attic)) == 1
    async with library.database.transaction() as tx:
        await moving.remove_room(tx, attic)
    assert await library.find("anvil", attic, library.lobby) == []
