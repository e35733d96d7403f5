"""Histories on their way into the archive: audience first, once and only once, and killed anywhere."""

import asyncio
import json
import random
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from core.domain.audience import InRoom
from core.domain.errors import InputRejected
from core.domain.ids import CommunityId, PersonId, RoomId, RoomKey
from core.domain.imports import AudienceSpec, Progress, parse_audience
from core.domain.platforms import RoleReport
from core.domain.rooms import RoomKind
from core.retrieval.admission import Wish
from core.retrieval.importing import Importer, Outcome
from core.store import access, archive, people, places
from core.store.engine import Database
from tests.domain.export_samples import (
    CHANNEL,
    GROUP,
    GUILD,
    NOON,
    discord_file,
    discord_message,
    jsonl_file,
    jsonl_line,
    later,
    telegram_chat,
    telegram_file,
    telegram_message,
    telegram_service,
)

UTC_ZONE = ZoneInfo("UTC")
_DUMP = """
select r.chat_ref, r.topic_ref, m.platform_ref, p.account_ref, m.kind, m.text, m.sent_at, m.edited_at, m.revision,
       m.archived_seq, m.reply_to_ref, t.platform_ref as answered, m.session, m.forwarded_from, m.index_state,
       (select count(*) from voidbot.message_revisions v where v.message_id = m.id) as revisions,
       (select string_agg(a.kind || a.name || a.caption, '/' order by a.ordinal) from voidbot.attachments a
        where a.message_id = m.id) as files
from voidbot.messages m join voidbot.rooms r on r.id = m.room_id left join voidbot.people p on p.id = m.author_id
left join voidbot.messages t on t.id = m.reply_to_id order by r.chat_ref, r.topic_ref, m.archived_seq"""
_ROOM = "select name, kind, parent_id from voidbot.rooms where id = $1"
_NAMES = """
select p.account_ref, n.name, n.valid_from, n.valid_to from voidbot.person_names n
join voidbot.people p on p.id = n.person_id order by 1, 3, 2"""


@pytest.fixture
async def discord(database: Database) -> CommunityId:
    async with database.transaction() as tx:
        return await places.add_community(tx, "discord", GUILD, "Potters")


@pytest.fixture
async def telegram(database: Database) -> CommunityId:
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


async def rows(database: Database, sql: str = _DUMP, *args: object) -> list[Mapping[str, Any]]:
    async with database.transaction(durable=False) as tx:
        return [dict(row) for row in await tx.fetch(sql, *args)]


async def number(database: Database, sql: str, *args: object) -> int:
    async with database.transaction(durable=False) as tx:
        return int(await tx.fetchval(sql, *args))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "export.json"


async def room(database: Database, community: CommunityId, key: RoomKey, kind: RoomKind = RoomKind.CHANNEL) -> RoomId:
    async with database.transaction() as tx:
        return await places.add_room(tx, community, key, kind, "kiln")


def story() -> bytes:
    """A file with everything that leaves a trace in the database."""
    files = [{"fileName": "bowl.png", "fileSizeBytes": 10}]
    bo = {"id": "12", "name": "bo", "isBot": True}
    return discord_file(
        discord_message(1, "first"),
        discord_message(2, "answer", type="Reply", reference={"messageId": "1"}),
        discord_message(3, "early", type="Reply", reference={"messageId": "9"}),
        discord_message(4, "file", attachments=files),
        discord_message(4, "file again"),
        discord_message(5, "by a bot", author=bo),
        discord_message(6, "pinned a message", type="ChannelPinnedMessage"),
        discord_message(7, "edited later", timestampEdited=later(8).isoformat()),
        discord_message(7, "edited again", timestampEdited=later(9).isoformat()),
        discord_message(8, "by ida renamed", author={"id": "11", "name": "ida", "nickname": "Ida B"}),
        discord_message(9, "late"),
        {"broken": True},
    )


# What is written


