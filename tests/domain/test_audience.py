"""The audience rule, row by row: what said where may be used where."""

from dataclasses import dataclass, replace
from types import ModuleType

import pytest

from core.domain import audience
from core.domain.audience import InRoom, Private, readable_by_every, readable_rooms
from core.domain.ids import PersonId, RoomId
from tests.audience.worlds import Reach, TrueRoom, Truth, told

ANA, BEN, CAI, EVA = 1, 2, 3, 4  # staff; plain member; left the community; nobody here, but in the sister community
STAFF, NEWS = 1, 2
PUBLIC, BOARD, PAIR, DM, IMPORTED, DELETED, OTHER, SISTER, NEWSROOM, SAYS, LEFT, TWO = range(1, 13)
HERE, ELSEWHERE, TWIN = 1, 2, 3


def _room(
    room: int, home: int = HERE, *, everyone: bool = False, roles: set[int] | None = None,
    users: set[int] | None = None, open_: bool = True, known: bool = True, history: Reach | None = None,
) -> TrueRoom:  # fmt: skip
    view = Reach(everyone, roles or set(), users or set())
    return TrueRoom(room, home, open_, known, view, history or Reach(everyone, set(view.roles), set(view.users)))


ROOMS = [
    _room(PUBLIC, everyone=True),
    _room(BOARD, roles={STAFF}),
    _room(PAIR, users={ANA, BEN}),
    _room(DM, users={BEN}),
    _room(IMPORTED, known=False),
    _room(DELETED, everyone=True, open_=False),
    _room(OTHER, ELSEWHERE, everyone=True),
    _room(SISTER, TWIN, everyone=True),
    _room(NEWSROOM, roles={STAFF, NEWS}),
    _room(SAYS, everyone=True, history=Reach(False, {STAFF}, set())),  # all see new words, staff reads old ones
    _room(LEFT, users={ANA, CAI}),
    _room(TWO, roles={STAFF}, users={BEN}),
]


def _truth(stale: set[int] | None = None) -> Truth:
    return Truth(
        rooms={room.id: room for room in ROOMS},
        members={HERE: {ANA, BEN}, ELSEWHERE: {ANA, BEN, CAI}, TWIN: {BEN, EVA}},
        held={ANA: {STAFF}, BEN: set(), CAI: {STAFF}, EVA: set()},
        minds={HERE: "one", ELSEWHERE: "two", TWIN: "one"},
        stale=stale or set(),
    )


@dataclass(frozen=True)
class Row:
    """One cell of the table. `venue`: a room, or ("private", person)."""

    source: int
    venue: int | tuple[str, int]
    allowed: bool
    reason: str
    stale: frozenset[int] = frozenset()


def yes(source: int, venue: int | tuple[str, int], reason: str = "readers_may") -> Row:
    return Row(source, venue, True, reason)


def no(source: int, venue: int | tuple[str, int], reason: str, stale: frozenset[int] = frozenset()) -> Row:
    return Row(source, venue, False, reason, stale)


def to(person: int) -> tuple[str, int]:
    return ("private", person)


TABLE = [
    # public channel
    yes(PUBLIC, PUBLIC, "same_room"), yes(PUBLIC, BOARD), yes(PUBLIC, PAIR), yes(PUBLIC, DM), yes(PUBLIC, to(BEN)),
    no(PUBLIC, to(CAI), "not_a_member"), no(PUBLIC, OTHER, "other_community"), no(PUBLIC, SISTER, "other_community"),
    no(PUBLIC, LEFT, "not_a_member"), no(PUBLIC, to(EVA), "not_a_member"),
    # room of a role
    no(BOARD, PUBLIC, "venue_too_wide"), yes(BOARD, BOARD, "same_room"), no(BOARD, PAIR, "reader_may_not"),
    yes(BOARD, to(ANA)), no(BOARD, to(BEN), "reader_may_not"), no(BOARD, to(CAI), "not_a_member"),
    no(BOARD, NEWSROOM, "venue_too_wide"), yes(NEWSROOM, BOARD), no(BOARD, OTHER, "other_community"),
    no(BOARD, TWO, "reader_may_not"), no(TWO, PUBLIC, "venue_too_wide"), yes(TWO, BOARD), yes(TWO, PAIR),
    # room of listed people
    no(PAIR, PUBLIC, "venue_too_wide"), no(PAIR, BOARD, "venue_too_wide"), yes(PAIR, PAIR, "same_room"),
    yes(PAIR, to(ANA)), yes(PAIR, to(BEN)), no(PAIR, to(CAI), "not_a_member"), yes(PAIR, DM),
    no(PAIR, OTHER, "other_community"), no(PAIR, LEFT, "not_a_member"),
    # direct room
    no(DM, PUBLIC, "venue_too_wide"), no(DM, BOARD, "venue_too_wide"), no(DM, PAIR, "reader_may_not"),
    yes(DM, DM, "same_room"), yes(DM, to(BEN)), no(DM, to(ANA), "reader_may_not"), no(DM, SISTER, "other_community"),
    # shared mind: private replies and rooms of listed people, members only
    yes(SISTER, DM), yes(SISTER, to(BEN)), no(SISTER, PAIR, "not_a_member"), no(SISTER, PUBLIC, "other_community"),
    no(SISTER, to(ANA), "not_a_member"), no(OTHER, DM, "other_community"),
    # unknown access, on either side; a room may speak of itself
    no(IMPORTED, PUBLIC, "unknown"), no(IMPORTED, to(ANA), "unknown"), yes(IMPORTED, IMPORTED, "same_room"),
    no(PUBLIC, IMPORTED, "unknown"), no(OTHER, IMPORTED, "unknown"),
    # closed, on either side
    no(DELETED, PUBLIC, "closed"), no(DELETED, to(ANA), "closed"), no(DELETED, DELETED, "closed"),
    no(PUBLIC, DELETED, "closed"), no(99, PUBLIC, "closed"), no(PUBLIC, 99, "closed"),
    # old words of a room whose readers see new ones only
    no(SAYS, SAYS, "venue_too_wide"), yes(SAYS, BOARD), no(SAYS, PUBLIC, "venue_too_wide"), yes(SAYS, to(ANA)),
    no(SAYS, to(BEN), "reader_may_not"), yes(PUBLIC, SAYS),
    # out of date: each room in itself and nothing else
    Row(PUBLIC, PUBLIC, True, "same_room", frozenset({HERE})), Row(PAIR, PAIR, True, "same_room", frozenset({HERE})),
    no(PUBLIC, BOARD, "unknown", frozenset({HERE})), no(PUBLIC, to(BEN), "unknown", frozenset({HERE})),
    no(SISTER, DM, "unknown", frozenset({TWIN})), no(SISTER, DM, "unknown", frozenset({HERE})),
    no(SISTER, to(BEN), "unknown", frozenset({TWIN})),
]  # fmt: skip


