"""Erasing a person: nothing is left anywhere, what others said stays, and no kill at any point loses the thread."""

from pathlib import Path

import pytest

from core.domain.erasure import EraseScope, Reach
from core.domain.errors import Misconfigured
from core.domain.ids import MessageId, RoomId
from core.privacy import ledger
from core.state.replay import verify
from core.store import erasure, erasures, state
from core.store.engine import Database
from core.store.personal import PERSONAL
from core.store.tables import METADATA
from tests.store.erasure_world import ACCOUNT, KEY, OTHERS, PLANTED, SECRET, World, finish, make_world


@pytest.fixture
async def world(database: Database) -> World:
    return await make_world(database)


@pytest.mark.field("F063")
def test_table_without_erase_hook_stops_the_start() -> None:
    erasure.check_hooks()
    for table in ("attachments", "profile_facts"):
        left_out = [hook for hook in erasure.ERASERS if hook.table != table]
        with pytest.raises(Misconfigured, match=f"erasure: {table} holds data of people and has no hook"):
            erasure.check_hooks(left_out)
    assert {hook.table for hook in erasure.ERASERS} | PERSONAL <= {table.name for table in METADATA.tables.values()}


def test_a_table_that_names_a_person_holds_data_of_people() -> None:
    named = {
        table.name
        for table in METADATA.tables.values()
        if any(key.target_fullname == "voidbot.people.id" for key in table.foreign_keys)
    }
    assert "memberships" in named and named - PERSONAL == set()


@pytest.mark.field("F048")
async def test_erased_bytes_are_gone(world: World, tmp_path: Path) -> None:
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / f"{ACCOUNT}.zip").write_bytes(SECRET.encode())
    before = await world.words_left()
    planted = set(before)
    assert len(before["voidbot.pass_artifacts"]) == 2  # one by whose words it has, one by the messages alone
    people_s = {f"voidbot.{name}" for name in PERSONAL}
    # Tables whose rows of the person hold ids of ours alone.
    bare = {
        "room_access_users",
        "memberships",
        "membership_roles",
        "fact_anchors",
        "person_links",
        "link_codes",
        "rates",
    }
    bare |= {"usage", "receipt_sources", "erasure_needles", "turns", "mod_rules", "sanction_subjects", "sanctions"}
    assert people_s - planted == {f"voidbot.{table}" for table in bare}
    assert await world.erase(tmp_path) == "done"
    assert await world.words_left() == {
        "voidbot.messages": [row for row in (await world.words_left())["voidbot.messages"] if OTHERS in row]
    }
    assert not list((tmp_path / "exports").iterdir())
    row = await world.value("select to_jsonb(p) - 'first_seen' from voidbot.people p where id = $1", world.ana)
    assert isinstance(row, dict) and row["platform"] == "erased" and row["account_ref"] == str(world.ana)
    for table in ("person_names", "memberships", "membership_roles", "room_access_users", "person_links", "plans"):
        column = "one_id" if table == "person_links" else "person_id"
        assert await world.value(f"select count(*) from voidbot.{table} where {column} = $1", world.ana) == 0, table
    assert await world.value("select count(*) from voidbot.rooms where kind = 'dm'") == 0
    assert await world.value("select count(*) from voidbot.usage where person_id is null") == 2
    assert await world.value("select count(*) from voidbot.erasure_needles") == 0
    # What is in force stays in the ledger, as a hash that leads nowhere; what is over does not.
    assert await world.value("select array_agg(kind || subject) from voidbot.sanctions") == ["banh"]
    assert await world.value("select count(*) from voidbot.sanction_subjects") == 0
    async with world.database.transaction() as tx:
        mind_id = await tx.fetchval("select id from voidbot.minds")
        assert (await verify(tx, mind_id)).difference is None
        entries = {held.entry.id: held.entry for held in await state.list_entries(tx, mind_id)}
    assert [id_ for id_, entry in entries.items() if entry.live] == ["ben"]
    assert all(world.ana not in entry.people for entry in entries.values())


async def test_what_others_said_stays_and_is_listed(world: World, tmp_path: Path) -> None:
    assert await world.erase(tmp_path) == "done"
    assert await world.value("select text from voidbot.messages where id = $1", world.quoted) == OTHERS
    assert await world.value("select places from voidbot.erasures") == [f"voidbot.messages:{world.quoted}"]
    assert await world.value("select count(*) from voidbot.messages where delete_reason = 'erased'") == 3
    assert await world.value("select count(*) from voidbot.messages where index_state = 'near'") == 6
    assert await world.value("select lexeme from voidbot.term_df") == "number"


async def test_an_erasure_that_is_killed_at_every_point_is_done_in_the_end(world: World, tmp_path: Path) -> None:
    seen: set[str] = set()

    class Killed(Exception):
        pass

    def fault(point: str) -> None:
        if point not in seen:
            seen.add(point)
            raise Killed

    number = await world.begin()
    service = world.service(tmp_path, fault=fault)
    for _ in range(200):
        try:
            await finish(service, world.database, number)
            break
        except Killed:
            continue
    assert len(seen) > 30
    assert await world.value("select state from voidbot.erasures") == "done"
    assert set(await world.words_left()) == {"voidbot.messages"}
    assert len((tmp_path / ledger.LOG).read_text().splitlines()) == 1


