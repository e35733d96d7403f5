"""Who may hear what: what was said in a room is used only where every reader may read that room now.

Unknown is closed; a derived thing is never freer than what it was made from.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from core.domain.ids import CommunityId, PersonId, RoomId

LONGEST_NAME = 160
"""How long the name of an audience group can be."""


@dataclass(frozen=True, slots=True)
class Readers:
    """A positive set: everyone of the community, holders of roles, or named people."""

    everyone: bool = False
    roles: frozenset[int] = frozenset()
    users: frozenset[PersonId] = frozenset()

    def within(self, other: "Readers") -> bool:
        """Return whether every reader here is certainly a reader there, compared as roles."""
        if other.everyone:
            return True
        return not self.everyone and self.roles <= other.roles and self.users <= other.users


@dataclass(frozen=True, slots=True)
class RoomAccess:
    """Who may read a room now. `view` decides a venue, `history` decides a source."""

    room_id: RoomId
    community_id: CommunityId
    open: bool
    known: bool
    view: Readers = Readers()
    history: Readers = Readers()


@dataclass(frozen=True, slots=True)
class InRoom:
    """A venue whose readers are those who can see the room."""

    room_id: RoomId


@dataclass(frozen=True, slots=True)
class Private:
    """A venue with one reader."""

    person_id: PersonId


Venue = InRoom | Private


@dataclass(frozen=True, slots=True)
class World:
    """The present membership: one consistent snapshot.

    `members`: present people of each community; `held`: roles a person holds now;
    `minds`: the mind each community shares; `stale`: communities whose access may be out of date.
    """

    rooms: Mapping[RoomId, RoomAccess]
    members: Mapping[CommunityId, frozenset[PersonId]]
    held: Mapping[PersonId, frozenset[int]]
    minds: Mapping[CommunityId, str] = field(default_factory=dict)
    stale: frozenset[CommunityId] = frozenset()


class AudienceReason(StrEnum):
    """Why a room may or may not be used in a venue."""

    CLOSED = "closed"
    SAME_ROOM = "same_room"
    UNKNOWN = "unknown"
    OTHER_COMMUNITY = "other_community"
    NOT_A_MEMBER = "not_a_member"
    VENUE_TOO_WIDE = "venue_too_wide"
    READERS_MAY = "readers_may"
    READER_MAY_NOT = "reader_may_not"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of the rule, with its reason."""

    allowed: bool
    reason: AudienceReason


def readable_by_all(venue: Venue, room_id: RoomId, world: World) -> Verdict:
    """Return whether everyone who can read `venue` may read `room_id` now. Rules in order, first match."""
    source = world.rooms.get(room_id)
    if source is None or not source.open:
        return Verdict(False, AudienceReason.CLOSED)
    if isinstance(venue, InRoom):
        return _from_room(venue, source, world)
    if not source.known or source.community_id in world.stale:
        return Verdict(False, AudienceReason.UNKNOWN)
    return _each_reader(frozenset({venue.person_id}), source, world)


def _from_room(venue: InRoom, source: RoomAccess, world: World) -> Verdict:
    place = world.rooms.get(venue.room_id)
    if place is None or not place.open:
        return Verdict(False, AudienceReason.CLOSED)
    if place.room_id == source.room_id and place.view.within(source.history):
        # Also where access is unknown: both sets are empty then, and a room may always speak of itself.
        return Verdict(True, AudienceReason.SAME_ROOM)
    if not (place.known and source.known) or {place.community_id, source.community_id} & world.stale:
        return Verdict(False, AudienceReason.UNKNOWN)
    listed_only = not place.view.everyone and not place.view.roles
    if place.community_id != source.community_id:
        shared = world.minds.get(place.community_id) == world.minds.get(source.community_id) is not None
        if not (listed_only and shared):
            return Verdict(False, AudienceReason.OTHER_COMMUNITY)
    if not source.history.everyone and (place.view.everyone or not place.view.roles <= source.history.roles):
        return Verdict(False, AudienceReason.VENUE_TOO_WIDE)
    # Listed people are asked one by one also where the community itself may read: one of them may have left it.
    return _each_reader(place.view.users, source, world)


def _each_reader(people: frozenset[PersonId], source: RoomAccess, world: World) -> Verdict:
    members = world.members.get(source.community_id, frozenset())
    for person in people:
        if person not in members:
            return Verdict(False, AudienceReason.NOT_A_MEMBER)
        may = (
            source.history.everyone
            or person in source.history.users
            or not source.history.roles.isdisjoint(world.held.get(person, frozenset()))
        )
        if not may:
            return Verdict(False, AudienceReason.READER_MAY_NOT)
    return Verdict(True, AudienceReason.READERS_MAY)


def readable_rooms(venue: Venue, asker: PersonId | None, world: World) -> frozenset[RoomId]:
    """Return the rooms whose words may be used in `venue`; with an asker, also readable by that person."""
    return frozenset(
        room_id
        for room_id in world.rooms
        if readable_by_all(venue, room_id, world).allowed and (asker is None or _may_use(asker, room_id, world))
    )


def readable_by_every(venues: Iterable[RoomId], world: World) -> frozenset[RoomId]:
    """Return the rooms that every reader of each of some rooms may read; none if there are no such rooms.

    Rooms with the same access are the same question; two of each are asked, so that none speaks for itself alone.
    """
    asked: dict[object, list[RoomId]] = {}
    for venue in venues:
        access = world.rooms.get(venue)
        kind = None if access is None else replace(access, room_id=RoomId(0))
        asked.setdefault(kind, []).append(venue)
    left = frozenset(world.rooms) if asked else frozenset[RoomId]()
    for each in (InRoom(venue) for alike in asked.values() for venue in alike[:2]):
        left = frozenset(room for room in left if readable_by_all(each, room, world).allowed)
    return left


def _may_use(asker: PersonId, room_id: RoomId, world: World) -> bool:
    verdict = readable_by_all(Private(asker), room_id, world)
    # A room whose readers are unknown is usable in itself alone, and there the asker stands.
    return verdict.allowed or verdict.reason is AudienceReason.UNKNOWN


def groups(world: World) -> dict[RoomId, str]:
    """Return the audience group of each room whose readers are known: rooms with the same readers share a name.

    A room that is not in it is a group of its own.
    """
    found: dict[RoomId, str] = {}
    for room in world.rooms.values():
        if not room.open or not room.known or room.community_id in world.stale:
            continue
        if room.view.everyone and room.history.everyone:
            found[room.room_id] = f"public:{room.community_id}"
        elif room.history.roles or room.history.users:
            roles = ",".join(map(str, sorted(room.history.roles)))
            users = ",".join(map(str, sorted(room.history.users)))
            everyone = "*" if room.history.everyone else ""
            found[room.room_id] = _short(f"{room.community_id}:{everyone}r{roles}u{users}")
    return found


def community_of(group: str) -> CommunityId | None:
    """Return the community whose rooms a group is made of; None if the name is not one of `groups`."""
    of = group.removeprefix("public:").partition(":")[0]
    return CommunityId(int(of)) if of.isdecimal() else None


def _short(name: str) -> str:
    """Return a name that a key can hold: of a long list the beginning and its hash."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 33]}#{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def usable(sources: Iterable[RoomId], readable: frozenset[RoomId]) -> bool:
    """Return whether a thing made from `sources` may be used; one without sources may not."""
    rooms = frozenset(sources)
    return bool(rooms) and rooms <= readable
