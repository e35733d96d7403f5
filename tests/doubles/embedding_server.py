"""A double of an embeddings endpoint on loopback: vectors made of the words, in any order, with faults."""

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from aiohttp import web

from tests.doubles.model_server import Call, Fail, Raw

DIMENSION = 32


class Fault(StrEnum):
    """What may become of a connection, or of a good answer."""

    HOLD = "hold"  # nothing comes
    CUT = "cut"  # half an answer, then the end


@dataclass(frozen=True, slots=True)
class Vectors:
    """A good answer: not of length one and last text first, as the protocol allows.

    `most_texts` and `most_chars`: what is larger is refused, in the words of servers that do so. `blank`: texts
    without words are taken too.
    """

    most_texts: int = 64
    most_chars: int = 100_000
    blank: bool = False


def vector_of(text: str) -> list[float]:
    """Return a vector that texts share as far as they share words."""
    numbers = [0.0] * DIMENSION
    for word in text.lower().split():
        digest = hashlib.sha256(word.encode()).digest()
        numbers[digest[0] % DIMENSION] += 3.0 if digest[1] % 2 else -3.0
    return numbers if any(numbers) else [1.0] * DIMENSION


class EmbeddingServer:
    """Answers with what is in `script`, in order; the last one stays. `async with` starts and stops it."""

    def __init__(self, *script: Vectors | Fail | Raw | Fault) -> None:
        self.script = deque(script or (Vectors(),))
        self.calls: list[Call] = []
        self._leaving = asyncio.Event()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/embeddings", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        self._port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._leaving.set()
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The address to set."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.calls.append(Call(request.path, dict(request.headers), body))
        answer = self.script.popleft() if len(self.script) > 1 else self.script[0]
        match answer:
            case Fail():
                return web.json_response(dict(answer.body), status=answer.status, headers=dict(answer.headers))
            case Raw():
                return web.Response(body=answer.body, content_type=answer.content_type)
            case Vectors():
                return self._vectors(answer, body["input"])
            case Fault.HOLD:
                await self._leaving.wait()
                return web.Response(status=503)
            case Fault.CUT:
                return await self._cut(request)

    def _vectors(self, answer: Vectors, texts: Sequence[str]) -> web.Response:
        if len(texts) > answer.most_texts:
            said = f"batch size {len(texts)} > maximum allowed batch size {answer.most_texts}"
            return web.json_response({"error": said}, status=422)
        if max(map(len, texts)) > answer.most_chars:
            said = "the input length exceeds the context length"
            return web.json_response({"error": {"message": said}}, status=400)
        if not answer.blank and not all(text.strip() for text in texts):
            return web.json_response({"error": {"message": "'$.input' is invalid."}}, status=400)
        data: list[dict[str, Any]] = [
            {"object": "embedding", "index": n, "embedding": vector_of(text)} for n, text in enumerate(texts)
        ]
        whole = {"object": "list", "data": data[::-1], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        return web.json_response(whole)

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"data": [{"embedding": [')
        if request.transport is not None:
            request.transport.close()
        return response


def length(vector: Sequence[float]) -> float:
    """Return how long a vector is."""
    return math.sqrt(sum(number * number for number in vector))
