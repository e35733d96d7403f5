"""Graphs that were brought along, whole. Only this module writes these tables."""

from core.domain.graphs import Graph
from core.domain.sources import SourceId
from core.store.engine import Tx

BATCH_ROWS = 5_000
DELETE_ROWS = 20_000

_GRAPH = "insert into voidbot.graphs (source_id, content_hash, dangling) values ($1, $2, $3) returning id"
_NODES = """
insert into voidbot.graph_nodes (graph_id, ref, label, file_type, source_file, source_location, cluster)
select $1, * from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[])"""
_EDGES = """
insert into voidbot.graph_edges (graph_id, from_ref, to_ref, relation, confidence, confidence_score)
select $1, * from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::real[])"""

_DROP_EDGES = f"""
delete from voidbot.graph_edges where ctid = any(array(
    select ctid from voidbot.graph_edges where graph_id = $1 limit {DELETE_ROWS}))"""
_DROP_NODES = f"""
delete from voidbot.graph_nodes where ctid = any(array(
    select ctid from voidbot.graph_nodes where graph_id = $1 limit {DELETE_ROWS}))"""


async def replace_graph(tx: Tx, source_id: SourceId, content_hash: str, graph: Graph) -> None:
    """Put a whole graph in place of the one before."""
    await remove_graph(tx, source_id)
    graph_id = await tx.fetchval(_GRAPH, source_id, content_hash, graph.dangling)
    for at in range(0, len(graph.nodes), BATCH_ROWS):
        nodes = graph.nodes[at : at + BATCH_ROWS]
        await tx.execute(
            _NODES,
            graph_id,
            [node.ref for node in nodes],
            [node.label for node in nodes],
            [node.file_type for node in nodes],
            [node.source_file for node in nodes],
            [node.source_location for node in nodes],
            [node.cluster for node in nodes],
        )
    for at in range(0, len(graph.edges), BATCH_ROWS):
        edges = graph.edges[at : at + BATCH_ROWS]
        await tx.execute(
            _EDGES,
            graph_id,
            [edge.from_ref for edge in edges],
            [edge.to_ref for edge in edges],
            [edge.relation for edge in edges],
            [edge.confidence for edge in edges],
            [edge.score for edge in edges],
        )


async def remove_graph(tx: Tx, source_id: SourceId) -> None:
    """Remove the graph of a source, if it has one."""
    graph_id = await tx.fetchval("select id from voidbot.graphs where source_id = $1", source_id)
    if graph_id is not None:
        await delete_in_steps(tx, _DROP_EDGES, graph_id)
        await delete_in_steps(tx, _DROP_NODES, graph_id)
        await tx.execute("delete from voidbot.graphs where id = $1", graph_id)


async def delete_in_steps(tx: Tx, step: str, value: int) -> None:
    """Run a statement that deletes `DELETE_ROWS` at most until nothing is left, so that each ends in time."""
    while await tx.execute(step, value) == DELETE_ROWS:
        pass


async def graph_hash(tx: Tx, source_id: SourceId) -> str:
    """Return the hash of the file that a source's graph was read from; empty if there is none."""
    return str(await tx.fetchval("select content_hash from voidbot.graphs where source_id = $1", source_id) or "")
