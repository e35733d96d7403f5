"""A town to talk in: communities with rooms that all their people may read, and what was said there before.

Rows are written in bulk here and by nobody else outside the store; the product finds them as it would its own.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.ids import RoomKey
from core.domain.messages import Address, InboundMessage, MessageKind, Origin
from core.ports import Clock
from core.store.engine import Database

VOCABULARY = 2000
"""Different words in use; a question of eight shares one with about one old message in thirty."""
WORDS = (6, 14)
"""Words of a message, least and most."""

_COMMUNITIES = """
insert into voidbot.communities (platform, chat_ref, name, mind_id)
select $1, 'town' || n, 'Town ' || n, $1 || ':town' || n from generate_series(0, $2 - 1) n"""
_ROOMS = """
insert into voidbot.rooms (community_id, platform, chat_ref, kind, name, archive)
select c.id, $1, 'room' || n, 'channel', 'room ' || n, 'on' from generate_series(0, $2 - 1) n
join voidbot.communities c on c.platform = $1 and c.chat_ref = 'town' || n % $3"""
_ACCESS = """
insert into voidbot.room_access (room_id, known, everyone_view, everyone_history)
select id, true, true, true from voidbot.rooms where platform = $1"""
_PEOPLE = """
insert into voidbot.people (platform, account_ref)
select $1, 'person' || n from generate_series(0, $2 - 1) n"""
_NAMES = (
    "insert into voidbot.person_names (person_id, name) select id, account_ref from voidbot.people where platform = $1"
)
_MEMBERS = """
insert into voidbot.memberships (community_id, person_id)
select c.id, p.id from generate_series(0, $2 - 1) n
join voidbot.people p on p.platform = $1 and p.account_ref = 'person' || n
join voidbot.communities c on c.platform = $1 and c.chat_ref = 'town' || n % $3"""
_HISTORY = """
insert into voidbot.messages (community_id, room_id, author_id, platform_ref, archived_seq, text, sent_at)
select r.community_id, r.id, p.id, 'old' || m.n, m.n, m.text, $4
from unnest($2::text[]) with ordinality m (text, n)
join voidbot.rooms r on r.platform = $1 and r.chat_ref = 'room' || $3::int
join voidbot.people p on p.platform = $1 and p.account_ref = 'person' || $3::int"""
_COUNTED = """
update voidbot.rooms r set last_archived_seq = (select count(*) from voidbot.messages m where m.room_id = r.id)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """How big the town is. Person n lives in community n modulo `communities`, as room n does.

    The defaults of rate limits and purses hold here as anywhere: a room takes 30 answers in ten minutes, a
    person 3 at once, a community 2,000 a day. `for_answers` returns a town that is big enough not to meet them.
    """

    platform: str
    rooms: int
    people: int
    communities: int
    history: int

    @classmethod
    def for_answers(cls, platform: str, answers: int, *, rooms: int, history: int) -> "Town":
        """Return a town of at least `rooms` rooms in which so many answers meet no limit."""
        communities = max(5, answers // 1200 + 1)
        rooms = max(rooms, answers // 24 + 1)
        people = max(answers * 2, rooms)
        return cls(platform=platform, rooms=rooms, people=people, communities=communities, history=history)


async def settle_town(database: Database, town: Town, clock: Clock) -> None:
    """Write the town's rows, and let the planner know of them."""
    rng = random.Random(7)
    async with database.transaction(long=True) as tx:
        await tx.execute(_COMMUNITIES, town.platform, town.communities)
        await tx.execute(_ROOMS, town.platform, town.rooms, town.communities)
        await tx.execute(_ACCESS, town.platform)
        await tx.execute(_PEOPLE, town.platform, town.people)
        await tx.execute(_NAMES, town.platform)
        await tx.execute(_MEMBERS, town.platform, town.people, town.communities)
        since = clock.now() - timedelta(hours=1)
        for room in range(town.rooms):
            said = [sentence(rng) for _ in range(town.history)]
            await tx.execute(_HISTORY, town.platform, said, room, since)
        await tx.execute(_COUNTED)
        await tx.execute("analyze voidbot.messages, voidbot.people, voidbot.person_names, voidbot.memberships")


def sentence(rng: random.Random) -> str:
    """Return a message of made-up words, each as likely as any other."""
    return " ".join(f"word{rng.randrange(VOCABULARY)}x" for _ in range(rng.randint(*WORDS)))


def talk(town: Town, clock: Clock, *, addressed_every: int) -> Iterator[InboundMessage]:
    """Yield messages for ever: room after room, people in turn, each `addressed_every`-th one speaking to the bot."""
    rng = random.Random(11)
    number = 0
    while True:
        turn, room = divmod(number, town.rooms)
        community, house = room % town.communities, room // town.communities
        houses = len(range(community, town.rooms, town.communities))
        at_home = range(community, town.people, town.communities)
        person = at_home[(turn * houses + house) % len(at_home)]
        addressed = (number + turn) % addressed_every == 0  # each round other rooms ask
        yield message(town.platform, number, room, person, sentence(rng), clock.now(), addressed)
        number += 1


def message(
    platform: str, number: int, room: int, person: int, text: str, at: datetime, addressed: bool
) -> InboundMessage:
    """Return one message as an adapter would hand it over; nobody waits for a further fragment of it."""
    return InboundMessage(
        front_end=platform,
        room=RoomKey(platform, f"room{room}"),
        message_id=f"m{number}",
        event_id=f"e{number}",
        kind=MessageKind.TEXT,
        person_ref=f"person{person}",
        display_name=f"person{person}",
        username="",
        origin=Origin.HUMAN,
        text=f"@void {text}" if addressed else text,
        sent_at=at,
        received_at=at,
        addressed_by=frozenset({Address.MENTION}) if addressed else frozenset(),
        quiet_window=False,
    )
