"""A double of model endpoints on loopback: OpenAI chat completions and Anthropic messages, with faults."""

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Say:
    """A good answer, streamed in `pieces`, and what may go wrong on its way.

    `usage` None: none is reported. `reasoning` goes out in the protocol's own field. `hold_after`: after so
    many pieces nothing more comes; `cut_after`: the connection breaks; `end_after`: the body ends politely,
    but early. `endless` repeats the last piece until the caller leaves.
    """

    pieces: Sequence[str]
    usage: tuple[int, int] | None = (12, 5)
    cached: int = 0
    finish: str = "stop"
    reasoning: str = ""
    tool: str = ""
    hold_after: int | None = None
    cut_after: int | None = None
    end_after: int | None = None
    endless: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Raw:
    """A 200 with any body, whatever was asked for."""

    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """What came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


Answer = Say | Fail | Raw
ANTHROPIC_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


class ModelServer:
    """Answers with what is in `script`, in order; the last one stays. `async with` starts and stops it.

    Leaving fails if a route was called that the double does not have.
    """

    def __init__(self, *script: Answer) -> None:
        self.script: deque[Answer] = deque(script)
        self.calls: list[Call] = []
        self.unknown: list[str] = []
        self.open_calls = 0
        self._leaving = asyncio.Event()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._openai)
        app.router.add_post("/v1/messages", self._anthropic)
        app.router.add_route("*", "/{rest:.*}", self._no_such_route)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        self._port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._leaving.set()
        await self._runner.cleanup()
        assert not self.unknown, f"routes the double does not have: {self.unknown}"

    @property
    def root(self) -> str:
        """The address that Anthropic's SDK is given."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """The address that OpenAI's SDK is given."""
        return f"{self.root}/v1"

    async def _no_such_route(self, request: web.Request) -> web.Response:
        self.unknown.append(f"{request.method} {request.path}")
        return web.json_response({"error": {"message": "not in the double"}}, status=501)

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, openai_whole, openai_events)

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, anthropic_whole, anthropic_events)

    async def _answer(self, request: web.Request, whole: Any, events: Any) -> web.StreamResponse:
        body = await request.json()
        self.calls.append(Call(request.path, dict(request.headers), body))
        answer = self.script.popleft() if len(self.script) > 1 else self.script[0]
        self.open_calls += 1
        try:
            match answer:
                case Fail():
                    return web.json_response(dict(answer.body), status=answer.status, headers=dict(answer.headers))
                case Raw():
                    return web.Response(body=answer.body, content_type=answer.content_type)
                case Say() if body.get("stream"):
                    return await self._stream(request, answer, events(answer))
                case Say():
                    return await self._whole(request, answer, whole(answer))
        finally:
            self.open_calls -= 1

    async def _whole(self, request: web.Request, say: Say, body: dict[str, Any]) -> web.StreamResponse:
        if say.hold_after is not None or say.endless:
            await self._leaving.wait()
        if say.cut_after is not None:
            self._cut(request)
        return web.json_response(body)

    async def _stream(self, request: web.Request, say: Say, events: Iterator[tuple[int, str]]) -> web.StreamResponse:
        """Send the events; each comes with the number of pieces that went out before it."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for sent, event in events:
            if say.hold_after is not None and sent >= say.hold_after:
                await self._leaving.wait()
            if say.cut_after is not None and sent >= say.cut_after:
                await asyncio.sleep(0)  # what was written goes out first
                self._cut(request)
                return response
            if say.end_after is not None and sent >= say.end_after:
                break
            await response.write(event.encode())
        await response.write_eof()
        return response

    def _cut(self, request: web.Request) -> None:
        if request.transport is not None:
            request.transport.close()


def pieces_of(say: Say) -> Iterator[str]:
    """Yield the pieces, the last one for ever if asked."""
    yield from say.pieces
    while say.endless:
        yield say.pieces[-1]


def data(event: Mapping[str, Any], name: str | None = None) -> str:
    """Return one server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n"


def openai_usage(say: Say) -> dict[str, Any] | None:
    if say.usage is None:
        return None
    asked, said = say.usage
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": say.cached},
    }


def openai_whole(say: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.text}
    if say.reasoning:
        message["reasoning_content"] = say.reasoning
    if say.tool:
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": {"name": say.tool, "arguments": "{}"}}]
    whole: dict[str, Any] = {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "what-the-server-calls-it",
        "choices": [{"index": 0, "message": message, "finish_reason": say.finish}],
    }
    if (usage := openai_usage(say)) is not None:
        whole["usage"] = usage
    return whole


def openai_events(say: Say) -> Iterator[tuple[int, str]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return data(
            {
                "id": "chat-1",
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": "what-the-server-calls-it",
                "choices": [choice],
            }
        )

    yield 0, chunk({"role": "assistant", "content": ""})
    if say.reasoning:
        yield 0, chunk({"reasoning_content": say.reasoning})
    count = 0
    for count, piece in enumerate(pieces_of(say), start=1):
        yield count - 1, chunk({"content": piece})
    if say.tool:
        call = {"index": 0, "id": "c1", "type": "function", "function": {"name": say.tool, "arguments": "{}"}}
        yield count, chunk({"tool_calls": [call]})
    yield count, chunk({}, say.finish)
    if (usage := openai_usage(say)) is not None:
        last = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
        yield count, data({**last, "usage": usage})
    yield count, "data: [DONE]\n\n"


def anthropic_usage(say: Say) -> dict[str, int]:
    asked, said = say.usage or (0, 0)
    return {
        "input_tokens": asked - say.cached,
        "output_tokens": said,
        "cache_read_input_tokens": say.cached,
        "cache_creation_input_tokens": 0,
    }


def anthropic_whole(say: Say) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if say.reasoning:
        content.append({"type": "thinking", "thinking": say.reasoning, "signature": "s"})
    content.append({"type": "text", "text": say.text})
    if say.tool:
        content.append({"type": "tool_use", "id": "c1", "name": say.tool, "input": {}})
    return {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": "what-the-server-calls-it",
        "content": content,
        "stop_reason": ANTHROPIC_STOPS[say.finish],
        "stop_sequence": None,
        "usage": anthropic_usage(say),
    }


def anthropic_events(say: Say) -> Iterator[tuple[int, str]]:
    def event(kind: str, **fields: Any) -> str:
        return data({"type": kind, **fields}, kind)

    start = {**anthropic_whole(say), "content": [], "stop_reason": None}
    start["usage"] = {**anthropic_usage(say), "output_tokens": 0}
    yield 0, event("message_start", message=start)
    index = 0
    if say.reasoning:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        thought = {"type": "thinking_delta", "thinking": say.reasoning}
        yield 0, event("content_block_start", index=0, content_block=block)
        yield 0, event("content_block_delta", index=0, delta=thought)
        yield 0, event("content_block_stop", index=0)
        index = 1
    yield 0, event("content_block_start", index=index, content_block={"type": "text", "text": ""})
    count = 0
    for count, piece in enumerate(pieces_of(say), start=1):
        text = {"type": "text_delta", "text": piece}
        yield count - 1, event("content_block_delta", index=index, delta=text)
    yield count, event("content_block_stop", index=index)
    if say.tool:
        call = {"type": "tool_use", "id": "c1", "name": say.tool, "input": {}}
        yield count, event("content_block_start", index=index + 1, content_block=call)
        yield count, event("content_block_stop", index=index + 1)
    ended = {"stop_reason": ANTHROPIC_STOPS[say.finish], "stop_sequence": None}
    yield count, event("message_delta", delta=ended, usage=anthropic_usage(say))
    yield count, event("message_stop")