def verdicts(module: ModuleType) -> list[tuple[bool, str]]:
    """Return what the rule of `module` says to every row of the table."""
    found = []
    for row in TABLE:
        truth = _truth(set(row.stale))
        world = told(truth, truth, module)
        venue = (
            module.InRoom(RoomId(row.venue)) if isinstance(row.venue, int) else module.Private(PersonId(row.venue[1]))
        )
        verdict = module.readable_by_all(venue, RoomId(row.source), world)
        found.append((verdict.allowed, str(verdict.reason)))
    return found


@pytest.mark.parametrize(("row", "got"), list(zip(TABLE, verdicts(audience), strict=True)), ids=str)
def test_each_row_of_the_table(row: Row, got: tuple[bool, str]) -> None:
    assert got == (row.allowed, row.reason)


def test_what_the_asker_may_not_read_is_not_used_even_where_the_room_may() -> None:
    truth = _truth()
    world = told(truth, truth, audience)
    board = InRoom(RoomId(BOARD))
    assert RoomId(BOARD) in readable_rooms(board, None, world)
    assert RoomId(BOARD) in readable_rooms(board, PersonId(ANA), world)
    assert readable_rooms(board, PersonId(BEN), world) == {RoomId(PUBLIC), RoomId(TWO)}  # what Ben too may read


def test_a_room_whose_readers_are_unknown_speaks_of_itself_to_who_asks_there() -> None:
    truth = _truth()
    world = told(truth, truth, audience)
    assert readable_rooms(InRoom(RoomId(IMPORTED)), PersonId(ANA), world) == {RoomId(IMPORTED)}
    assert RoomId(IMPORTED) not in readable_rooms(Private(PersonId(ANA)), PersonId(ANA), world)
    old = told(_truth({HERE}), truth, audience)
    assert readable_rooms(InRoom(RoomId(PUBLIC)), PersonId(BEN), old) == {RoomId(PUBLIC)}


def test_whoever_leaves_loses_every_room_at_once() -> None:
    truth = _truth()
    truth.members[HERE].remove(ANA)
    world = told(truth, truth, audience)
    assert readable_rooms(Private(PersonId(ANA)), PersonId(ANA), world) == {RoomId(OTHER)}


def test_a_role_that_is_taken_closes_at_once() -> None:
    truth = _truth()
    truth.held[ANA].clear()
    world = told(truth, truth, audience)
    mine = readable_rooms(Private(PersonId(ANA)), PersonId(ANA), world)
    assert mine.isdisjoint({RoomId(BOARD), RoomId(NEWSROOM), RoomId(TWO), RoomId(SAYS)})
    assert RoomId(PUBLIC) in mine


@pytest.mark.parametrize("stale", [set(), {HERE}])
@pytest.mark.parametrize("first", ROOMS, ids=lambda room: str(room.id))
def test_many_rooms_are_asked_as_one_by_one(first: TrueRoom, stale: set[int]) -> None:
    truth = _truth(stale)
    for n in range(1, 4):  # rooms with the same access, as most communities have many
        truth.rooms |= {100 * n + room.id: replace(room, id=100 * n + room.id) for room in ROOMS}
    world = told(truth, truth, audience)
    for second in ROOMS:
        venues = [RoomId(100 * n + room.id) for room in (first, second) for n in range(4)]
        one_by_one = [readable_rooms(InRoom(venue), None, world) for venue in venues]
        assert readable_by_every(venues, world) == frozenset.intersection(*one_by_one)
