"""Random histories of communities as a platform has them, what the code has been told of them, and an oracle.

The oracle expands every reader set person by person from what the platform holds (lists with denials, threads that
hang on rooms) and knows nothing of how the rule is written.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType

from core.domain.audience import InRoom, Private, Venue, World
from core.domain.ids import CommunityId, PersonId, RoomId

HANGING = ("thread_public", "forum_post", "topic")
"""Kinds that are read by whoever reads the room above them."""


@dataclass(slots=True)
class Reach:
    """Who may do one thing in a room, as a platform would say it: a denied person may not, whatever else is said."""

    everyone: bool
    roles: set[int]
    users: set[int]
    denied: set[int] = field(default_factory=set)

    def copy(self) -> "Reach":
        """Return another one that says the same."""
        return Reach(self.everyone, set(self.roles), set(self.users), set(self.denied))


@dataclass(slots=True)
class TrueRoom:
    """A room as it really is. `known`: whether its access could be found out. `parent`: what it hangs on."""

    id: int
    home: int
    open: bool
    known: bool
    view: Reach
    history: Reach
    kind: str = "channel"
    parent: int | None = None

    def copy(self) -> "TrueRoom":
        """Return another one that is the same."""
        return replace(self, view=self.view.copy(), history=self.history.copy())


@dataclass(slots=True)
class Truth:
    """Everything as it really is now."""

    rooms: dict[int, TrueRoom]
    members: dict[int, set[int]]
    held: dict[int, set[int]]
    minds: dict[int, str]
    stale: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)

    def copy(self) -> "Truth":
        """Return another one that is the same."""
        return Truth(
            {number: room.copy() for number, room in self.rooms.items()},
            {home: set(who) for home, who in self.members.items()},
            {person: set(roles) for person, roles in self.held.items()},
            dict(self.minds),
            set(self.stale),
            set(self.gone),
        )

    def is_open(self, room: TrueRoom) -> bool:
        """Return whether the room, what it hangs on and its community are all there."""
        above = room.parent is None or self.is_open(self.rooms[room.parent])
        return room.open and above and room.home not in self.gone

    def reads(self, person: int, room: TrueRoom, *, history: bool) -> bool:
        """Return whether the person can really read the room: its new messages, or also its old ones."""
        if not self.is_open(room) or person not in self.members[room.home]:
            return False
        above = None if room.parent is None else self.rooms[room.parent]
        if room.kind in HANGING and above is not None:
            return self.reads(person, above, history=history)
        reach = room.history if history else room.view
        may = reach.everyone or person in reach.users or bool(reach.roles & self.held[person])
        return may and person not in reach.denied and (above is None or self.reads(person, above, history=history))

    def readers(self, room: TrueRoom, *, history: bool = False) -> frozenset[int]:
        """Return everybody who would see a message that appears in the room now, or could read its old ones."""
        return frozenset(person for person in self.held if self.reads(person, room, history=history))

    def shares(self, venue: int, source: int) -> bool:
        """Return whether the two rooms belong to one mind."""
        one, other = self.rooms[venue].home, self.rooms[source].home
        return one == other or self.minds[one] == self.minds[other]


class Oracle:
    """Every reader set of a truth, expanded once."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.view = {room.id: truth.readers(room) for room in truth.rooms.values()}
        self.history = {room.id: truth.readers(room, history=True) for room in truth.rooms.values()}

    def allows(self, venue: Venue, room_id: int) -> bool:
        """Return whether every single reader of the venue may really read the room's messages now."""
        if not self.truth.is_open(self.truth.rooms[room_id]):
            return False
        person = getattr(venue, "person_id", None)
        if person is not None:
            return person in self.history[room_id]
        place: int = venue.room_id  # type: ignore[union-attr]  # no person: a room
        if not self.truth.is_open(self.truth.rooms[place]) or not self.truth.shares(place, room_id):
            return False
        return self.view[place] <= self.history[room_id]


@dataclass(slots=True)
class History:
    """How things came to be. `truth`: what is; `heard`: what was heard of it; `said`: what answers rested on."""

    truth: Truth
    heard: Truth
    said: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)


def draw(rng: random.Random) -> tuple[Truth, Truth]:
    """Return a random truth, and what was heard of it: less, where a community is stale."""
    history = live(rng)
    return history.truth, history.heard


def live(rng: random.Random) -> History:
    """Return a random history of 1 to 3 communities, 2 to 8 people, 0 to 5 roles, 1 to 10 rooms, 5 to 60 events."""
    homes = range(1, rng.choice((1, 1, 2, 2, 3)) + 1)
    people, roles = range(1, rng.randint(2, 8) + 1), range(1, rng.randint(0, 5) + 1)
    truth = Truth(
        rooms={},
        members={home: {person for person in people if rng.random() < 0.8} for home in homes},
        held={person: {role for role in roles if rng.random() < 0.4} for person in people},
        minds={home: rng.choice(("one", "one", "two")) for home in homes},
    )
    for number in range(1, rng.randint(1, 10) + 1):
        truth.rooms[number] = _room(rng, number, truth, people, roles)
    history = History(truth, truth.copy())
    for _ in range(rng.choice((5, 10, 20, 60))):
        _happen(rng, history, people, roles)
    return history


