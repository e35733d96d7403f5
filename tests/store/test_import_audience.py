"""Who may hear a history: said before anything of it is written, and never more than were there."""

from pathlib import Path

import pytest

from core.domain.audience import InRoom
from core.domain.errors import InputRejected
from core.domain.ids import CommunityId, RoomId, RoomKey
from core.domain.platforms import RoleReport
from core.domain.rooms import RoomKind
from core.store import access, places
from core.store.engine import Database
from tests.domain.export_samples import (
    CHANNEL,
    discord_file,
    discord_message,
    telegram_file,
    telegram_message,
)
from tests.store.import_cases import (
    bring,
    discord_community,
    export_file,
    number,
    room,
    rows,
    spec,
    telegram_community,
)

__all__ = ["discord_community", "export_file", "telegram_community"]


# Who may hear it


OPEN = discord_file(discord_message(1))
DIRECT = discord_file(discord_message(1), channel={"type": "DirectTextChat"}, guild="0")
THREAD = discord_file(discord_message(1), channel={"type": "GuildPrivateThread"})
REFUSED = [
    (OPEN, None, "say with --audience"),
    (OPEN, "role:99", "no role 99"),
    (OPEN, "staff", "no role that administers"),
    (OPEN, "people:77", "nobody with the id 77"),
    (OPEN, "room:88", "no room with the id 88"),
    (OPEN, "room:89", "89 is closed"),
    (DIRECT, "community", "was private"),
    (DIRECT, "room:90", "others may read the room 90"),
    (THREAD, "staff", "was private"),
    (THREAD, "people:77", "not among the people"),
    (telegram_file(telegram_message(1), kind="personal_chat"), "community", "was private"),
    (telegram_file(telegram_message(1), kind="saved_messages"), "staff", "was private"),
    (telegram_file(telegram_message(1), kind="private_supergroup"), "role:99", "was private"),
    (telegram_file(telegram_message(1), kind="of_tomorrow"), "community", "was private"),
    (b"nothing to read", "community", "is neither"),
]


async def test_an_import_without_a_fitting_audience_is_refused_and_writes_nothing(
    database: Database, discord: CommunityId, file: Path
) -> None:
    await room(database, discord, RoomKey("discord", "89"))
    host = await room(database, discord, RoomKey("discord", "90"))
    async with database.transaction() as tx:
        await places.close_room(tx, RoomKey("discord", "89"))
        await access.save_access(tx, host, discord, everyone=True)
    for data, audience, says in REFUSED:
        file.write_bytes(data)
        with pytest.raises(InputRejected, match=says):
            await bring(database, file, discord, None if audience is None else spec(audience))
    left = [await number(database, f"select count(*) from voidbot.{table}") for table in ("rooms", "import_runs")]
    assert left == [2, 0]


async def test_everyone_is_an_audience_for_who_is_sure_and_it_is_noted(
    database: Database, discord: CommunityId, file: Path
) -> None:
    file.write_bytes(discord_file(discord_message(1)))
    with pytest.raises(InputRejected, match="--i-am-sure"):
        await bring(database, file, discord, sure=False)
    await bring(database, file, discord)
    ((details,),) = [tuple(row.values()) for row in await rows(database, "select details from voidbot.audit")]
    assert (details["audience"], details["by"]) == ("community", "tester")


async def test_each_audience_is_who_may_read_the_room(database: Database, discord: CommunityId, tmp_path: Path) -> None:
    async with database.transaction() as tx:
        await access.learn_roles(tx, discord, [RoleReport("30", "Kiln"), RoleReport("31", "Mods", True)], whole=True)
    found = {}
    for number_, audience in enumerate(("role:30", "staff", "people:11", "community")):
        path = tmp_path / f"{number_}.json"
        path.write_bytes(discord_file(discord_message(1), channel={"id": str(number_)}))
        outcome = await bring(database, path, discord, spec(audience))
        async with database.transaction(durable=False) as tx:
            listed = await access.list_readers(tx, RoomId(outcome.rooms["0"]))
            roles = await access.find_roles(tx, discord, ["30", "31"])
        assert listed is not None and listed.by_hand
        names = {role_id: ref for ref, role_id in roles.items()}
        found[audience] = (listed.everyone, {names[role] for role in listed.roles}, set(listed.accounts))
    assert found == {
        "role:30": (False, {"30"}, set()),
        "staff": (False, {"31"}, set()),
        "people:11": (False, set(), {"11"}),
        "community": (True, set(), set()),
    }


async def test_a_history_heard_as_a_room_follows_that_room_s_changes(
    database: Database, discord: CommunityId, file: Path
) -> None:
    host = await room(database, discord, RoomKey("discord", "88"))
    file.write_bytes(discord_file(discord_message(1)))
    imported = RoomId((await bring(database, file, discord, spec("room:88"))).rooms["0"])
    seen = []
    for everyone in (True, False):
        async with database.transaction() as tx:
            await access.save_access(tx, host, discord, everyone=everyone, users=[])
            other = await places.add_room(tx, discord, RoomKey("discord", "89"), RoomKind.CHANNEL, "other")
            await access.save_access(tx, other, discord, everyone=True)
            seen.append(imported in await access.list_readable(tx, discord, InRoom(other), None))
    assert seen == [True, False]


async def test_a_room_that_is_known_keeps_its_readers(database: Database, discord: CommunityId, file: Path) -> None:
    room_id = await room(database, discord, RoomKey("discord", CHANNEL))
    async with database.transaction() as tx:
        await access.save_access(tx, room_id, discord, everyone=False, users=[])
    file.write_bytes(discord_file(discord_message(1)))
    await bring(database, file, discord)
    async with database.transaction() as tx:
        listed = await access.list_readers(tx, room_id)
    assert listed is not None and (listed.by_hand, listed.everyone) == (False, False)


async def test_a_public_thread_hangs_on_its_channel_where_that_is_known(
    database: Database, discord: CommunityId, file: Path
) -> None:
    parent = await room(database, discord, RoomKey("discord", "60"))
    file.write_bytes(discord_file(discord_message(1), channel={"type": "GuildPublicThread"}))
    outcome = await bring(database, file, discord, None)
    ((kind, hangs_on),) = [
        tuple(row.values())
        for row in await rows(database, "select kind, parent_id from voidbot.rooms where id = $1", outcome.rooms["0"])
    ]
    assert (kind, hangs_on) == ("thread_public", parent)


async def test_a_room_of_another_community_is_not_touched(database: Database, discord: CommunityId, file: Path) -> None:
    async with database.transaction() as tx:
        other = await places.add_community(tx, "discord", "501", "Weavers")
    await room(database, other, RoomKey("discord", CHANNEL))
    file.write_bytes(discord_file(discord_message(1)))
    with pytest.raises(InputRejected, match="another community"):
        await bring(database, file, discord)
