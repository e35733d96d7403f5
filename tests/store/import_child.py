"""A process that imports one file and is killed by the test that started it: `FILE COMMUNITY DSN BATCH [resume]`."""

import asyncio
import sys
from pathlib import Path

from core.domain.ids import CommunityId
from core.domain.imports import AudienceKind, AudienceSpec
from core.retrieval.admission import Wish
from core.retrieval.importing import Importer
from core.store.engine import Database


async def main(file: str, community: str, dsn: str, batch: str) -> None:
    database = await Database.open(dsn, size=2)
    everyone = AudienceSpec(AudienceKind.COMMUNITY)
    wish = Wish(community_id=CommunityId(int(community)), audience=everyone, sure=True)
    importer = Importer(database, batch=int(batch))
    plan = await importer.plan(Path(file), None, None, wish)
    await importer.load(plan, None, actor="child", report=lambda progress: print(progress.read, flush=True))
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