def roles_of(home: int, roles: range, homes: int) -> list[int]:
    """Return the roles of one community: they are dealt out in turn."""
    return [role for role in roles if role % homes == home % homes]


def _room(rng: random.Random, number: int, truth: Truth, people: range, roles: range) -> TrueRoom:
    tops = [room for room in truth.rooms.values() if room.kind == "channel"]
    above = rng.choice(tops) if tops and rng.random() < 0.4 else None
    kind = "channel" if above is None else rng.choice((*HANGING, "thread_private", "thread_private"))
    if above is None and rng.random() < 0.15:
        kind = "dm"
    home = rng.choice(sorted(truth.members)) if above is None else above.home
    own = roles_of(home, roles, len(truth.members))
    view = _reach(rng, people, own)
    if kind == "dm":
        view = Reach(False, set(), {rng.choice(people)})
    if kind == "thread_private":
        view = Reach(False, {role for role in own if rng.random() < 0.2}, view.users)
    history = view.copy() if kind != "channel" or rng.random() < 0.7 else _reach(rng, people, own)
    # An imported room has no platform that could say who reads it.
    return TrueRoom(number, home, True, rng.random() < 0.9, view, history, kind, None if above is None else above.id)


def _reach(rng: random.Random, people: range, roles: list[int]) -> Reach:
    return Reach(
        rng.random() < 0.35,
        {role for role in roles if rng.random() < 0.35},
        {person for person in people if rng.random() < 0.3},
        {person for person in people if rng.random() < 0.1} if rng.random() < 0.3 else set(),
    )


EVENTS = ("member", "member", "role", "role", "everyone", "list", "list", "room", "doubt", "sync", "left", "answer")


def _happen(rng: random.Random, history: History, people: range, roles: range) -> None:
    """Let one thing happen; it is heard of unless the connection to its community is lost."""
    event = rng.choice(EVENTS)
    person, home = rng.choice(people), rng.choice(sorted(history.truth.members))
    number = rng.choice(sorted(history.truth.rooms))
    history.events[event] += 1
    match event:
        case "doubt":
            if rng.random() < 0.3:
                history.truth.stale.add(home)
        case "sync":
            history.truth.stale.discard(home)
            _sync(history, home, roles)
        case "answer":
            _answer(rng, history, number)
        case _:
            seed = rng.random()
            at = history.truth.rooms[number].home if event in ("everyone", "list", "room") else home
            _change(random.Random(seed), history.truth, event, person, at, number, roles)
            if at not in history.truth.stale:
                _change(random.Random(seed), history.heard, event, person, at, number, roles)
    history.heard.stale = set(history.truth.stale)


def _change(rng: random.Random, truth: Truth, event: str, person: int, home: int, number: int, roles: range) -> None:
    room = truth.rooms[number]
    match event:
        case "member":
            truth.members[home] ^= {person}
        case "role":
            own = roles_of(home, roles, len(truth.members))
            truth.held[person] ^= {rng.choice(own)} if own else set()
        case "everyone" if room.kind == "channel":
            room.history.everyone = room.view.everyone = not room.view.everyone
        case "list" if room.kind != "dm":  # a list of a room, or the members of a private thread
            denial = room.kind == "channel" and rng.random() < 0.3
            for reach in (room.view, room.history) if rng.random() < 0.8 else (room.history,):
                if denial:
                    reach.denied ^= {person}
                else:
                    reach.users ^= {person}
        case "room" if rng.random() < 0.3:
            room.open = not room.open
        case "left" if rng.random() < 0.15:
            truth.gone ^= {home}


def _sync(history: History, home: int, roles: range) -> None:
    """Hear everything of a community anew."""
    for room in history.truth.rooms.values():
        if room.home == home:
            history.heard.rooms[room.id] = room.copy()
    history.heard.members[home] = set(history.truth.members[home])
    own = set(roles_of(home, roles, len(history.truth.members)))
    for person, held in history.heard.held.items():
        held -= own
        held |= history.truth.held[person] & own
    history.heard.gone = (history.heard.gone - {home}) | (history.truth.gone & {home})


def _answer(rng: random.Random, history: History, number: int) -> None:
    """Note an answer of the bot in a room: it rests on rooms that its readers could read then."""
    truth = history.truth
    place, rooms = truth.rooms[number], list(truth.rooms.values())
    if len(history.said) < 3 and truth.is_open(place):
        there = truth.readers(place)
        used = {
            room.id
            for room in rng.sample(rooms, min(3, len(rooms)))
            if truth.is_open(room) and all(truth.reads(person, room, history=True) for person in there)
        }
        history.said.append((number, frozenset(used | {number})))


