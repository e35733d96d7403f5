"""People by account, names by date, and the readable rooms that are remembered no longer than they are true."""

import pytest

from core.domain.audience import InRoom, Private, Venue
from core.domain.ids import CommunityId, RoomId, RoomKey
from core.domain.rooms import RoomKind
from core.store import access, people, places
from core.store.access import ReadableRooms
from core.store.engine import Database


async def _home(database: Database) -> tuple[CommunityId, RoomId]:
    async with database.transaction() as tx:
        community = await places.add_community(tx, "console", "console", "Here")
        return community, await places.add_room(tx, community, RoomKey("console", "one"), RoomKind.TERMINAL, "one")


@pytest.mark.parametrize("name", ["", "a\x00b", "half \ud800", "n" * 10_000, "two\nlines", "\u202eevil"])
async def test_any_name_can_be_kept(database: Database, name: str) -> None:
    home, _ = await _home(database)
    async with database.transaction() as tx:
        person = await people.ensure_person(tx, "console", "ana", home, name)
        again = await people.ensure_person(tx, "console", "ana", home, name)
        assert person.id == again.id
        assert await tx.fetchval("select count(*) from voidbot.person_names") == 1
        assert await tx.fetchval("select max(length(name)) from voidbot.person_names") <= 256


async def test_a_renamed_person_is_the_same_one_and_the_old_name_is_dated(database: Database) -> None:
    home, _ = await _home(database)
    async with database.transaction() as tx:
        first = await people.ensure_person(tx, "console", "ana", home, "Ana")
        second = await people.ensure_person(tx, "console", "ana", home, "Mara")
        other = await people.ensure_person(tx, "console", "mara", home, "Mara")
        assert first.id == second.id != other.id
        assert set(await people.list_named(tx, home, "mara")) == {first.id, other.id}
        assert await tx.fetchval("select count(*) from voidbot.person_names where valid_to is not null") == 1
        await people.leave(tx, home, other.id)
        assert await people.list_named(tx, home, "mara") == [first.id]


async def test_readable_rooms_follow_every_change(database: Database) -> None:
    home, room = await _home(database)
    rooms = ReadableRooms()
    async with database.transaction() as tx:
        ana = (await people.ensure_person(tx, "console", "ana", home, "Ana")).id
        ben = (await people.ensure_person(tx, "console", "ben", home, "Ben")).id

    async def read(venue: Venue) -> frozenset[RoomId]:
        async with database.transaction() as tx:
            found = await rooms.load(tx, home, venue, None)
            assert found == await access.list_readable(tx, home, venue, None)
            return found

    assert await read(Private(ana)) == frozenset()
    assert await read(InRoom(room)) == {room}  # unknown readers: itself alone
    async with database.transaction() as tx:
        await access.save_access(tx, room, home, everyone=True)
    assert await read(Private(ana)) == {room} == await read(Private(ben))
    async with database.transaction() as tx:
        await access.save_access(tx, room, home, everyone=False, users=[ben])
    assert await read(Private(ana)) == frozenset()
    assert await read(Private(ben)) == {room}
    async with database.transaction() as tx:
        await people.leave(tx, home, ben)
    assert await read(Private(ben)) == frozenset()


async def test_what_rests_on_a_lost_room_may_not_be_said_to_who_lost_it(database: Database) -> None:
    home, room = await _home(database)
    rooms = ReadableRooms()
    async with database.transaction() as tx:
        ana = (await people.ensure_person(tx, "console", "ana", home, "Ana")).id
        other = await places.add_room(tx, home, RoomKey("console", "two"), RoomKind.TERMINAL, "two")
        assert await rooms.allow(tx, home, room, ana, [room])  # readers unknown
        assert not await rooms.allow(tx, home, room, ana, [room, other])
        await access.save_access(tx, room, home, everyone=False, users=[ana])
    async with database.transaction() as tx:
        assert await rooms.allow(tx, home, room, ana, [room])
        await access.save_access(tx, room, home, everyone=False)
    async with database.transaction() as tx:
        assert not await rooms.allow(tx, home, room, ana, [room])
        assert await rooms.allow(tx, home, room, None, [room])  # the room still hears itself
