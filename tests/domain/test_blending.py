"""Talk and files in one list: each kind keeps its order, talk leads, and files never crowd it out."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.retrieval import Scores
from core.domain.sources import ChunkId, SourceId, SourceKind
from core.retrieval.lore import LoreHit, blend
from core.retrieval.service import Hit
from core.store.archive import ArchivedMessage
from core.store.lore_search import ChunkHit

HERE = RoomId(1)
MESSAGE = ArchivedMessage(
    id=MessageId(1), room_id=HERE, room_name="here", author_id=PersonId(1), author_name="Ana", is_bot=False,
    platform_ref="m1", reply_to_ref=None, kind="text", text="hello", sent_at=datetime(2026, 3, 1, tzinfo=UTC),
    sources=frozenset({HERE}),
)  # fmt: skip
CHUNK = ChunkHit(
    id=ChunkId(1), source_id=SourceId(1), source="s", kind=SourceKind.FOLDER, head="", location="/s", rooms=frozenset(),
    path="a.md", blob_hash="h", ordinal=0, line_start=1, line_end=1, symbol="", text="hello", score=1.0, share=1.0,
)  # fmt: skip
SHARES = st.lists(st.floats(0, 1), max_size=12)


def said(shares: list[float]) -> list[Hit]:
    return [
        Hit(replace(MESSAGE, id=MessageId(n)), 1.0, Scores(1.0, 0.0, share)) for n, share in enumerate(shares, start=1)
    ]


def written(shares: list[float]) -> list[LoreHit]:
    chunks = [replace(CHUNK, id=ChunkId(n), share=share) for n, share in enumerate(shares, start=1)]
    return [LoreHit(chunk, chunk, frozenset({HERE})) for chunk in chunks]


@given(SHARES, SHARES, st.integers(1, 12))
def test_each_kind_keeps_its_order_and_its_share(talk: list[float], files: list[float], k: int) -> None:
    found = blend(said(talk), written(files), k)
    messages = [int(hit.message.id) for hit in found if isinstance(hit, Hit)]
    chunks = [int(hit.chunk.id) for hit in found if isinstance(hit, LoreHit)]
    assert messages == list(range(1, len(messages) + 1)) and chunks == list(range(1, len(chunks) + 1))
    most = -(-3 * k // 8) if talk else k
    assert len(chunks) <= most and len(found) == min(k, len(talk) + min(len(files), most))


def test_the_greater_share_leads_and_talk_where_they_are_equal() -> None:
    found = blend(said([0.3, 0.8, 0.5]), written([0.9, 0.5]), 8)
    assert ["talk" if isinstance(hit, Hit) else "file" for hit in found] == ["file", "talk", "talk", "talk", "file"]
