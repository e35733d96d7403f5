"""People, names, memberships, and who may read a room now. Only this module writes these tables."""

from collections.abc import Iterable
from dataclasses import dataclass

from core.domain.audience import (
    AudienceReason,
    InRoom,
    Private,
    Readers,
    RoomAccess,
    Venue,
    World,
    readable_by_all,
    readable_rooms,
    usable,
)
from core.domain.budgets import PersonLimits, parse_limits
from core.domain.ids import CommunityId, PersonId, RoomId
from core.store.archive import clean
from core.store.engine import Tx

NAME_CHARS = 256
"""What is kept of a name; every platform's own limit is lower."""


@dataclass(frozen=True, slots=True)
class PersonStanding:
    """What intake needs to know of a person: choices, limits, the name carried now."""

    id: PersonId
    opted_out: bool
    limits: str
    name: str | None
    member: bool


_FIND = """
select p.id, p.opted_out, p.limits, n.name, m.id is not null as member from voidbot.people p
left join voidbot.person_names n on n.person_id = p.id and n.kind = 'display' and n.valid_to is null
left join voidbot.memberships m on m.person_id = p.id and m.community_id = $3 and m.left_at is null
where p.platform = $1 and p.account_ref = $2"""


async def find_person(tx: Tx, platform: str, account_ref: str, community_id: CommunityId) -> PersonStanding | None:
    """Return a person by platform account, as that community knows them."""
    row = await tx.fetchrow(_FIND, platform, account_ref, community_id)
    if row is None:
        return None
    return PersonStanding(PersonId(row["id"]), row["opted_out"], row["limits"], row["name"], row["member"])


async def ensure_person(
    tx: Tx,
    platform: str,
    account_ref: str,
    community_id: CommunityId,
    name: str,
    *,
    is_bot: bool = False,
    limits: str = "default",
    typed: bool = False,
) -> PersonStanding:
    """Return the person, with a row made, a membership opened and a changed name dated where that is due.

    `typed`: the name was typed to say who speaks; it renames nobody by its capitals alone.
    """
    name = clean(name)[:NAME_CHARS]
    found = await find_person(tx, platform, account_ref, community_id)
    if typed and found is not None and found.name is not None and found.name.casefold() == name.casefold():
        name = found.name
    if found is None:
        await tx.execute(
            "insert into voidbot.people (platform, account_ref, is_bot, kind, limits) values ($1, $2, $3, 'user', $4)"
            " on conflict (platform, account_ref) do nothing",
            platform,
            account_ref,
            is_bot,
            limits,
        )
        found = await find_person(tx, platform, account_ref, community_id)
        if found is None:
            raise LookupError("a person's row vanished within one transaction")
    if found.name != name:
        await _rename(tx, found.id, name)
    if not found.member:
        await tx.execute(
            "insert into voidbot.memberships (community_id, person_id) values ($1, $2) on conflict do nothing",
            community_id,
            found.id,
        )
        await _raise_epoch(tx, community_id)
    return PersonStanding(found.id, found.opted_out, found.limits, name, True)


async def _rename(tx: Tx, person_id: PersonId, name: str) -> None:
    await tx.execute(
        "update voidbot.person_names set valid_to = voidbot.now()"
        " where person_id = $1 and kind = 'display' and valid_to is null",
        person_id,
    )
    await tx.execute(
        "insert into voidbot.person_names (person_id, name) values ($1, $2) on conflict do nothing",
        person_id,
        name,
    )


async def account_of(tx: Tx, person_id: PersonId) -> str:
    """Return the platform's id of the person."""
    ref: str = await tx.fetchval("select account_ref from voidbot.people where id = $1", person_id)
    return ref


async def load_limits(tx: Tx, person_id: PersonId) -> PersonLimits:
    """Return how far the person's own limits reach."""
    return parse_limits(await tx.fetchval("select limits from voidbot.people where id = $1", person_id))


