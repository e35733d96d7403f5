"""The embedder behind an address: any endpoint that speaks OpenAI's `/embeddings`.

What it answers is not believed before it was counted, measured and made one long. Nothing is tried again
here but a text that was too long, which is cut; the rest is left to the caller.
"""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from core.domain.errors import BadOutput, BotError, Misconfigured, Refused, TimedOut, TooLong, Unavailable
from core.domain.vectors import EmbeddingModel, Vector

CONNECT_S = 5.0
LEAST_CHARS = 64
"""A text that is refused as too long at this size was refused for something else."""

LEAST_LENGTH = 1e-12
"""A shorter vector is rounding, no direction."""

BLANK = "."
"""Sent for a text without words, which some endpoints refuse."""

BYTES_PER_NUMBER = 64
SPARE_BYTES = 65_536
"""No honest answer is larger than this and so much for each number of its vectors."""

BROKEN_CHARS = 4_096
"""How much is read of an error, to tell what it is."""

TOO_LONG = (
    "context size",
    "context length",
    "context window",
    "too many tokens",
    "too large to process",
    "must have less than",
    "batch size",
)

Guard = Callable[[], None]


class EmbeddingSettings(BaseModel):
    """One embedding model behind one address.

    `dimension` is what the model's vectors have; another one in an answer is an error. `batch_texts`: how
    many texts go out in one request. `window_chars`: what is sent of a text at most. `total_s`: how long
    one request may take.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: str = Field(min_length=1)
    base_url: str
    dimension: int = Field(gt=0, le=16_000)
    api_key: SecretStr | None = None
    batch_texts: int = Field(default=32, gt=0, le=2_048)
    window_chars: int = Field(default=4_000, ge=LEAST_CHARS)
    total_s: float = Field(default=60, gt=0)

    @model_validator(mode="after")
    def _usable(self) -> Self:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must begin with http:// or https:// and name a host")
        if parts.username or parts.password:
            raise ValueError("base_url must not carry a password; use api_key")
        key = self.api_key.get_secret_value() if self.api_key else "none"
        # The library would refuse it later, with the key in its words.
        if not (key.isascii() and key.isprintable() and key == key.strip()):
            raise ValueError("api_key must be plain letters, digits and signs in one line")
        return self


class _Entry(BaseModel):
    """One vector of an answer; without an index it stands where it belongs."""

    embedding: list[float]
    index: int | None = None


class _Answer(BaseModel):
    """What is read of an answer; endpoints add fields of their own."""

    data: list[_Entry]


class EndpointEmbedder:
    """`Embedder` over HTTP. It opens nothing before the first text.

    Args:
        settings: The model and its address.
        guard: Called before each call; raises while a transaction is open.
    """

    def __init__(self, settings: EmbeddingSettings, *, guard: Guard) -> None:
        import httpx

        self._settings = settings
        self._guard = guard
        key = settings.api_key
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
            timeout=httpx.Timeout(settings.total_s, connect=CONNECT_S),
            follow_redirects=False,  # a redirect could carry the key to another host
            # Proxies of the environment never apply to this machine itself.
            trust_env=urlsplit(settings.base_url).hostname not in ("127.0.0.1", "localhost", "::1"),
        )

    @property
    def model(self) -> EmbeddingModel:
        """Return the model's name and dimension, as set."""
        return EmbeddingModel(self._settings.name, self._settings.dimension)

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return one vector of length one for each text, in order.

        Raises:
            Unavailable, TimedOut: The endpoint is down, throttles or did not answer in time.
            Misconfigured: Address, key, name or dimension is not what the endpoint has.
            Refused, BadOutput: It will not take these texts, or what it answered is no set of vectors.
        """
        self._guard()
        sent = [_sendable(text, self._settings.window_chars) for text in texts]
        vectors: list[Vector] = []
        for n in range(0, len(sent), self._settings.batch_texts):
            vectors += await self._fitting(sent[n : n + self._settings.batch_texts])
        return tuple(vectors)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _fitting(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors; what is too long is asked for in halves, first of the batch, then of the text.

        A text is cut only where it stands alone, so its vector does not depend on what was sent with it.
        """
        try:
            return await self._asked(texts)
        except TooLong as exc:
            half = len(texts) // 2
            if len(texts) > 1:
                return [*await self._fitting(texts[:half]), *await self._fitting(texts[half:])]
            (text,) = texts
            if len(text) <= LEAST_CHARS:
                raise Refused("embeddings: text refused as too long", model=self._settings.name) from exc
            return await self._fitting([text[: len(text) // 2]])

    async def _asked(self, texts: Sequence[str]) -> list[Vector]:
        """Return what one request gives."""
        body = {"model": self._settings.name, "input": list(texts), "encoding_format": "float"}
        limit = SPARE_BYTES + len(texts) * self._settings.dimension * BYTES_PER_NUMBER
        with self._errors():
            async with (
                asyncio.timeout(self._settings.total_s),
                self._http.stream("POST", f"{self._settings.base_url.rstrip('/')}/embeddings", json=body) as response,
            ):
                read = bytearray()
                async for chunk in response.aiter_bytes():
                    read += chunk
                    if len(read) > limit:
                        raise BadOutput("embeddings: answer too large", model=self._settings.name)
                if response.status_code != 200:
                    said = bytes(read[:BROKEN_CHARS]).decode("utf-8", "replace").lower().replace("_", " ")
                    raise _refusal(response, said, self._settings.name)
            # A batch of long vectors takes the parser long enough to be felt on the event loop.
            return await asyncio.to_thread(self._vectors, bytes(read), len(texts))

    def _vectors(self, read: bytes, count: int) -> list[Vector]:
        """Return the vectors of an answer, checked, in the order of the texts."""
        name, dimension = self._settings.name, self._settings.dimension
        entries = _Answer.model_validate(json.loads(read)).data
        if len(entries) != count:
            raise BadOutput("embeddings: another number of vectors than texts", model=name, vectors=len(entries))
        places = [at if entry.index is None else entry.index for at, entry in enumerate(entries)]
        if sorted(places) != list(range(count)):
            raise BadOutput("embeddings: vectors without an order", model=name)
        ordered = [entry.embedding for _, entry in sorted(zip(places, entries, strict=True), key=lambda pair: pair[0])]
        for numbers in ordered:
            if len(numbers) != dimension:
                raise Misconfigured(
                    "embeddings: vectors of another dimension", model=name, set=dimension, got=len(numbers)
                )
        return [self._unit(numbers) for numbers in ordered]

    def _unit(self, numbers: Sequence[float]) -> Vector:
        length = math.hypot(*numbers)
        if not math.isfinite(length) or length < LEAST_LENGTH:
            raise BadOutput("embeddings: vector without a direction", model=self._settings.name)
        return tuple(number / length for number in numbers)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the library into ours; what the endpoint said stays in the cause."""
        import httpx

        name = self._settings.name
        try:
            yield
        except BotError:
            raise
        except (httpx.ConnectTimeout, httpx.ConnectError) as exc:
            raise Unavailable("embeddings: not reachable", model=name) from exc
        except (TimeoutError, httpx.TimeoutException) as exc:
            raise TimedOut("embeddings: no answer in time", model=name) from exc
        except httpx.TransportError as exc:
            raise Unavailable("embeddings: connection broke", model=name) from exc
        except httpx.InvalidURL as exc:
            raise Misconfigured("embeddings: address not usable", model=name) from exc
        except (httpx.HTTPError, ValidationError, ValueError, RecursionError) as exc:
            raise BadOutput("embeddings: answer not readable", model=name) from exc


def _sendable(text: str, most_chars: int) -> str:
    """Return what is sent of a text: cut, without halves of surrogate pairs, and never blank."""
    cut = text[:most_chars].encode("utf-8", "replace").decode()
    return cut if cut.strip() else BLANK


def _refusal(response: Any, said: str, model: str) -> BotError:
    """Return our error for an answer that is none; the order goes from the special to the general."""
    status = response.status_code
    match status:
        case 401 | 403:
            return Misconfigured("embeddings: key refused", model=model, status=status)
        case 404 | 405:
            return Misconfigured("embeddings: model or address not known", model=model, status=status)
        case 408 | 504:
            return TimedOut("embeddings: no answer in time", model=model, status=status)
        case 429:
            return Unavailable("embeddings: rate limited", _retry_after_s(response), model=model, status=status)
        case 413:
            return TooLong("embeddings: text too long", model=model, status=status)
        case 400 | 422 | 500 if any(word in said for word in TOO_LONG):
            return TooLong("embeddings: text too long", model=model, status=status)
        case _ if 300 <= status < 400:
            return Misconfigured("embeddings: address leads elsewhere", model=model, status=status)
        case _ if status < 500:
            return Refused("embeddings: request refused", model=model, status=status)
    return Unavailable("embeddings: endpoint failed", _retry_after_s(response), model=model, status=status)


def _retry_after_s(response: Any) -> float | None:
    """Return the seconds that the endpoint asked for; a date counts as not said."""
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