async def test_the_proof_finds_what_no_hook_reaches(world: World, tmp_path: Path) -> None:
    async with world.database.transaction() as tx:
        await tx.execute(
            "insert into voidbot.settings (scope, scope_id, name, value) values ('x', 'y', 'z', $1)", {"note": SECRET}
        )
        await tx.execute("insert into voidbot.platform_memory (name, value) values ($1, '')", f"seen:{ACCOUNT}")
    (tmp_path / "voidbot.log").write_text(f'{{"event": "x", "account": "{ACCOUNT}"}}\n')
    number = await world.begin()
    await finish(world.service(tmp_path), world.database, number)
    assert await world.value("select state from voidbot.erasures") == "failed"
    assert await world.value("select places from voidbot.erasures") == [
        "voidbot.platform_memory:seen:*",
        "voidbot.settings:x,y,z",
        "file:voidbot.log",
    ]
    async with world.database.transaction() as tx:
        await tx.execute("delete from voidbot.settings")
        await tx.execute("delete from voidbot.platform_memory")
    (tmp_path / "voidbot.log").unlink()
    await finish(world.service(tmp_path), world.database, number)
    assert await world.value("select state from voidbot.erasures") == "done"


async def test_a_part_of_ones_messages_goes_and_the_rest_stays(world: World, tmp_path: Path) -> None:
    scope = EraseScope(reach=Reach.MESSAGES, rooms=(world.direct,))
    assert await world.erase(tmp_path, scope) == "done"
    texts = await world.value(
        "select array_agg(text order by id) from voidbot.messages where author_id = $1", world.ana
    )
    assert isinstance(texts, list) and texts[0] == SECRET and len(texts) == 2
    assert await world.value("select account_ref from voidbot.people where id = $1", world.ana) == ACCOUNT
    assert await world.value("select erasing from voidbot.people where id = $1", world.ana) is False
    assert await world.value("select value from voidbot.profile_facts") == PLANTED[0]


async def test_facts_go_alone(world: World, tmp_path: Path) -> None:
    assert await world.erase(tmp_path, EraseScope(reach=Reach.FACTS)) == "done"
    assert await world.value("select count(*) from voidbot.profile_facts") == 0
    assert await world.value("select count(*) from voidbot.messages where delete_reason = 'erased'") == 0


async def test_a_matter_goes_whoever_said_it(world: World, tmp_path: Path) -> None:
    both = (MessageId(world.said), MessageId(world.quoted))
    scope = EraseScope(reach=Reach.MATTER, rooms=(RoomId(world.lobby),), messages=both)
    assert await world.erase(tmp_path, scope) == "done"
    gone = await world.value("select array_agg(id order by id) from voidbot.messages where delete_reason = 'erased'")
    assert gone == [world.said, world.quoted, world.answer]  # what rested on it as well
    assert {"voidbot.state_entries", "voidbot.state_operations"}.isdisjoint(await world.words_left())
    assert await world.value("select count(*) from voidbot.people where kind = 'erased'") == 0


async def test_the_ledger_holds_no_names_and_no_words(world: World, tmp_path: Path) -> None:
    await world.erase(tmp_path)
    assert not {"voidbot.erasures", "voidbot.erasure_ledger"} & set(await world.words_left())
    line = (tmp_path / ledger.LOG).read_text()
    assert not any(word in line for word in PLANTED)
    (told,) = ledger.read(tmp_path / ledger.LOG, KEY)
    async with world.database.transaction() as tx:
        assert await erasures.erased_until(tx, KEY.person("console", ACCOUNT)) == told.until_at
        assert await erasures.erased_until(tx, KEY.person("console", "ben")) is None
    forged = line.replace('"reach": "person"', '"reach": "facts"')
    (tmp_path / ledger.LOG).write_text(forged)
    with pytest.raises(Misconfigured, match="line 1 was not signed"):
        ledger.read(tmp_path / ledger.LOG, KEY)


async def test_a_community_that_was_left_long_ago_is_purged_in_batches(world: World) -> None:
    async with world.database.transaction() as tx:
        assert await erasure.find_left(tx, 30) is None
        await tx.execute(
            "update voidbot.communities set state = 'gone', left_at = voidbot.now() - interval '31 days' where id = $1",
            world.community,
        )
    while True:
        async with world.database.transaction() as tx:
            left = await erasure.find_left(tx, 30)
            if left is None:
                break
            assert left == world.community and await erasure.purge(tx, left)
    assert set(await world.words_left()) >= {"voidbot.people"}
    assert await world.value("select count(*) from voidbot.rooms where id = $1", world.lobby) == 0
    assert await world.value("select count(*) from voidbot.messages") == 1  # the direct room's
    assert await world.value("select count(*) from voidbot.usage") == 2
