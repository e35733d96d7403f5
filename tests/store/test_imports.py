"""Histories on their way into the archive: once and only once, killed anywhere, below what is live."""

import asyncio
import json
import random
import signal
import sys
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.domain.errors import InputRejected
from core.domain.ids import CommunityId, RoomKey
from core.domain.imports import Progress
from core.domain.rooms import RoomKind
from core.store import archive, moving, people, places
from core.store.engine import Database
from tests.domain.export_samples import (
    CHANNEL,
    GROUP,
    GUILD,
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
from tests.store.import_cases import (
    NAMES,
    bring,
    discord_community,
    export_file,
    message,
    number,
    room,
    rows,
    telegram_community,
)

__all__ = ["discord_community", "export_file", "telegram_community"]


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
    assert [(row["account_ref"], row["name"]) for row in await rows(database, NAMES)] == [
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
    before = await rows(database), await rows(database, NAMES)
    second = await bring(database, file, discord)
    assert (second.tally.written, second.tally.edited, second.tally.unchanged) == (0, 0, 9)
    assert second.digest == first.digest and (await rows(database), await rows(database, NAMES)) == before
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
    expected = await rows(database), await rows(database, NAMES)
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
        assert (await rows(database), await rows(database, NAMES)) == expected
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
        (row["account_ref"], row["name"]) for row in await rows(database, NAMES) if row["valid_to"] is None
    ]


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
    assert "n11" not in [row["name"] for row in await rows(database, NAMES)]


async def test_a_closed_room_takes_nothing(database: Database, discord: CommunityId, file: Path) -> None:
    await room(database, discord, RoomKey("discord", CHANNEL))
    async with database.transaction() as tx:
        await places.close_room(tx, RoomKey("discord", CHANNEL))
    file.write_bytes(discord_file(discord_message(1, "x")))
    assert (await bring(database, file, discord)).tally.skipped == {"excluded": 1}


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
        await moving.move_chat(tx, RoomKey("telegram", "-77"), RoomKey("telegram", f"-100{GROUP}"))
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
        names = await rows(database, NAMES)
        assert [(row["name"], row["valid_from"], row["valid_to"]) for row in names] == expected


async def test_times_are_those_of_the_file(database: Database, discord: CommunityId, file: Path) -> None:
    file.write_bytes(jsonl_file(jsonl_line(1, ts="2001-02-03T04:05:06.789+02:00")))
    await bring(database, file, discord)
    (row,) = await rows(database)
    assert row["sent_at"] == datetime(2001, 2, 3, 2, 5, 6, 789_000, UTC) and row["session"] is None
    assert row["chat_ref"] == f"discord:{GUILD}/kiln" and timedelta(0) == row["sent_at"].utcoffset()