def told(truth: Truth, heard: Truth, module: ModuleType) -> World:
    """Return the world as the code has it, built from the classes of `module`: what was heard, in positive lists."""
    oracle = Oracle(heard)
    rooms = {}
    for number, room in heard.rooms.items():
        by = heard.rooms[room.parent] if room.kind in HANGING and room.parent is not None else room
        known = by.known
        rooms[RoomId(number)] = module.RoomAccess(
            RoomId(number),
            CommunityId(room.home),
            heard.is_open(room),
            known,
            _readers(by, by.view, oracle.view[by.id], module) if known else module.Readers(),
            _readers(by, by.history, oracle.history[by.id], module) if known else module.Readers(),
        )
    world: World = module.World(
        rooms=rooms,
        members={CommunityId(home): frozenset(map(PersonId, who)) for home, who in heard.members.items()},
        held={PersonId(person): frozenset(roles) for person, roles in heard.held.items()},
        minds={CommunityId(home): mind for home, mind in truth.minds.items()},
        stale=frozenset(map(CommunityId, truth.stale)),
    )
    return world


def positive(room: TrueRoom, reach: Reach, expanded: frozenset[int]) -> Reach:
    """Return the reach without denials, as a front end reports it: where there are any, everybody by name."""
    if reach.denied or room.kind == "thread_private":
        return Reach(False, set(), set(expanded))
    return reach


def _readers(room: TrueRoom, reach: Reach, expanded: frozenset[int], module: ModuleType) -> object:
    said = positive(room, reach, expanded)
    return module.Readers(said.everyone, frozenset(said.roles), frozenset(map(PersonId, said.users)))


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


def why_not(truth: Truth, world: World, venue: Venue, room_id: int, reason: str) -> str | None:
    """Return why the rule may say no although nobody who should not would read it today; None: it may not.

    `role_rule`: it compares roles and lists as they stand, not who holds or reads them today.
    """
    place = world.rooms.get(RoomId(getattr(venue, "room_id", 0)))
    homes = {world.rooms[RoomId(room_id)].community_id} | ({place.community_id} if place is not None else set())
    if reason == "closed" and homes & world.stale:  # it was opened again, and nobody heard of it
        return "stale"
    if reason == "unknown":
        return "stale" if homes & world.stale else "unknown"
    if reason in ("venue_too_wide", "other_community"):
        return "role_rule"
    if reason in ("reader_may_not", "not_a_member") and place is not None:
        return "role_rule" if _lists_one_who_reads_nothing(truth, place.view.users, int(place.room_id)) else None
    return None


def _lists_one_who_reads_nothing(truth: Truth, listed: frozenset[PersonId], room: int) -> bool:
    return any(not truth.reads(int(person), truth.rooms[room], history=False) for person in listed)


@dataclass(slots=True)
class Tally:
    """What was compared. `share`: how often the rule said no where it might have said yes, by reason."""

    pairs: int = 0
    itself: int = 0
    share: Counter[str] = field(default_factory=Counter)


def complaints(truth: Truth, oracle: Oracle, world: World, module: ModuleType, tally: Tally) -> Iterator[str]:
    """Yield what is wrong with the rule's verdicts on every pair of a world."""
    for venue in venues(truth, module):
        for number in truth.rooms:
            verdict = module.readable_by_all(venue, RoomId(number), world)
            really = oracle.allows(as_ours(venue), number)
            tally.pairs += 1
            if verdict.allowed == really:
                continue
            if verdict.allowed and _unsure_of_itself(truth, world, venue, number):
                tally.itself += 1
            elif verdict.allowed:
                yield f"{venue} hears of room {number} and may not: {verdict.reason}"
            elif (why := why_not(truth, world, venue, number, str(verdict.reason))) is not None:
                tally.share[why] += 1
            else:
                yield f"{venue} does not hear of room {number}: {verdict.reason}"


def _unsure_of_itself(truth: Truth, world: World, venue: Venue, number: int) -> bool:
    """Return whether it is a room in itself of which nothing certain is known; it may speak of itself alone."""
    access = world.rooms[RoomId(number)]
    return getattr(venue, "room_id", None) == number and (not access.known or access.community_id in world.stale)


def all_complaints(rng: random.Random, count: int, module: ModuleType, tally: Tally | None = None) -> Iterator[str]:
    """Yield everything that is wrong in `count` random histories."""
    tally = Tally() if tally is None else tally
    for _ in range(count):
        history = live(rng)
        world = told(history.truth, history.heard, module)
        oracle = Oracle(history.truth)
        yield from complaints(history.truth, oracle, world, module, tally)
        for venue in venues(history.truth, module):
            readable = module.readable_rooms(venue, None, world)
            for number, sources in history.said:
                if module.usable(map(RoomId, sources), readable) and not all(
                    oracle.allows(as_ours(venue), room) or _unsure_of_itself(history.truth, world, venue, room)
                    for room in sources
                ):
                    yield f"{venue} hears what was said in room {number} from {sorted(sources)}"
