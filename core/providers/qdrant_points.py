"""Vectors in Qdrant: a collection for each model, reached by an alias that bears the model's name.

The alias is made last, so that where it is, everything is; it also keeps one name from two dimensions.
"""

import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from core.domain.errors import BotError, Misconfigured, Refused, TimedOut, Unavailable
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.vectors import (
    EmbeddingModel,
    UnitId,
    Vector,
    VectorHit,
    VectorRow,
    VectorScope,
    VectorsOf,
    normalised,
    storage_key,
)
from core.ports import VectorStore

_POINTS = uuid.UUID("6f1d5ac8-3f0a-5d1c-9a44-2f6b1f8c0e51")
"""The namespace of our points' ids; another one would lose every stored vector."""
_ROWS_AT_ONCE = 500
_TIES = 50
"""How many more are asked for, so that equal ones at the end are told apart by unit and not by chance."""
_TUNED = models.SearchParams(hnsw_ef=128, quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0))
_NUMBER = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False)
_INDEXES: Mapping[str, models.PayloadSchemaType | models.KeywordIndexParams | models.IntegerIndexParams] = {
    "community_id": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "unit_id": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True),
    "room_id": _NUMBER,
    "author_id": _NUMBER,
    "message_id": _NUMBER,
    "sent_at": models.PayloadSchemaType.DATETIME,
    "kind": models.PayloadSchemaType.KEYWORD,
}


def client_of(url: str, api_key: str | None, timeout_s: int) -> AsyncQdrantClient:
    """Return a client for this address that has asked nothing yet."""
    with warnings.catch_warnings():
        # Said of a key without TLS, which is how services of one machine speak; the operator chose the address.
        warnings.simplefilter("ignore", UserWarning)
        return AsyncQdrantClient(url=url, api_key=api_key, timeout=timeout_s, check_compatibility=False)


class QdrantStore(VectorStore):
    """The store of large installations. Every write is waited for, so that what was deleted is not found."""

    def __init__(self, client: AsyncQdrantClient, *, guard: Callable[[], None], nodes: int = 1) -> None:
        self._client = client
        self._guard = guard
        self._nodes = nodes

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ensure(self, model: EmbeddingModel) -> None:
        """Make the model's collection, its payload indexes and, last, its alias.

        Raises:
            Misconfigured: The same name stands for another dimension, or the key is refused.
        """
        alias = alias_of(model)
        collection = f"{alias}_{model.dimension}"
        with self._asking():
            known = {each.alias_name for each in (await self._client.get_aliases()).aliases}
            if alias in known:
                await self._check_dimension(model)
                return
            if not await self._client.collection_exists(collection):
                await self._create(collection, model.dimension)
            for field, kind in _INDEXES.items():
                await self._client.create_payload_index(collection, field, field_schema=kind, wait=True)
            created = models.CreateAlias(collection_name=collection, alias_name=alias)
            await self._client.update_collection_aliases([models.CreateAliasOperation(create_alias=created)])

    async def _check_dimension(self, model: EmbeddingModel) -> None:
        held = (await self._client.get_collection(alias_of(model))).config.params.vectors
        size = held.size if isinstance(held, models.VectorParams) else None
        if size != model.dimension:
            raise Misconfigured(
                "vectors: this model's name stands for another dimension; give the model another name",
                model=model.name,
                asked=model.dimension,
                held=size,
            )

    async def _create(self, collection: str, dimension: int) -> None:
        spread = self._nodes > 1
        try:
            await self._client.create_collection(
                collection,
                vectors_config=models.VectorParams(size=dimension, distance=models.Distance.COSINE),
                quantization_config=models.ScalarQuantization(
                    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
                ),
                shard_number=2 * self._nodes if spread else None,
                replication_factor=2 if spread else None,
                write_consistency_factor=2 if spread else None,
            )
        except UnexpectedResponse as exc:
            if exc.status_code != 409:  # another process made it meanwhile
                raise

    async def upsert(self, model: EmbeddingModel, rows: Sequence[VectorRow]) -> None:
        """Store vectors; what a unit had before is replaced."""
        points = [
            models.PointStruct(
                id=_point(row.unit_id), vector=list(normalised(row.vector, model)), payload=_payload(row)
            )
            for row in rows
        ]
        for start in range(0, len(points), _ROWS_AT_ONCE):
            with self._asking():
                await self._client.upsert(alias_of(model), points[start : start + _ROWS_AT_ONCE], wait=True)

    async def delete(self, model: EmbeddingModel, of: VectorsOf) -> int:
        """Delete vectors; return how many there were just before."""
        must: list[models.Condition] = [_is("community_id", str(of.community_id))]
        if of.units is not None:
            if not of.units:
                return 0
            must.append(models.HasIdCondition(has_id=[_point(unit) for unit in sorted(of.units)]))
        given = (("room_id", of.room_id), ("message_id", of.message_id), ("author_id", of.author_id))
        must += [_is(field, value) for field, value in given if value is not None]
        chosen = models.Filter(must=must)
        with self._asking():
            there: int = (await self._client.count(alias_of(model), count_filter=chosen, exact=True)).count
            await self._client.delete(alias_of(model), models.FilterSelector(filter=chosen), wait=True)
        return there

    async def search(self, model: EmbeddingModel, vector: Vector, scope: VectorScope, k: int) -> Sequence[VectorHit]:
        """Return the `k` most alike within the scope, best first, equal ones by unit."""
        asked = list(normalised(vector, model))
        if not scope.rooms or k <= 0:
            return []
        with self._asking():
            found = await self._client.query_points(
                alias_of(model),
                query=asked,
                query_filter=_filter(scope),
                search_params=_TUNED,
                limit=k + _TIES,
                with_payload=["unit_id", "unit_hash"],
            )
        hits = [
            VectorHit(UnitId(point.payload["unit_id"]), _score(point.score), point.payload["unit_hash"])
            for point in found.points
            if point.payload is not None
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.unit_id))[:k]

    async def count(self, model: EmbeddingModel, scope: VectorScope) -> int:
        """Return how many vectors the scope holds."""
        if not scope.rooms:
            return 0
        with self._asking():
            there: int = (await self._client.count(alias_of(model), count_filter=_filter(scope), exact=True)).count
        return there

    async def scan(self, model: EmbeddingModel, after: UnitId | None, limit: int) -> Sequence[VectorRow]:
        """Return vectors in order of their units, those behind `after`."""
        behind = models.FieldCondition(key="unit_id", range=models.Range(gt=-1 if after is None else after))
        with self._asking():
            records, _ = await self._client.scroll(
                alias_of(model),
                scroll_filter=models.Filter(must=[behind]),
                order_by=models.OrderBy(key="unit_id", direction=models.Direction.ASC),
                limit=limit,
                with_vectors=True,
            )
        return [_row(record) for record in records]

    async def drop(self, model: EmbeddingModel) -> None:
        """Remove the model's collection, with its alias; does nothing where there is none."""
        with self._asking():
            for each in (await self._client.get_aliases()).aliases:
                if each.alias_name == alias_of(model):
                    await self._client.delete_collection(each.collection_name)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._guard()
        with qdrant_errors():
            yield


