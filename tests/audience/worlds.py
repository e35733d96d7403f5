"""Random worlds with two views of each: what is true, and what the code has been told; and an oracle by brute force.

The oracle expands every reader set person by person and knows nothing of how the rule is written.
"""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType

from core.domain.audience import InRoom, Private, Venue, World
from core.domain.ids import CommunityId, PersonId, RoomId


@dataclass(slots=True)
class Reach:
    """Who may do one thing in a room, as a platform would say it."""

    everyone: bool
    roles: set[int]
    users: set[int]


@dataclass(slots=True)
class TrueRoom:
    """A room as it really is. `known`: whether its access could be found out."""

    id: int
    home: int
    open: bool
    known: bool
    view: Reach
    history: Reach


@dataclass(slots=True)
class Truth:
    """Everything as it really is now."""

    rooms: dict[int, TrueRoom]
    members: dict[int, set[int]]
    held: dict[int, set[int]]
    minds: dict[int, str]
    stale: set[int] = field(default_factory=set)

    def reads(self, person: int, room: TrueRoom, *, history: bool) -> bool:
        """Return whether the person can really read the room: its new messages, or also its old ones."""
        reach = room.history if history else room.view
        if not room.open or person not in self.members[room.home]:
            return False
        return reach.everyone or person in reach.users or bool(reach.roles & self.held[person])

    def readers(self, room: TrueRoom) -> set[int]:
        """Return everybody who would see a message that appears in the room now."""
        return {person for person in self.held if self.reads(person, room, history=False)}

    def allows(self, venue: Venue, room_id: int) -> bool:
        """Return whether every single reader of the venue may really read the room's messages now."""
        source = self.rooms[room_id]
        if not source.open:
            return False
        if isinstance(venue, Private):
            return self.reads(venue.person_id, source, history=True)
        place = self.rooms[venue.room_id]
        if not place.open:
            return False
        if place.home != source.home and self.minds[place.home] != self.minds[source.home]:
            return False
        return all(self.reads(person, source, history=True) for person in self.readers(place))


def draw(rng: random.Random) -> tuple[Truth, Truth]:
    """Return a random truth, and the older one that stale communities are still believed to be."""
    homes = range(1, rng.choice((1, 1, 2, 2, 3)) + 1)
    people, roles = range(1, rng.randint(2, 6) + 1), range(1, rng.randint(0, 4) + 1)
    truth = Truth(
        rooms={},
        members={home: {person for person in people if rng.random() < 0.8} for home in homes},
        held={person: {role for role in roles if rng.random() < 0.4} for person in people},
        minds={home: rng.choice(("one", "one", "two")) for home in homes},
        stale={home for home in homes if rng.random() < 0.1},
    )
    for room in range(1, rng.randint(1, 6) + 1):
        view = _reach(rng, people, roles)
        history = view if rng.random() < 0.7 else _reach(rng, people, roles)
        truth.rooms[room] = TrueRoom(
            room,
            rng.choice(homes),
            rng.random() < 0.9,
            rng.random() < 0.85,
            copy.deepcopy(view),
            copy.deepcopy(history),
        )
    before = copy.deepcopy(truth)
    for _ in range(rng.randint(0, 4)):
        _happen(rng, truth)
    return truth, before


def _reach(rng: random.Random, people: range, roles: range) -> Reach:
    return Reach(
        rng.random() < 0.3,
        {role for role in roles if rng.random() < 0.35},
        {person for person in people if rng.random() < 0.35},
    )


def _happen(rng: random.Random, truth: Truth) -> None:
    """Let one thing change: somebody leaves or joins, a role is given or taken, a room's access changes."""
    person, home = rng.choice(sorted(truth.held)), rng.choice(sorted(truth.members))
    room = rng.choice(list(truth.rooms.values()))
    match rng.randrange(4):
        case 0:
            truth.members[home] ^= {person}
        case 1:
            truth.held[person] ^= {rng.randint(1, 4)}
        case 2:
            room.history.everyone = room.view.everyone = not room.view.everyone
        case _:
            room.open = not room.open


def told(truth: Truth, before: Truth, module: ModuleType) -> World:
    """Return the world as the code has it, built from the classes of `module`."""
    rooms = {}
    for room_id, room in truth.rooms.items():
        seen = before.rooms[room_id] if room.home in truth.stale else room
        view = _readers(seen.view, module) if room.known else module.Readers()
        history = _readers(seen.history, module) if room.known else module.Readers()
        rooms[RoomId(room_id)] = module.RoomAccess(
            RoomId(room_id), CommunityId(room.home), room.open, room.known, view, history
        )
    members = {
        CommunityId(home): frozenset(map(PersonId, (before if home in truth.stale else truth).members[home]))
        for home in truth.members
    }
    world: World = module.World(
        rooms=rooms,
        members=members,
        held={PersonId(person): frozenset(roles) for person, roles in truth.held.items()},
        minds={CommunityId(home): mind for home, mind in truth.minds.items()},
        stale=frozenset(map(CommunityId, truth.stale)),
    )
    return world


def _readers(reach: Reach, module: ModuleType) -> object:
    return module.Readers(reach.everyone, frozenset(reach.roles), frozenset(map(PersonId, reach.users)))


def venues(truth: Truth, module: ModuleType) -> Iterator[Venue]:
    """Yield every venue of the world."""
    for room in truth.rooms:
        yield module.InRoom(RoomId(room))
    for person in truth.held:
        yield module.Private(PersonId(person))


def as_ours(venue: Venue) -> Venue:
    """Return the venue in the real module's classes."""
    room = getattr(venue, "room_id", None)
    return InRoom(room) if room is not None else Private(venue.person_id)  # type: ignore[union-attr]  # the other one


CAREFUL = frozenset({"unknown", "venue_too_wide", "other_community"})
"""Reasons for which the rule may say no although nobody who should not would read it today."""


def complaint(truth: Truth, world: World, venue: Venue, room_id: int, module: ModuleType) -> str | None:
    """Return what is wrong with the rule's verdict on one pair; None if nothing is."""
    verdict = module.readable_by_all(venue, RoomId(room_id), world)
    really = truth.allows(as_ours(venue), room_id)
    room = truth.rooms[room_id]
    unsure = not room.known or room.home in truth.stale
    if verdict.allowed and not really:
        # A room whose readers are not known may still speak of itself, and of nothing else.
        if unsure and getattr(venue, "room_id", None) == room_id:
            return None
        return f"{venue} hears of room {room_id} and may not: {verdict.reason}"
    if really and not verdict.allowed and verdict.reason not in CAREFUL:
        if _lists_one_who_left(truth, venue):
            return None
        return f"{venue} does not hear of room {room_id}: {verdict.reason}"
    return None


def _lists_one_who_left(truth: Truth, venue: Venue) -> bool:
    """Return whether the venue's list names somebody who reads nothing there any more; the rule still asks them."""
    place = truth.rooms.get(getattr(venue, "room_id", 0))
    return place is not None and not place.view.users <= truth.members[place.home]


def all_complaints(rng: random.Random, count: int, module: ModuleType) -> Iterator[str]:
    """Yield everything that is wrong in `count` random worlds."""
    for _ in range(count):
        truth, before = draw(rng)
        world = told(truth, before, module)
        for venue in venues(truth, module):
            for room_id in truth.rooms:
                if (wrong := complaint(truth, world, venue, room_id, module)) is not None:
                    yield wrong