async def test_a_story_comes_in_with_order_answers_files_names_and_what_was_wrong(
    database: Database, discord: CommunityId, file: Path
) -> None:
    file.write_bytes(story())
    outcome = await bring(database, file, discord)
    dump = await rows(database)
    assert [row["platform_ref"] for row in dump] == list("123456789")
    assert [row["archived_seq"] for row in dump] == list(range(1, 10))
    assert {row["platform_ref"]: row["answered"] for row in dump if row["reply_to_ref"]} == {"2": "1", "3": "9"}
    assert (dump[3]["files"], dump[6]["text"], dump[5]["kind"]) == ("imagebowl.png", "edited again", "system")
    assert {row["platform_ref"] for row in dump if row["index_state"] == "queued"} == set("12345789")
    assert [(row["account_ref"], row["name"]) for row in await rows(database, _NAMES)] == [
        ("11", "Ida"), ("11", "Ida B"), ("11", "Ida"), ("12", "bo")]  # fmt: skip
    assert (outcome.tally.written, outcome.tally.bad) == (9, {"duplicate_id": 1, "no_author": 1})
    errors = await rows(
        database, "select code, line > 1 as placed, length(excerpt) <= 80 as short from voidbot.import_errors"
    )
    assert len(errors) == 2 and all(row["placed"] and row["short"] for row in errors)


async def test_the_same_file_twice_writes_nothing_and_gives_the_same_digest(
    database: Database, discord: CommunityId, file: Path
) -> None:
    file.write_bytes(story())
    first = await bring(database, file, discord, batch=3)
    before = await rows(database), await rows(database, _NAMES)
    second = await bring(database, file, discord)
    assert (second.tally.written, second.tally.edited, second.tally.unchanged) == (0, 0, 9)
    assert second.digest == first.digest and (await rows(database), await rows(database, _NAMES)) == before
    assert second.tally.bad == first.tally.bad


async def test_overlapping_files_end_in_the_same_words_in_either_order(
    database: Database, discord: CommunityId, tmp_path: Path
) -> None:
    early = discord_file(*(discord_message(n, f"words {n}") for n in range(1, 6)))
    late = discord_file(
        *(discord_message(n, f"words {n}!", timestampEdited=later(60).isoformat()) for n in range(4, 9))
    )
    digests = []
    for order in ((early, late), (late, early)):
        for index, data in enumerate(order):
            (tmp_path / f"{index}.json").write_bytes(data)
            outcome = await bring(database, tmp_path / f"{index}.json", discord)
        digests.append(outcome.digest)
        texts = [row["text"] for row in sorted(await rows(database), key=lambda row: int(row["platform_ref"]))]
        assert texts == ["words 1", "words 2", "words 3", *(f"words {n}!" for n in range(4, 9))]
        async with database.transaction() as tx:
            await tx.execute("delete from voidbot.rooms")
            await tx.execute("delete from voidbot.import_runs")
    assert digests[0] == digests[1]


