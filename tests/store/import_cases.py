"""What tests of imports share: communities, one call for a whole import, and what stands in the database."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from core.domain.ids import CommunityId, PersonId, RoomId, RoomKey
from core.domain.imports import AudienceSpec, parse_audience
from core.domain.rooms import RoomKind
from core.retrieval.admission import Wish
from core.retrieval.importing import Importer, Outcome
from core.store import archive, places
from core.store.engine import Database
from tests.domain.export_samples import (
    GROUP,
    GUILD,
    NOON,
)

UTC_ZONE = ZoneInfo("UTC")
DUMP = """
select r.chat_ref, r.topic_ref, m.platform_ref, p.account_ref, m.kind, m.text, m.sent_at, m.edited_at, m.revision,
       m.archived_seq, m.reply_to_ref, t.platform_ref as answered, m.session, m.forwarded_from, m.index_state,
       (select count(*) from voidbot.message_revisions v where v.message_id = m.id) as revisions,
       (select string_agg(a.kind || a.name || a.caption, '/' order by a.ordinal) from voidbot.attachments a
        where a.message_id = m.id) as files
from voidbot.messages m join voidbot.rooms r on r.id = m.room_id left join voidbot.people p on p.id = m.author_id
left join voidbot.messages t on t.id = m.reply_to_id order by r.chat_ref, r.topic_ref, m.archived_seq"""
ROOM = "select name, kind, parent_id from voidbot.rooms where id = $1"
NAMES = """
select p.account_ref, n.name, n.valid_from, n.valid_to from voidbot.person_names n
join voidbot.people p on p.id = n.person_id order by 1, 3, 2"""


@pytest.fixture(name="discord")
async def discord_community(database: Database) -> CommunityId:
    async with database.transaction() as tx:
        return await places.add_community(tx, "discord", GUILD, "Potters")


@pytest.fixture(name="telegram")
async def telegram_community(database: Database) -> CommunityId:
    async with database.transaction() as tx:
        return await places.add_community(tx, "telegram", f"-100{GROUP}", "Potters")


def spec(text: str) -> AudienceSpec:
    found = parse_audience(text)
    assert found is not None
    return found


EVERYONE = spec("community")


async def bring(
    database: Database, path: Path, community: CommunityId, audience: AudienceSpec | None = EVERYONE, **more: Any
) -> Outcome:
    """Import one file."""
    wish = {"community_id": community, "audience": audience, "sure": True} | {
        name: more.pop(name) for name in ("room", "sure", "resume") if name in more
    }
    load = {name: more.pop(name) for name in ("dry_run", "report") if name in more}
    importer = Importer(database, **more)
    plan = await importer.plan(path, None, UTC_ZONE, Wish(**wish))
    return await importer.load(plan, UTC_ZONE, actor="tester", **load)


async def rows(database: Database, sql: str = DUMP, *args: object) -> list[Mapping[str, Any]]:
    async with database.transaction(durable=False) as tx:
        return [dict(row) for row in await tx.fetch(sql, *args)]


async def number(database: Database, sql: str, *args: object) -> int:
    async with database.transaction(durable=False) as tx:
        return int(await tx.fetchval(sql, *args))


@pytest.fixture(name="file")
def export_file(tmp_path: Path) -> Path:
    return tmp_path / "export.json"


async def room(database: Database, community: CommunityId, key: RoomKey, kind: RoomKind = RoomKind.CHANNEL) -> RoomId:
    async with database.transaction() as tx:
        return await places.add_room(tx, community, key, kind, "kiln")


def message(
    room_id: RoomId, community: CommunityId, author: PersonId, ref: str, text: str = "live"
) -> archive.NewMessage:
    return archive.NewMessage(room_id=room_id, community_id=community, author_id=author, platform_ref=ref, kind="text",
                              text=text, sent_at=NOON)  # fmt: skip
