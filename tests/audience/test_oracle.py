"""The audience rule against brute force: never a yes where one reader may not; no unexplained no."""

import random

from core.domain import audience
from core.domain.audience import InRoom, Private, RoomAccess, readable_by_all, readable_rooms, usable
from core.domain.ids import CommunityId, PersonId, RoomId
from core.store import access
from core.store.engine import Database, Tx
from tests.audience.worlds import Reach, Truth, all_complaints, draw, told, venues


def test_the_rule_says_yes_only_where_every_reader_may_read() -> None:
    assert list(all_complaints(random.Random(7), 3000, audience)) == []


def test_one_more_reader_never_makes_more_usable() -> None:
    rng = random.Random(11)
    for _ in range(1500):
        truth, before = draw(rng)
        world = told(truth, before, audience)
        wide = rng.choice(list(truth.rooms))
        place = world.rooms[RoomId(wide)]
        wider = audience.Readers(
            place.view.everyone or rng.random() < 0.3,
            place.view.roles | {rng.randint(1, 4)},
            place.view.users | {PersonId(rng.choice(list(truth.held)))},
        )
        access = RoomAccess(place.room_id, place.community_id, place.open, place.known, wider, place.history)
        after = audience.World(
            {**world.rooms, place.room_id: access}, world.members, world.held, world.minds, world.stale
        )
        asker = PersonId(rng.choice(list(truth.held)))
        for who in (None, asker):
            gained = readable_rooms(InRoom(RoomId(wide)), who, after) - readable_rooms(InRoom(RoomId(wide)), who, world)
            assert not gained, (truth, wide, wider)
        mine = readable_rooms(Private(asker), asker, world)
        room = truth.rooms[wide]
        unsure = not room.known or room.home in truth.stale
        assert readable_rooms(InRoom(RoomId(wide)), asker, world) - mine <= ({RoomId(wide)} if unsure else frozenset())


def test_one_more_source_never_makes_a_thing_freer() -> None:
    rng = random.Random(13)
    for _ in range(500):
        readable = frozenset(RoomId(room) for room in range(1, 7) if rng.random() < 0.5)
        sources = {RoomId(rng.randint(1, 6)) for _ in range(rng.randint(1, 3))}
        more = sources | {RoomId(rng.randint(1, 6))}
        assert usable(sources, readable) or not usable(more, readable)
        assert usable(sources, readable) == all(room in readable for room in sources)


async def test_the_database_knows_the_same_rooms_as_the_pure_rule(database: Database) -> None:
    rng = random.Random(17)
    for n in range(12):
        truth, _ = draw(rng)
        async with database.transaction(durable=False) as tx:
            rooms, homes, persons = await _store(tx, truth, n)
            world = told(truth, truth, audience)
            for venue in venues(truth, audience):
                for home in truth.members:
                    for asker in (None, next(iter(truth.held))):
                        at = (
                            InRoom(rooms[venue.room_id])
                            if isinstance(venue, InRoom)
                            else Private(persons[venue.person_id])
                        )
                        who = None if asker is None else persons[asker]
                        found = await access.list_readable(tx, homes[home], at, who)
                        mine = {
                            room for room in truth.rooms if truth.minds[truth.rooms[room].home] == truth.minds[home]
                        }
                        in_mind = not isinstance(venue, InRoom) or venue.room_id in mine
                        pure = readable_rooms(venue, None if asker is None else PersonId(asker), world)
                        assert found == {rooms[room] for room in pure if in_mind and room in mine}


async def _store(tx: Tx, truth: Truth, n: int) -> tuple[dict[int, RoomId], dict[int, CommunityId], dict[int, PersonId]]:
    """Write a world's rows; return the ids that its numbers have in the database."""
    homes = {
        home: await tx.fetchval(
            "insert into voidbot.communities (platform, chat_ref, mind_id, access_state)"
            " values ('w', $1, $2, $3) returning id",
            f"{n}:{home}", f"{n}:{truth.minds[home]}", "stale" if home in truth.stale else "fresh",
        )
        for home in truth.members
    }  # fmt: skip
    persons = {
        person: await tx.fetchval(
            "insert into voidbot.people (platform, account_ref) values ('w', $1) returning id", f"{n}:{person}"
        )
        for person in truth.held
    }
    roles = {
        role: await tx.fetchval(
            "insert into voidbot.roles (community_id, role_ref) values ($1, $2) returning id",
            next(iter(homes.values())), str(role),
        )
        for role in range(1, 5)
    }  # fmt: skip
    for home, members in truth.members.items():
        for person in members:
            await tx.execute(
                "insert into voidbot.memberships (community_id, person_id) values ($1, $2)",
                homes[home],
                persons[person],
            )
    for person, held in truth.held.items():
        for role in held:
            await tx.execute(
                "insert into voidbot.membership_roles (person_id, role_id) values ($1, $2)",
                persons[person],
                roles[role],
            )
    rooms = {}
    for room_id, room in truth.rooms.items():
        rooms[room_id] = await tx.fetchval(
            "insert into voidbot.rooms (community_id, platform, chat_ref, kind, state)"
            " values ($1, 'w', $2, 'channel', $3) returning id",
            homes[room.home], f"{n}:{room_id}", "active" if room.open else "deleted",
        )  # fmt: skip
        if room.known:
            await _store_access(tx, rooms[room_id], room.view, room.history, persons, roles)
    return rooms, homes, persons


async def _store_access(
    tx: Tx, room: RoomId, view: Reach, history: Reach, persons: dict[int, PersonId], roles: dict[int, int]
) -> None:
    await tx.execute(
        "insert into voidbot.room_access (room_id, known, everyone_view, everyone_history) values ($1, true, $2, $3)",
        room, view.everyone, history.everyone,
    )  # fmt: skip
    for role in view.roles | history.roles:
        await tx.execute(
            "insert into voidbot.room_access_roles (room_id, role_id, view, history) values ($1, $2, $3, $4)",
            room, roles[role], role in view.roles, role in history.roles,
        )  # fmt: skip
    for user in view.users | history.users:
        await tx.execute(
            "insert into voidbot.room_access_users (room_id, person_id, view, history) values ($1, $2, $3, $4)",
            room, persons[user], user in view.users, user in history.users,
        )  # fmt: skip


def test_a_room_nobody_knows_is_closed() -> None:
    truth, before = draw(random.Random(1))
    world = told(truth, before, audience)
    assert not readable_by_all(Private(PersonId(1)), RoomId(999), world).allowed
    assert not readable_by_all(InRoom(RoomId(999)), RoomId(1), world).allowed
