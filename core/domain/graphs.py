"""Knowledge graphs as they are brought along: nodes, edges, and how sure whoever made them was. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

MOST_NODES = 200_000
MOST_EDGES = 1_000_000
MOST_GRAPH_BYTES = 50 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """One thing of a graph. `ref`: its id there; `cluster`: the group it was sorted into, None for none."""

    ref: str
    label: str = ""
    file_type: str = ""
    source_file: str = ""
    source_location: str = ""
    cluster: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """One connection. `confidence` is the maker's word, such as EXTRACTED or INFERRED; `score` is 0 to 1 or None."""

    from_ref: str
    to_ref: str
    relation: str = ""
    confidence: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole graph. `dangling`: how many edges led to no node and were dropped."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    dangling: int = 0


def build_graph(nodes: Iterable[GraphNode], edges: Iterable[GraphEdge]) -> Graph:
    """Return the graph: of nodes with the same id the first one stands, edges to nowhere are dropped and counted."""
    known: dict[str, GraphNode] = {}
    for node in nodes:
        known.setdefault(node.ref, node)
    kept: list[GraphEdge] = []
    dangling = 0
    for edge in edges:
        if edge.from_ref in known and edge.to_ref in known:
            kept.append(edge)
        else:
            dangling += 1
    return Graph(tuple(known.values()), tuple(kept), dangling)