def alias_of(model: EmbeddingModel) -> str:
    """Return the name under which the model's collection is asked."""
    return f"voidbot_{storage_key(model)}"


@contextmanager
def qdrant_errors() -> Iterator[None]:
    """Turn the library's errors into ours. What a server wrote is left out: it may repeat what it was sent."""
    try:
        yield
    except BotError:
        raise
    except ResourceExhaustedResponse as exc:
        raise Unavailable("qdrant: asks to wait", retry_after_s=exc.retry_after_s) from None
    except QdrantException:
        raise Unavailable("qdrant: asks to wait") from None
    except ResponseHandlingException as exc:
        if isinstance(exc.source, httpx.TimeoutException):
            raise TimedOut("qdrant: no answer in time") from exc
        if isinstance(exc.source, httpx.TransportError):
            raise Unavailable("qdrant: not reachable") from exc
        raise Unavailable("qdrant: answered what is no answer") from None
    except UnexpectedResponse as exc:
        raise _refusal(exc.status_code) from None
    except ValueError:  # no JSON
        raise Unavailable("qdrant: answered what is no answer") from None


def _refusal(status: int | None) -> BotError:
    match status:
        case 401 | 403:
            return Misconfigured("qdrant: refused QDRANT_API_KEY", status=status)
        case 404:
            return Unavailable("qdrant: there is nothing of this model", status=status)
        case 400 | 409 | 413 | 422:
            return Refused("qdrant: refused the request", status=status)
        case _:
            return Unavailable("qdrant: does not answer as it should", status=status)


def _point(unit_id: UnitId) -> str:
    return str(uuid.uuid5(_POINTS, str(unit_id)))


def _payload(row: VectorRow) -> dict[str, object]:
    return {
        "unit_id": row.unit_id,
        "community_id": str(row.community_id),
        "room_id": row.room_id,
        "message_id": row.message_id,
        "author_id": row.author_id,
        "sent_at": row.sent_at.astimezone(UTC).isoformat(),
        "kind": row.kind,
        "unit_hash": row.unit_hash,
    }


def _is(field: str, value: str | int) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))


def _filter(scope: VectorScope) -> models.Filter:
    must: list[models.Condition] = [
        _is("community_id", str(scope.community_id)),
        models.FieldCondition(key="room_id", match=models.MatchAny(any=sorted(scope.rooms))),
    ]
    if scope.authors:
        must.append(models.FieldCondition(key="author_id", match=models.MatchAny(any=sorted(scope.authors))))
    if scope.kinds:
        must.append(models.FieldCondition(key="kind", match=models.MatchAny(any=sorted(scope.kinds))))
    if scope.since is not None or scope.until is not None:
        between = models.DatetimeRange(gte=scope.since, lt=scope.until)
        must.append(models.FieldCondition(key="sent_at", range=between))
    return models.Filter(must=must)


def _score(value: float) -> float:
    return max(-1.0, min(1.0, value))


def _row(record: models.Record) -> VectorRow:
    held = record.payload or {}
    numbers = record.vector if isinstance(record.vector, list) else []
    return VectorRow(
        unit_id=UnitId(held["unit_id"]),
        community_id=CommunityId(int(held["community_id"])),
        room_id=RoomId(held["room_id"]),
        message_id=None if held["message_id"] is None else MessageId(held["message_id"]),
        author_id=None if held["author_id"] is None else PersonId(held["author_id"]),
        sent_at=datetime.fromisoformat(held["sent_at"]),
        kind=held["kind"],
        unit_hash=held["unit_hash"],
        vector=tuple(number for number in numbers if isinstance(number, int | float)),
    )
