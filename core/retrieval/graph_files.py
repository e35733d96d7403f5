"""A graph.json in node-link form, read whole or refused whole."""

import asyncio
import hashlib
import json
import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from core.domain.errors import InputRejected, Misconfigured, TooLong
from core.domain.graphs import MOST_EDGES, MOST_GRAPH_BYTES, MOST_NODES, Graph, GraphEdge, GraphNode, build_graph

TEXT_CHARS = 500


def _word(value: object) -> object:
    """Take numbers as names, and make any text one that the database can hold."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode("utf-8")[:TEXT_CHARS]
    return value


def _share(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1:
        return float(value)
    return None


def _number(value: object) -> object:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


Word = Annotated[str, BeforeValidator(_word)]


class _Node(BaseModel):
    # Tools add keys of their own to nodes and links; what we do not know is not read.
    model_config = ConfigDict(frozen=True, extra="ignore")
    id: Annotated[Word, Field(min_length=1)]
    label: Word = ""
    file_type: Word = ""
    source_file: Word = ""
    source_location: Word = ""
    community: Annotated[int | None, BeforeValidator(_number)] = None


class _Link(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    source: Annotated[Word, Field(min_length=1)]
    target: Annotated[Word, Field(min_length=1)]
    relation: Word = ""
    confidence: Word = ""
    confidence_score: Annotated[float | None, BeforeValidator(_share)] = None


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    nodes: Annotated[list[_Node], Field(max_length=MOST_NODES)]
    links: Annotated[list[_Link], Field(max_length=MOST_EDGES)]

    @model_validator(mode="before")
    @classmethod
    def _edges_are_links(cls, value: Any) -> Any:
        if isinstance(value, dict) and "links" not in value and "edges" in value:
            return {**value, "links": value["edges"]}
        return value


async def read_graph_file(name: str, location: str) -> tuple[bytes, str]:
    """Return a file's bytes and their hash.

    Raises:
        Misconfigured: It is not there or cannot be read.
        TooLong: It is larger than a graph may be.
    """

    def read() -> bytes:
        with Path(location).open("rb") as file:
            return file.read(MOST_GRAPH_BYTES + 1)

    try:
        content = await asyncio.to_thread(read)
    except OSError as exc:
        raise Misconfigured(f"source {name}: {location} cannot be read") from exc
    if len(content) > MOST_GRAPH_BYTES:
        raise TooLong(f"source {name}: a graph may have {MOST_GRAPH_BYTES // 1024**2} MB at most")
    return content, hashlib.sha256(content).hexdigest()


def parse_graph(name: str, content: bytes) -> Graph:
    """Return the graph that a file holds.

    Raises:
        InputRejected: It is no graph in node-link form; the message says where it is not.
    """
    try:
        found = _File.model_validate(json.loads(content))
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the file"
        raise InputRejected(f"source {name}: no graph, {where}: {first['msg'].lower()}") from exc
    except (ValueError, RecursionError) as exc:
        raise InputRejected(f"source {name}: no graph, the file is no JSON") from exc
    nodes = (
        GraphNode(
            ref=node.id,
            label=node.label or node.id,
            file_type=node.file_type,
            source_file=node.source_file,
            source_location=node.source_location,
            cluster=node.community,
        )
        for node in found.nodes
    )
    edges = (
        GraphEdge(
            from_ref=link.source,
            to_ref=link.target,
            relation=link.relation,
            confidence=link.confidence,
            score=link.confidence_score,
        )
        for link in found.links
    )
    return build_graph(nodes, edges)