async def test_an_import_that_was_interrupted_at_any_batch_ends_in_the_same_rows(
    database: Database, discord: CommunityId, file: Path
) -> None:
    file.write_bytes(story())
    whole = await bring(database, file, discord, batch=2)
    expected = await rows(database), await rows(database, _NAMES)
    for point in (1, 3, 5):
        async with database.transaction() as tx:
            await tx.execute("truncate voidbot.rooms, voidbot.people, voidbot.import_runs restart identity cascade")
        left = [point]

        def stop(_: Progress, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyError("stopped")

        with pytest.raises(KeyError):
            await bring(database, file, discord, batch=2, report=stop)
        again = await bring(database, file, discord, batch=4, resume=True)
        assert (again.resumed, again.digest) == (True, whole.digest)
        assert (await rows(database), await rows(database, _NAMES)) == expected
        assert (again.tally.written, again.tally.bad) == (whole.tally.written, whole.tally.bad)


async def kill_and_resume(database: Database, dsn: str, community: CommunityId, file: Path, after: int) -> bool:
    """Kill a process once it has reported so many batches; finish here. Return whether it was killed midway."""
    words = [str(file), str(community), dsn, "50"]
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.store.import_child", *words, stdout=PIPE)
    assert child.stdout is not None
    for _ in range(after):
        await child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    await child.wait()
    outcome = await bring(database, file, community, resume=True, batch=500)
    dump = await rows(database)
    assert [row["platform_ref"] for row in dump] == [f"m{n}" for n in range(2000)]
    assert [row["archived_seq"] for row in dump] == list(range(1, 2001))
    assert all(row["answered"] == row["reply_to_ref"] for row in dump)
    return outcome.resumed and outcome.tally.read == 2000


def long_file(file: Path) -> None:
    lines = (jsonl_line(n, f"clay {n}", reply_to=f"m{n - 1}" if n % 3 == 2 else None) for n in range(2000))
    file.write_bytes(jsonl_file(*lines))


async def test_a_killed_process_loses_nothing_and_doubles_nothing(
    database: Database, fresh_dsn: str, discord: CommunityId, file: Path
) -> None:
    long_file(file)
    assert await kill_and_resume(database, fresh_dsn, discord, file, 2)


@pytest.mark.long
async def test_processes_killed_at_many_points_lose_nothing(
    database: Database, fresh_dsn: str, discord: CommunityId, file: Path
) -> None:
    long_file(file)
    rng = random.Random(7)
    for _ in range(15):
        await kill_and_resume(database, fresh_dsn, discord, file, rng.randrange(1, 38))
        async with database.transaction() as tx:
            await tx.execute("truncate voidbot.rooms, voidbot.people, voidbot.import_runs restart identity cascade")


async def test_a_dry_run_counts_and_writes_nothing(database: Database, discord: CommunityId, file: Path) -> None:
    file.write_bytes(story())
    outcome = await bring(database, file, discord, dry_run=True, batch=4)
    tables = ("messages", "rooms", "people", "import_runs", "audit")
    left = [await number(database, f"select count(*) from voidbot.{table}") for table in tables]
    assert (outcome.tally.written, left) == (9, [0] * 5)


# What stands above an import


async def test_a_live_message_and_a_tombstone_stand_above_an_imported_one(
    database: Database, discord: CommunityId, file: Path
) -> None:
    room_id = await room(database, discord, RoomKey("discord", CHANNEL))
    async with database.transaction() as tx:
        person = await people.ensure_person(tx, "discord", "11", discord, "Ida here")
        for ref in ("1", "2", "own:3"):
            await archive.add_message(tx, message(room_id, discord, person.id, ref))
        await archive.bury_message(tx, room_id, "2", "deleted")
    file.write_bytes(
        discord_file(*(discord_message(n, "imported", timestampEdited=later(99).isoformat()) for n in (1, 2, 3, 4)))
    )
    outcome = await bring(database, file, discord, None)
    texts = {row["platform_ref"]: row["text"] for row in await rows(database)}
    assert texts == {"1": "live", "2": "", "own:3": "live", "4": "imported"}
    assert outcome.tally.skipped == {"live": 2, "tombstone": 1}
    assert ("11", "Ida here") in [
        (row["account_ref"], row["name"]) for row in await rows(database, _NAMES) if row["valid_to"] is None
    ]


def message(
    room_id: RoomId, community: CommunityId, author: PersonId, ref: str, text: str = "live"
) -> archive.NewMessage:
    return archive.NewMessage(room_id=room_id, community_id=community, author_id=author, platform_ref=ref, kind="text",
                              text=text, sent_at=NOON)  # fmt: skip


async def test_people_who_opted_out_or_were_erased_stay_away(
    database: Database, discord: CommunityId, file: Path
) -> None:
    names = ("11", "12", "13")
    file.write_bytes(
        discord_file(
            *(discord_message(n, "x", author={"id": ref, "name": f"n{ref}"}) for n, ref in enumerate(names * 2))
        )
    )
    async with database.transaction() as tx:
        await tx.execute("insert into voidbot.people (platform, account_ref, opted_out) values ('discord', '11', true)")

    def erased(platform: str, account: str) -> datetime | None:
        return later(2) if (platform, account) == ("discord", "12") else None

    outcome = await bring(database, file, discord, erased_until=erased)
    assert [row["account_ref"] for row in await rows(database)] == ["13", "12", "13"]
    assert outcome.tally.skipped == {"opted_out": 2, "erased": 1}
    assert "n11" not in [row["name"] for row in await rows(database, _NAMES)]


async def test_a_closed_room_takes_nothing(database: Database, discord: CommunityId, file: Path) -> None:
    await room(database, discord, RoomKey("discord", CHANNEL))
    async with database.transaction() as tx:
        await places.close_room(tx, RoomKey("discord", CHANNEL))
    file.write_bytes(discord_file(discord_message(1, "x")))
    assert (await bring(database, file, discord)).tally.skipped == {"excluded": 1}


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


# Telegram's own


async def test_topics_become_rooms_and_a_moved_group_is_found_under_its_new_number(
    database: Database, telegram: CommunityId, file: Path
) -> None:
    group = await room(database, telegram, RoomKey("telegram", f"-100{GROUP}"), RoomKind.GROUP)
    entries = [
        telegram_service(2, "topic_created", title="Glazes"),
        telegram_message(3, "in", reply_to_message_id=2),
        telegram_message(4, "out"),
        telegram_service(5, "migrate_from_group", title="Old"),
    ]
    file.write_bytes(telegram_file(*entries))
    outcome = await bring(database, file, telegram, None)
    dump = {row["platform_ref"]: row["topic_ref"] for row in await rows(database)}
    assert dump == {"2": "2", "3": "2", "4": "", "5": ""}
    (topic,) = await rows(
        database, "select name, kind, parent_id from voidbot.rooms where id = $1", outcome.rooms["0/2"]
    )
    assert topic == {"name": "Glazes", "kind": "topic", "parent_id": group}


async def test_a_basic_group_s_copy_stands_beside_the_live_room_without_what_that_has(
    database: Database, telegram: CommunityId, file: Path
) -> None:
    """Its numbers are the exporter's own, so equal ones mean nothing; the group has moved since."""
    group = await room(database, telegram, RoomKey("telegram", "-77"), RoomKind.GROUP)
    async with database.transaction() as tx:
        await places.move_chat(tx, RoomKey("telegram", "-77"), RoomKey("telegram", f"-100{GROUP}"))
        person = await people.ensure_person(tx, "telegram", "11", telegram, "Ida")
        await archive.add_message(tx, message(group, telegram, person.id, "500", "both heard it"))
    file.write_bytes(
        telegram_file(telegram_message(0, "both heard it"), telegram_message(500, "new"), kind="private_group", chat=77)
    )
    outcome = await bring(database, file, telegram, None)
    assert [(row["topic_ref"], row["text"]) for row in await rows(database)] == [
        ("", "both heard it"),
        ("export:77", "new"),
    ]
    assert outcome.tally.skipped == {"merged": 1}


async def test_comings_and_goings_make_nobody_a_present_member(
    database: Database, telegram: CommunityId, file: Path
) -> None:
    file.write_bytes(
        telegram_file(telegram_service(1, "join_group_by_link"), telegram_service(2, "remove_members", members=["Ida"]),
                      telegram_service(3, "join_group_by_link"), telegram_service(4, "remove_members", members=["Bo"]))
    )  # fmt: skip
    for _ in range(2):
        await bring(database, file, telegram)
    stays = await rows(database, "select joined_at, left_at from voidbot.memberships")
    assert stays == [{"joined_at": later(1), "left_at": later(2)}]


async def test_a_file_that_does_not_say_its_chat_needs_a_room_and_several_chats_take_none(
    database: Database, telegram: CommunityId, file: Path
) -> None:
    nameless = telegram_chat(telegram_message(1, "x"))
    del nameless["id"]
    file.write_bytes(json.dumps(nameless).encode())
    with pytest.raises(InputRejected, match="name its id with --room"):
        await bring(database, file, telegram)
    await bring(database, file, telegram, room="5")
    file.write_bytes(json.dumps({"chats": {"list": [telegram_chat(), telegram_chat(chat=9)]}}).encode())
    with pytest.raises(InputRejected, match="2 chats"):
        await bring(database, file, telegram, room="5")


async def test_a_new_name_later_in_a_history_ends_the_older_one(
    database: Database, discord: CommunityId, file: Path
) -> None:
    shown = ("A", "B", "A")
    file.write_bytes(
        discord_file(*(discord_message(n, "x", author={"id": "11", "name": name}) for n, name in enumerate(shown)))
    )
    expected = [("A", later(0), later(1)), ("B", later(1), later(2)), ("A", later(2), None)]
    for batch in (1, 5):
        await bring(database, file, discord, batch=batch)
        names = await rows(database, _NAMES)
        assert [(row["name"], row["valid_from"], row["valid_to"]) for row in names] == expected


async def test_times_are_those_of_the_file(database: Database, discord: CommunityId, file: Path) -> None:
    file.write_bytes(jsonl_file(jsonl_line(1, ts="2001-02-03T04:05:06.789+02:00")))
    await bring(database, file, discord)
    (row,) = await rows(database)
    assert row["sent_at"] == datetime(2001, 2, 3, 2, 5, 6, 789_000, UTC) and row["session"] is None
    assert row["chat_ref"] == f"discord:{GUILD}/kiln" and timedelta(0) == row["sent_at"].utcoffset()