async def list_named(tx: Tx, community_id: CommunityId, name: str) -> list[PersonId]:
    """Return the community's people who carry this name now, whatever its case."""
    rows = await tx.fetch(
        "select distinct n.person_id from voidbot.person_names n"
        " join voidbot.memberships m on m.person_id = n.person_id"
        " where m.community_id = $1 and m.left_at is null and n.valid_to is null and lower(n.name) = lower($2)",
        community_id,
        name,
    )
    return [PersonId(row["person_id"]) for row in rows]


async def save_limits(tx: Tx, person_id: PersonId, limits: str) -> None:
    """Set the limits role of a person: `default`, `boosted` or `unlimited`."""
    await tx.execute("update voidbot.people set limits = $2 where id = $1", person_id, limits)


async def leave(tx: Tx, community_id: CommunityId, person_id: PersonId) -> None:
    """Close the membership: the person loses every room of the community at once."""
    await tx.execute(
        "update voidbot.memberships set left_at = voidbot.now()"
        " where community_id = $1 and person_id = $2 and left_at is null",
        community_id,
        person_id,
    )
    await _raise_epoch(tx, community_id)


async def save_access(
    tx: Tx,
    room_id: RoomId,
    community_id: CommunityId,
    *,
    everyone: bool,
    users: Iterable[PersonId] = (),
    source: str = "platform",
) -> None:
    """Set who may read a room from now on; what they may view they may also read back."""
    await tx.execute(
        "insert into voidbot.room_access (room_id, known, everyone_view, everyone_history, source)"
        " values ($1, true, $2, $2, $3) on conflict (room_id) do update"
        " set known = true, everyone_view = $2, everyone_history = $2, source = $3,"
        " version = room_access.version + 1, checked_at = voidbot.now()",
        room_id,
        everyone,
        source,
    )
    await tx.execute("delete from voidbot.room_access_users where room_id = $1", room_id)
    await tx.executemany(
        "insert into voidbot.room_access_users (room_id, person_id, view, history) values ($1, $2, true, true)",
        [(room_id, person) for person in sorted(set(users))],
    )
    await _raise_epoch(tx, community_id)


async def may_enter(tx: Tx, room_id: RoomId, person_id: PersonId) -> bool:
    """Return whether a present member may see the room now; unknown access is closed."""
    return bool(
        await tx.fetchval(
            "select a.known and (a.everyone_view or exists (select 1 from voidbot.room_access_users u"
            " where u.room_id = a.room_id and u.person_id = $2 and u.view))"
            " from voidbot.room_access a where a.room_id = $1",
            room_id,
            person_id,
        )
    )


async def _raise_epoch(tx: Tx, community_id: CommunityId) -> None:
    await tx.execute("update voidbot.communities set access_epoch = access_epoch + 1 where id = $1", community_id)


_WORLD = """
select r.id, r.community_id, r.state = 'active' and c.state = 'active' as open, c.mind_id,
       c.access_state = 'stale' as stale, coalesce(a.known, false) as known,
       coalesce(a.everyone_view, false) as ev, coalesce(a.everyone_history, false) as eh,
       array(select person_id from voidbot.room_access_users u where u.room_id = r.id and u.view) as vu,
       array(select person_id from voidbot.room_access_users u where u.room_id = r.id and u.history) as hu,
       array(select role_id from voidbot.room_access_roles l where l.room_id = r.id and l.view) as vr,
       array(select role_id from voidbot.room_access_roles l where l.room_id = r.id and l.history) as hr
from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
left join voidbot.room_access a on a.room_id = r.id
where c.mind_id = (select mind_id from voidbot.communities where id = $1)"""
_MEMBERS = """
select m.community_id, m.person_id,
       array(select role_id from voidbot.membership_roles h
             where h.person_id = m.person_id and h.valid_to is null) as held
from voidbot.memberships m join voidbot.communities c on c.id = m.community_id
where m.left_at is null and m.person_id = any($2::bigint[])
  and c.mind_id = (select mind_id from voidbot.communities where id = $1)"""


