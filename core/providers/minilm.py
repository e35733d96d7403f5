"""The embedder that ships with the product: MiniLM as int8 ONNX from package data, with no network and no key.

Its libraries are imported with the first text, so that a process which embeds nothing holds neither them nor
the model. All its work is done in threads of its own.
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from core.domain.errors import Misconfigured
from core.domain.vectors import EmbeddingModel, Vector

MODEL = EmbeddingModel("minilm-l6-v2-int8", 384)
DATA = Path(__file__).parent / "data"
MANIFEST_FILE = "minilm-l6-v2.json"
MODEL_FILE = "minilm-l6-v2.int8.onnx"
TOKENIZER_FILE = "tokenizer.json"

WINDOW_TOKENS = 256
"""What the model was tuned to read; the rest of a text is cut."""

READ_CHARS = 8_192
"""What is tokenized of a text: no prose fills the window with so many, and a pasted file costs no more."""

BATCH_TEXTS = 16
BATCH_TOKENS = 1_024
"""Padding included. Larger batches are not faster on small processors, and the memory of one is never given back."""

MEND = "install the package again, or build the files with scripts/build_minilm.py"

Guard = Callable[[], None]


class Manifest(BaseModel):
    """What was built: the model, its licence, and the hash of each file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    dimension: int
    tokens: int
    licence: str
    sha256: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The tokenizer and the session, both of which threads may share."""

    tokenizer: Any
    session: Any


class MiniLm:
    """`Embedder` in this process.

    A text's vector does not depend on what it is embedded together with. A call with many texts lets
    others in after each few batches, so a question does not wait for the archive.

    Args:
        guard: Called before each call; raises while a transaction is open.
        threads: How many batches are computed at once; each takes one core.
        folder: Where manifest, model and tokenizer lie.
    """

    def __init__(self, *, guard: Guard, threads: int = 2, folder: Path = DATA) -> None:
        self._guard = guard
        self._threads = threads
        self._folder = folder
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="minilm")
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def model(self) -> EmbeddingModel:
        """Return the model's name and dimension."""
        return MODEL

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return one vector of length one for each text, in order; the first call loads the model.

        Raises:
            Misconfigured: A file of the model is missing or damaged, or its libraries are not installed.
        """
        self._guard()
        if not texts:
            return ()
        loop = asyncio.get_running_loop()
        encoded = await loop.run_in_executor(self._pool, self._encode, tuple(texts))
        vectors: dict[int, Vector] = {}
        batches = _batches([len(ids) for ids in encoded])
        for n in range(0, len(batches), self._threads):
            wave = batches[n : n + self._threads]
            work = (loop.run_in_executor(self._pool, self._run, [encoded[at] for at in batch]) for batch in wave)
            done = await asyncio.gather(*work)
            vectors.update(zip(chain(*wave), chain(*done), strict=True))
        return tuple(vectors[at] for at in range(len(texts)))

    async def aclose(self) -> None:
        """Let the threads end after the batch that each has in hand."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ready(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = _load(self._folder)
            return self._loaded

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        tokenizer = self._ready().tokenizer
        # Half a surrogate pair is a string in Python, but no text.
        clean = (text[:READ_CHARS].encode("utf-8", "replace").decode() for text in texts)
        return [tokenizer.encode(text).ids for text in clean]

    def _run(self, batch: Sequence[list[int]]) -> list[Vector]:
        """Return the vectors of one batch, padded to its longest."""
        import numpy as np

        width = max(map(len, batch))
        ids = np.zeros((len(batch), width), np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(batch):
            ids[row, : len(each)] = each
            mask[row, : len(each)] = 1
        (vectors,) = self._ready().session.run(["vector"], {"input_ids": ids, "attention_mask": mask})
        return [tuple(vector) for vector in vectors.tolist()]


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return the places of all texts in batches of like length, the longest first."""
    batches: list[list[int]] = []
    width = 0
    for at in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        if not batches or len(batches[-1]) >= min(BATCH_TEXTS, BATCH_TOKENS // width):
            batches.append([])
            width = lengths[at]
        batches[-1].append(at)
    return batches


def _load(folder: Path) -> _Loaded:
    """Return the parts, made from the very bytes that were checked."""
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as exc:
        install = "pip install --require-hashes --no-deps -r requirements.lock"
        raise Misconfigured("minilm: a library is not installed", library=exc.name, install=install) from exc
    manifest = _manifest(folder / MANIFEST_FILE)
    tokenizer = Tokenizer.from_str(_checked(folder / TOKENIZER_FILE, manifest).decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(WINDOW_TOKENS)
    tokenizer.encode_special_tokens = True  # "[SEP]" typed by a person is five characters, not a mark of ours
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    # One thread a batch and several batches at once: threads inside a run spin while they wait for each other.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model = _checked(folder / MODEL_FILE, manifest)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return _Loaded(tokenizer, session)


def _manifest(path: Path) -> Manifest:
    try:
        manifest = Manifest.model_validate_json(_read(path))
    except ValidationError as exc:
        raise Misconfigured("minilm: file damaged", file=str(path), mend=MEND) from exc
    if (manifest.model, manifest.dimension, manifest.tokens) != (MODEL.name, MODEL.dimension, WINDOW_TOKENS):
        raise Misconfigured("minilm: files of another model", file=str(path), mend=MEND)
    return manifest


def _checked(path: Path, manifest: Manifest) -> bytes:
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != manifest.sha256.get(path.name):
        raise Misconfigured("minilm: file damaged", file=str(path), mend=MEND)
    return data


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise Misconfigured("minilm: file not readable", file=str(path), mend=MEND) from exc
