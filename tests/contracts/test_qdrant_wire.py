"""What Qdrant is asked over HTTP, and what becomes of each way in which it fails."""

import traceback
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from core.domain.errors import BotError, Misconfigured, Refused, TimedOut, Unavailable
from core.domain.ids import CommunityId, RoomId
from core.domain.vectors import EmbeddingModel, UnitId, VectorRow, VectorScope, VectorsOf
from core.providers.qdrant import RemoteVectorStore, open_qdrant
from tests.doubles.qdrant_server import Failing, QdrantServer

MODEL = EmbeddingModel("all-MiniLM-L6-v2", 4)
VECTOR = (1.0, 0.0, 0.0, 0.0)
SCOPE = VectorScope(community_id=CommunityId(7), rooms=frozenset({RoomId(1)}))
ROW = VectorRow(
    unit_id=UnitId(1),
    community_id=CommunityId(7),
    room_id=RoomId(1),
    message_id=None,
    author_id=None,
    sent_at=datetime(2026, 3, 1, tzinfo=UTC),
    kind="text",
    unit_hash="h",
    vector=VECTOR,
)
KEY = "qd-0123456789-only-for-tests"


def opened(url: str, *, nodes: int = 1) -> RemoteVectorStore:
    return open_qdrant(url, SecretStr(KEY), guard=lambda: None, nodes=nodes, timeout_s=1)


async def test_a_collection_is_made_whole_before_its_name_is_given() -> None:
    async with QdrantServer() as server:
        store = opened(server.url, nodes=3)
        await store.ensure(MODEL)
        await store.close()
    lines = [each.line for each in server.asked]
    name = lines[2].removeprefix("PUT ")
    assert name.startswith("/collections/voidbot_all_minilm_l6_v2_") and name.endswith("_4")
    assert lines == [
        "GET /aliases",
        f"GET {name}/exists",
        f"PUT {name}",
        *[f"PUT {name}/index"] * 7,
        "POST /collections/aliases",
    ]
    made = server.asked[2].body
    assert made["vectors"] == {"size": 4, "distance": "Cosine"}
    assert made["quantization_config"]["scalar"]["type"] == "int8"
    assert (made["shard_number"], made["replication_factor"], made["write_consistency_factor"]) == (6, 2, 2)
    fields = {each.body["field_name"]: each.body["field_schema"] for each in server.asked[3:10]}
    assert fields["community_id"]["is_tenant"] is True
    assert set(fields) == {"community_id", "unit_id", "room_id", "author_id", "message_id", "sent_at", "kind"}
    (action,) = server.asked[-1].body["actions"]
    assert f"/collections/{action['create_alias']['collection_name']}" == name
    assert {each.key for each in server.asked} == {KEY}


async def test_writes_are_waited_for() -> None:
    async with QdrantServer() as server:
        store = opened(server.url)
        await store.upsert(MODEL, [ROW])
        await store.delete(MODEL, VectorsOf(community_id=CommunityId(7)))
        await store.close()
    written = [each for each in server.asked if not each.line.endswith("/count")]
    assert [each.line.rpartition("/")[2] for each in written] == ["points", "delete"]
    assert all("wait=true" in each.query.lower() for each in written)


async def test_a_search_scores_again_what_quantisation_made_coarse() -> None:
    async with QdrantServer(Failing(200, '{"result": {"points": []}, "status": "ok", "time": 0}')) as server:
        store = opened(server.url)
        assert list(await store.search(MODEL, VECTOR, SCOPE, 10)) == []
        await store.close()
    (asked,) = server.asked
    assert asked.body["params"]["quantization"]["rescore"] is True
    assert {each["key"] for each in asked.body["filter"]["must"]} == {"community_id", "room_id"}
    assert asked.body["with_payload"] == ["unit_id", "unit_hash"]


FAILURES: dict[str, tuple[Failing, type[BotError]]] = {
    "key refused": (Failing(401, f'{{"status": {{"error": "no such key {KEY}"}}}}'), Misconfigured),
    "nothing of this model": (Failing(404, '{"status": {"error": "Not found"}}'), Unavailable),
    "asks to wait": (Failing(429, "{}", {"Retry-After": "7"}), Unavailable),
    "asks to wait until a date": (Failing(429, "{}", {"Retry-After": "Mon, 30 Nov 2026 20:00:00 GMT"}), Unavailable),
    "broken": (Failing(500, "oops"), Unavailable),
    "starting": (Failing(503, ""), Unavailable),
    "no answer": (Failing(200, "<html>"), Unavailable),
    "another answer": (Failing(200, '{"result": {"points": 5}}'), Unavailable),
    "refused": (Failing(400, f'{{"status": {{"error": "{KEY}"}}}}'), Refused),
    "silent": (Failing(stall=True), TimedOut),
}


@pytest.mark.parametrize("how", FAILURES)
async def test_a_failure_is_ours_and_says_no_secret(how: str) -> None:
    failing, kind = FAILURES[how]
    async with QdrantServer(failing) as server:
        store = opened(server.url)
        with pytest.raises(kind) as raised:
            await store.search(MODEL, VECTOR, SCOPE, 10)
        await store.close()
    assert type(raised.value) is kind
    assert KEY not in "".join(traceback.format_exception(raised.value))
    if how == "asks to wait":
        assert isinstance(raised.value, Unavailable) and raised.value.retry_after_s == 7


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with QdrantServer() as server:
        gone = server.url
    store = opened(gone)
    with pytest.raises(Unavailable, match="not reachable"):
        await store.search(MODEL, VECTOR, SCOPE, 10)
    await store.close()


async def test_nothing_is_asked_while_the_guard_objects() -> None:
    def objecting() -> None:
        raise AssertionError("a transaction is open")

    async with QdrantServer() as server:
        store = open_qdrant(server.url, None, guard=objecting)
        with pytest.raises(AssertionError, match="transaction"):
            await store.count(MODEL, SCOPE)
        await store.close()
    assert server.asked == []


@pytest.mark.parametrize("url", ["qdrant:6333", "ftp://qdrant", "http://", f"http://x:{KEY}@qdrant:6333"])
def test_an_address_that_is_none_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(Misconfigured, match="QDRANT_URL") as refused:
        opened(url)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}é", ""])
def test_a_key_that_no_header_carries_is_refused_without_being_repeated(key: str) -> None:
    with pytest.raises(Misconfigured, match="QDRANT_API_KEY") as refused:
        open_qdrant("http://127.0.0.1:9", SecretStr(key), guard=lambda: None)
    assert KEY not in str(refused.value)