async def load_world(tx: Tx, community_id: CommunityId, people: Iterable[PersonId]) -> World:
    """Return the rooms of the community's mind and where `people` and the rooms' listed readers stand now."""
    rooms: dict[RoomId, RoomAccess] = {}
    minds: dict[CommunityId, str] = {}
    stale: set[CommunityId] = set()
    listed: set[PersonId] = set(people)
    for row in await tx.fetch(_WORLD, community_id):
        home = CommunityId(row["community_id"])
        minds[home] = row["mind_id"]
        if row["stale"]:
            stale.add(home)
        view = Readers(row["ev"], frozenset(row["vr"]), frozenset(PersonId(user) for user in row["vu"]))
        history = Readers(row["eh"], frozenset(row["hr"]), frozenset(PersonId(user) for user in row["hu"]))
        rooms[RoomId(row["id"])] = RoomAccess(RoomId(row["id"]), home, row["open"], row["known"], view, history)
        listed |= view.users
    members: dict[CommunityId, set[PersonId]] = {}
    held: dict[PersonId, frozenset[int]] = {}
    for row in await tx.fetch(_MEMBERS, community_id, sorted(listed)):
        members.setdefault(CommunityId(row["community_id"]), set()).add(PersonId(row["person_id"]))
        held[PersonId(row["person_id"])] = frozenset(row["held"])
    return World(
        rooms=rooms,
        members={home: frozenset(who) for home, who in members.items()},
        held=held,
        minds=minds,
        stale=frozenset(stale),
    )


async def list_readable(tx: Tx, community_id: CommunityId, venue: Venue, asker: PersonId | None) -> frozenset[RoomId]:
    """Return the rooms whose words may be used in `venue` now, as far as `asker` may read them too."""
    people = [person for person in (asker, getattr(venue, "person_id", None)) if person is not None]
    return readable_rooms(venue, asker, await load_world(tx, community_id, people))


_EPOCH = """
select sum(access_epoch) from voidbot.communities
where mind_id = (select mind_id from voidbot.communities where id = $1)"""


class ReadableRooms:
    """Readable rooms by venue and asker, remembered until any access of the mind changes."""

    __slots__ = ("_known", "_limit")

    def __init__(self, limit: int = 10_000) -> None:
        self._known: dict[tuple[CommunityId, Venue, PersonId | None], tuple[int, frozenset[RoomId]]] = {}
        self._limit = limit

    async def load(
        self, tx: Tx, community_id: CommunityId, venue: Venue, asker: PersonId | None, *, epoch: int | None = None
    ) -> frozenset[RoomId]:
        """Return the same as `list_readable`; where nothing has changed by one small statement.

        `epoch`: the mind's as this transaction has read it; then by none.
        """
        key = (community_id, venue, asker)
        if epoch is None:
            epoch = int(await tx.fetchval(_EPOCH, community_id))
        known = self._known.get(key)
        if known is not None and known[0] == epoch:
            return known[1]
        rooms = await list_readable(tx, community_id, venue, asker)
        if len(self._known) >= self._limit:
            self._known.clear()
        self._known[key] = (epoch, rooms)
        return rooms

    async def allow(
        self,
        tx: Tx,
        community_id: CommunityId,
        room_id: RoomId,
        private_to: PersonId | None,
        sources: Iterable[RoomId],
        *,
        epoch: int | None = None,
    ) -> bool:
        """Return whether what was made from `sources` may now be said in the room, or to one person there.

        A room may speak of itself also where its access is unknown; to one person alone unless it is known that
        the person may not read it any more. `epoch`: as in `load`.
        """
        venue: Venue = InRoom(room_id) if private_to is None else Private(private_to)
        readable = await self.load(tx, community_id, venue, None, epoch=epoch)
        if room_id not in readable and isinstance(venue, Private):
            world = await load_world(tx, community_id, [venue.person_id])
            verdict = readable_by_all(venue, room_id, world)
            if verdict.reason is not AudienceReason.UNKNOWN:
                return usable(sources, readable)
        return usable(sources, readable | {room_id})
