"""Housekeeping of what people asked for: files, plans, codes, and communities that the bot has left."""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.domain.ids import CommunityId
from core.domain.vectors import VectorsOf
from core.jobs.executor import JobContext
from core.ports import VectorStore
from core.store import erasure, erasures, exports, links, plans
from core.store.engine import Tx

LEFT_DAYS = 30
"""How long a community that the bot was removed from is kept, should it come back."""
BATCHES = 200
"""How many batches of a left community one run purges."""


@dataclass(frozen=True, slots=True)
class PrivacyUpkeep:
    """The steps that upkeep does for privacy."""

    home: Path
    vectors: VectorStore | None = None

    async def run(self, ctx: JobContext) -> dict[str, int]:
        """Do each step in a transaction of its own; return what was removed."""
        gone = await ctx.advance(exports.take_expired)
        await asyncio.to_thread(_remove, self.home / exports.FOLDER, gone)
        swept = await ctx.advance(_sweep)
        return {"files": len(gone), "plans": swept, "purged": await self._purge(ctx)}

    async def _purge(self, ctx: JobContext) -> int:
        """Remove left communities in batches; what one run leaves, the next one goes on with."""
        purged = 0
        for _ in range(BATCHES):
            community = await ctx.advance(partial(erasure.find_left, days=LEFT_DAYS), durable=False)
            if community is None:
                break
            await self._drop_vectors(ctx, community)
            purged += await ctx.advance(partial(erasure.purge, community_id=community))
        return purged

    async def _drop_vectors(self, ctx: JobContext, community: CommunityId) -> None:
        if self.vectors is not None:
            for model in await ctx.advance(erasures.list_models, durable=False):
                await self.vectors.delete(model, VectorsOf(community_id=community))


async def _sweep(tx: Tx) -> int:
    return await plans.sweep(tx) + await links.sweep(tx) + await erasures.sweep(tx)


def _remove(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
