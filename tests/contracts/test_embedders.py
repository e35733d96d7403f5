"""What every embedder promises: the model that ships with the product, and an endpoint over real HTTP."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from core.domain.errors import BadOutput, BotError, Misconfigured, Refused, TimedOut, Unavailable
from core.domain.vectors import Vector
from core.ports import Embedder
from core.providers.embeddings import BLANK, EmbeddingSettings, EndpointEmbedder
from core.providers.minilm import DATA, MANIFEST_FILE, MODEL_FILE, TOKENIZER_FILE, MiniLm
from scripts.house import ROOT
from tests.doubles.embedding_server import DIMENSION, EmbeddingServer, Fault, Vectors, length
from tests.doubles.model_server import Fail, Raw

KEY = "sk-do-not-show-this"
PRIVATE = "what somebody said in private"
TEXTS = ("Is there tea?", "No.", "The kettle in the workshop is broken, so bring a flask with you.", "tea")
DIFFICULT = (
    "",
    " \n\t",
    "tea " * 50_000,
    "a" * 300_000,
    "\ud800 half a pair",
    "nul \0 byte",
    "👩‍👩‍👧‍👦 ﷽ Ｔｅａ 茶はありますか",
)


def free() -> None:
    """No transaction is open."""


def likeness(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def settings_for(server: EmbeddingServer, **more: Any) -> EmbeddingSettings:
    given = {"name": "m", "base_url": server.url, "dimension": DIMENSION, "api_key": SecretStr(KEY), "total_s": 10}
    return EmbeddingSettings(**{**given, **more})


@asynccontextmanager
async def endpoint(server: EmbeddingServer, **more: Any) -> AsyncIterator[EndpointEmbedder]:
    async with server:
        embedder = EndpointEmbedder(settings_for(server, **more), guard=free)
        yield embedder
        await embedder.aclose()


@pytest.fixture(scope="module")
async def minilm() -> AsyncIterator[MiniLm]:
    embedder = MiniLm(guard=free)
    yield embedder
    await embedder.aclose()


@pytest.fixture(params=["minilm", "endpoint"])
async def embedder(request: pytest.FixtureRequest, minilm: MiniLm) -> AsyncIterator[Embedder]:
    if request.param == "minilm":
        yield minilm
    else:
        async with endpoint(EmbeddingServer(Vectors(most_texts=8)), batch_texts=3) as asked:
            yield asked


# Every embedder


async def test_each_text_gets_the_vector_that_it_gets_alone_in_order(embedder: Embedder) -> None:
    many = [*TEXTS, "word " * 200, *TEXTS[::-1], *(f"tea number {n}" for n in range(14))]
    together = await embedder.embed(many)
    alone = [(await embedder.embed([text]))[0] for text in many[:8]]
    assert len(together) == len(many)
    assert [n for n, vector in enumerate(alone) if likeness(vector, together[n]) < 0.999_999] == []
    assert likeness(together[0], together[2]) < 0.95


async def test_vectors_are_of_length_one_whatever_the_text_is(embedder: Embedder) -> None:
    vectors = await embedder.embed(DIFFICULT)
    assert [len(vector) for vector in vectors] == [embedder.model.dimension] * len(DIFFICULT)
    assert [length(vector) for vector in vectors] == pytest.approx([1.0] * len(DIFFICULT), abs=1e-5)


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert list(await embedder.embed([])) == []


async def test_calls_at_once_do_not_mix(embedder: Embedder) -> None:
    one_by_one = [await embedder.embed([text, *TEXTS]) for text in TEXTS]
    at_once = await asyncio.gather(*(embedder.embed([text, *TEXTS]) for text in TEXTS))
    for expected, got in zip(one_by_one, at_once, strict=True):
        assert [likeness(a, b) for a, b in zip(expected, got, strict=True)] == pytest.approx([1.0] * 5, abs=1e-5)


@pytest.mark.parametrize("kind", ["minilm", "endpoint"])
async def test_nothing_is_embedded_while_a_transaction_is_open(kind: str) -> None:
    def occupied() -> None:
        raise AssertionError("open transaction")

    async with EmbeddingServer() as server:
        local, remote = MiniLm(guard=occupied), EndpointEmbedder(settings_for(server), guard=occupied)
        with pytest.raises(AssertionError, match="open transaction"):
            await (local if kind == "minilm" else remote).embed(TEXTS)
        assert server.calls == []
        await local.aclose()
        await remote.aclose()


# The model that ships with the product


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("How do I reset my password?", "I forgot my login, how can I get back in?", "The soup needs more salt."),
        ("The laser cutter is broken again.", "That machine for cutting plywood does not work.", "Happy birthday!"),
        ("when do we meet", "The meeting is on Thursday at six.", "My cat sleeps on the radiator."),
        ("ERR_CONN_RESET behind the proxy", "the firewall drops our connections", "bread dough rises overnight"),
    ],
)
async def test_what_means_the_same_is_nearer(minilm: MiniLm, text: str, near: str, far: str) -> None:
    asked, same, other = await minilm.embed([text, near, far])
    assert likeness(asked, same) > likeness(asked, other) + 0.1


async def test_marks_of_the_tokenizer_are_plain_text_when_people_type_them(minilm: MiniLm) -> None:
    plain, typed = await minilm.embed(["", "[SEP] [PAD] [MASK]"])
    assert likeness(plain, typed) < 0.9


async def test_what_lies_behind_the_window_changes_nothing(minilm: MiniLm) -> None:
    one, other = await minilm.embed(["tea " * 300 + "and a kettle", "tea " * 300 + "and nine policemen"])
    assert likeness(one, other) == pytest.approx(1.0, abs=1e-6)


async def test_the_event_loop_goes_on_meanwhile(minilm: MiniLm) -> None:
    work = asyncio.ensure_future(minilm.embed(["a kettle " * 100] * 4))
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    # A blocked loop would have turned a few times: once for each piece of work that was waited for.
    assert turns > 50


async def test_a_question_does_not_wait_for_the_archive(minilm: MiniLm) -> None:
    archive = asyncio.ensure_future(minilm.embed([f"message {n} about the kettle in the workshop" for n in range(200)]))
    await asyncio.sleep(0)
    await minilm.embed(["Where is the kettle?"])
    assert not archive.done()
    assert len(await archive) == 200


def test_an_idle_process_holds_neither_libraries_nor_model() -> None:
    code = (
        "import sys; from core.providers.minilm import MiniLm; from core.providers import embeddings;"
        "MiniLm(guard=lambda: None); print({'numpy', 'onnxruntime', 'tokenizers', 'httpx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rename(path: Path) -> None:
    path.write_text(path.read_text().replace("minilm-l6-v2-int8", "another"))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (MODEL_FILE, flip),
        (MODEL_FILE, Path.unlink),
        (TOKENIZER_FILE, flip),
        (MANIFEST_FILE, Path.unlink),
        (MANIFEST_FILE, lambda path: path.write_text("{")),
        (MANIFEST_FILE, rename),
    ],
)
async def test_a_damaged_file_is_refused_by_name_with_what_mends_it(tmp_path: Path, name: str, damage: Any) -> None:
    for file in DATA.iterdir():
        shutil.copy(file, tmp_path)
    damage(tmp_path / name)
    embedder = MiniLm(guard=free, folder=tmp_path)
    with pytest.raises(Misconfigured) as caught:
        await embedder.embed(["tea"])
    assert str(tmp_path / name) in str(caught.value) and "scripts/build_minilm.py" in str(caught.value)
    shutil.copy(DATA / name, tmp_path)
    assert len(await embedder.embed(["tea"])) == 1
    await embedder.aclose()


# An endpoint


def body(*vectors: Sequence[float], **more: Any) -> Raw:
    return Raw(json.dumps({"data": [{"embedding": list(vector), **more} for vector in vectors]}).encode())


GOOD = [1.0] * DIMENSION
FAILURES: dict[str, tuple[Any, type[BotError]]] = {
    "key refused": (Fail(401, {"error": {"message": f"key {KEY} is not known"}}), Misconfigured),
    "model not known": (Fail(404, {"error": {"message": "no model m"}}), Misconfigured),
    "throttled": (Fail(429, headers={"Retry-After": "7"}), Unavailable),
    "refused": (Fail(400, {"error": PRIVATE}), Refused),
    "failed": (Fail(500, {"error": PRIVATE}), Unavailable),
    "gateway gave up": (Fail(504), TimedOut),
    "led elsewhere": (Fail(307, headers={"Location": "http://127.0.0.1:9/v1/embeddings"}), Misconfigured),
    "garbage": (Raw(b"<html>" + PRIVATE.encode()), BadOutput),
    "not even text": (Raw(b"\xff\xfe\x00"), BadOutput),
    "nested without end": (Raw(b"[" * 60_000), BadOutput),
    "another shape": (Raw(b'{"data": [{"embedding": "AACAPw=="}]}'), BadOutput),
    "too few": (body(), BadOutput),
    "too many": (body(GOOD, GOOD), BadOutput),
    "place that is not": (body(GOOD, index=1), BadOutput),
    "another dimension": (body(GOOD[1:]), Misconfigured),
    "not a number": (body([float("nan"), *GOOD[1:]]), BadOutput),
    "infinite": (body([float("inf"), *GOOD[1:]]), BadOutput),
    "beyond all numbers": (Raw(b'{"data": [{"embedding": [1' + b"0" * 400 + b", 1]}]}"), BadOutput),
    "no direction": (body([0.0] * DIMENSION), BadOutput),
    "endless": (Raw(b" " * 200_000), BadOutput),
    "cut off": (Fault.CUT, Unavailable),
    "silent": (Fault.HOLD, TimedOut),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_is_ours_and_tells_no_secret(failure: str) -> None:
    answer, expected = FAILURES[failure]
    async with endpoint(EmbeddingServer(answer), total_s=0.3 if answer is Fault.HOLD else 10) as embedder:
        with pytest.raises(expected) as caught:
            await embedder.embed([PRIVATE])
    assert type(caught.value) is expected
    assert not [word for word in (KEY, PRIVATE) if word in f"{caught.value} {caught.value.attributes}"]
    assert getattr(caught.value, "retry_after_s", None) == (7 if failure == "throttled" else None)


async def test_an_address_where_nobody_listens_is_unavailable() -> None:
    async with EmbeddingServer() as server:
        settings = settings_for(server)
    embedder = EndpointEmbedder(settings, guard=free)
    with pytest.raises(Unavailable, match="not reachable"):
        await embedder.embed(["tea"])
    await embedder.aclose()


async def test_a_request_names_the_model_and_carries_the_key() -> None:
    server = EmbeddingServer()
    async with endpoint(server, batch_texts=2) as embedder:
        await embedder.embed(["tea", "", "\ud800"])
    assert [call.body["input"] for call in server.calls] == [["tea", BLANK], ["?"]]
    assert {call.body["model"] for call in server.calls} == {"m"}
    assert server.calls[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_a_batch_that_is_too_large_goes_out_in_parts() -> None:
    server = EmbeddingServer(Vectors(most_texts=2))
    async with endpoint(server) as embedder:
        assert len(await embedder.embed([f"tea {n}" for n in range(7)])) == 7


async def test_only_the_text_that_is_too_long_is_cut() -> None:
    server = EmbeddingServer(Vectors(most_chars=500))
    async with endpoint(server) as embedder:
        short, long = await embedder.embed(["kettle " * 60, "tea " * 400])
    sent = {text for call in server.calls for text in call.body["input"]}
    assert "kettle " * 60 in sent and "tea " * 100 in sent and "kettle " * 30 not in sent
    assert length(short) == pytest.approx(1) and length(long) == pytest.approx(1)


async def test_a_text_that_is_too_long_at_any_length_is_refused() -> None:
    async with endpoint(EmbeddingServer(Vectors(most_chars=1))) as embedder:
        with pytest.raises(Refused, match="too long"):
            await embedder.embed(["tea " * 400])


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}é", f" {KEY}"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(ValidationError, match="api_key") as caught:
        EmbeddingSettings.model_validate({"name": "m", "base_url": "http://host/v1", "dimension": 3, "api_key": key})
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("address", ["ftp://host/v1", "host/v1", "http://user:secret@host/v1"])
def test_an_address_that_cannot_be_asked_is_refused_when_set(address: str) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        EmbeddingSettings(name="m", base_url=address, dimension=3)
