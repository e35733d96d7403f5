"""The audience rule against brute force: never a yes where one reader may not; no unexplained no."""

import random
from concurrent.futures import ProcessPoolExecutor

import pytest

from core.domain import audience
from core.domain.audience import InRoom, Private, RoomAccess, readable_by_all, readable_rooms, usable
from core.domain.ids import PersonId, RoomId
from tests.audience.worlds import EVENTS, Tally, all_complaints, draw, live, told


def test_the_rule_says_yes_only_where_every_reader_may_read(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    assert list(all_complaints(random.Random(7), 3000, audience, tally)) == []
    _tell(3000, tally, capsys)


@pytest.mark.long
def test_the_rule_holds_in_a_hundred_thousand_histories(capsys: pytest.CaptureFixture[str]) -> None:
    whole = Tally()
    with ProcessPoolExecutor(2) as pool:
        for found, tally in pool.map(_judge, range(100)):
            assert found == []
            whole.pairs, whole.itself = whole.pairs + tally.pairs, whole.itself + tally.itself
            whole.share += tally.share
    _tell(100_000, whole, capsys)


def _judge(seed: int) -> tuple[list[str], Tally]:
    tally = Tally()
    return list(all_complaints(random.Random(seed), 1000, audience, tally)), tally


def _tell(count: int, tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    shares = ", ".join(f"{why} {100 * n / tally.pairs:.2f} %" for why, n in sorted(tally.share.items()))
    assert set(tally.share) == {"unknown", "stale", "role_rule"}
    with capsys.disabled():
        print(f"\n{count:,} histories, {tally.pairs:,} pairs: no leak; careful: {shares}; in itself: {tally.itself}")


def test_histories_hold_what_can_happen() -> None:
    rng = random.Random(29)
    events: set[str] = set()
    kinds: set[str] = set()
    for _ in range(100):
        history = live(rng)
        events |= set(history.events)
        kinds |= {room.kind for room in history.truth.rooms.values()}
        assert all(number in sources for number, sources in history.said)
    assert events == set(EVENTS)
    assert kinds == {"channel", "dm", "thread_public", "thread_private", "forum_post", "topic"}


def test_one_more_reader_never_makes_more_usable() -> None:
    rng = random.Random(11)
    for _ in range(600):
        truth, heard = draw(rng)
        world = told(truth, heard, audience)
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
        unsure = not place.known or place.community_id in world.stale
        assert readable_rooms(InRoom(RoomId(wide)), asker, world) - mine <= ({RoomId(wide)} if unsure else frozenset())


def test_one_more_source_never_makes_a_thing_freer() -> None:
    rng = random.Random(13)
    for _ in range(500):
        readable = frozenset(RoomId(room) for room in range(1, 7) if rng.random() < 0.5)
        sources = {RoomId(rng.randint(1, 6)) for _ in range(rng.randint(1, 3))}
        more = sources | {RoomId(rng.randint(1, 6))}
        assert usable(sources, readable) or not usable(more, readable)
        assert usable(sources, readable) == all(room in readable for room in sources)


def test_a_room_nobody_knows_is_closed() -> None:
    truth, heard = draw(random.Random(1))
    world = told(truth, heard, audience)
    assert not readable_by_all(Private(PersonId(1)), RoomId(999), world).allowed
    assert not readable_by_all(InRoom(RoomId(999)), RoomId(1), world).allowed
