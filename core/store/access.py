"""Who may read a room now: roles, access lists, and the rooms that a venue's readers all may read."""

from collections.abc import Iterable, Sequence
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
from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.platforms import MemberReport, RoleReport, RoomReport, Whoever, both
from core.store.engine import Tx
from core.store.words import clean


async def save_access(
    tx: Tx,
    room_id: RoomId,
    community_id: CommunityId,
    *,
    everyone: bool,
    users: Iterable[PersonId] = (),
    roles: Iterable[int] = (),
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
    await tx.execute("delete from voidbot.room_access_roles where room_id = $1", room_id)
    await tx.executemany(
        "insert into voidbot.room_access_roles (room_id, role_id, view, history) values ($1, $2, true, true)",
        [(room_id, role) for role in sorted(set(roles))],
    )
    await raise_epoch(tx, community_id)


async def forget_access(tx: Tx, rooms: Sequence[RoomId]) -> None:
    """Forget who may read rooms that are gone: unknown is closed. A direct room's person stays known."""
    for table in ("room_access", "room_access_users", "room_access_roles"):
        await tx.execute(
            f"delete from voidbot.{table} where room_id in"
            " (select id from voidbot.rooms where id = any($1::bigint[]) and kind <> 'dm')",
            rooms,
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """What is known of a room's readers. `by_hand`: an operator has set it, not the platform."""

    by_hand: bool
    everyone: bool
    roles: frozenset[int]
    accounts: frozenset[str]


_LISTED = """
select a.source = 'operator' as by_hand, a.everyone_view or a.everyone_history as everyone,
       array(select role_id from voidbot.room_access_roles l where l.room_id = a.room_id) as roles,
       array(select p.account_ref from voidbot.room_access_users u join voidbot.people p on p.id = u.person_id
             where u.room_id = a.room_id) as accounts
from voidbot.room_access a where a.room_id = $1 and a.known"""
_ROLES_BY_REF = """
select role_ref, id from voidbot.roles
where community_id = $1 and deleted_at is null and (role_ref = any($2::text[]) or ($3 and admin))"""


async def list_readers(tx: Tx, room_id: RoomId) -> Listed | None:
    """Return who is listed as a reader of the room itself; None if that is not known."""
    row = await tx.fetchrow(_LISTED, room_id)
    if row is None:
        return None
    return Listed(row["by_hand"], row["everyone"], frozenset(row["roles"]), frozenset(row["accounts"]))


async def find_roles(tx: Tx, community_id: CommunityId, refs: Sequence[str], *, admins: bool = False) -> dict[str, int]:
    """Return the community's present roles with these platform ids; `admins`: those that administer it as well."""
    return {row["role_ref"]: row["id"] for row in await tx.fetch(_ROLES_BY_REF, community_id, refs, admins)}


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


async def raise_epoch(tx: Tx, community_id: CommunityId) -> None:
    """Make every remembered set of readable rooms of the community's mind out of date."""
    await tx.execute("update voidbot.communities set access_epoch = access_epoch + 1 where id = $1", community_id)


# What hangs openly on another room is read by that room's readers; as long as that one is unknown, so are they.
_WORLD = """
with home as (select mind_id from voidbot.communities where id = $1),
     here as (
    select r.id, r.community_id, c.mind_id, c.access_state = 'stale' as stale,
           r.state = 'active' and c.state = 'active' and coalesce(p.state, 'active') = 'active' as open,
           case when r.kind in ('thread_public', 'forum_post', 'topic') then p.id else r.id end as by
    from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
    left join voidbot.rooms p on p.id = r.parent_id
    where c.mind_id = (select mind_id from home))
select here.*, coalesce(a.known, false) as known,
       coalesce(a.everyone_view, false) as ev, coalesce(a.everyone_history, false) as eh,
       array(select person_id from voidbot.room_access_users u where u.room_id = here.by and u.view) as vu,
       array(select person_id from voidbot.room_access_users u where u.room_id = here.by and u.history) as hu,
       array(select role_id from voidbot.room_access_roles l where l.room_id = here.by and l.view) as vr,
       array(select role_id from voidbot.room_access_roles l where l.room_id = here.by and l.history) as hr
from here left join voidbot.room_access a on a.room_id = here.by"""
_MEMBERS = """
select m.community_id, m.person_id,
       array(select h.role_id from voidbot.membership_roles h join voidbot.roles r on r.id = h.role_id
             where h.person_id = m.person_id and h.valid_to is null and r.deleted_at is null) as held
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


_ROLES = """
insert into voidbot.roles (community_id, role_ref, name, admin)
select $1, u.* from unnest($2::text[], $3::text[], $4::boolean[]) u
on conflict (community_id, role_ref) do update set name = excluded.name, admin = excluded.admin, deleted_at = null"""
_ROLES_GONE = """
update voidbot.roles set deleted_at = voidbot.now()
where community_id = $1 and deleted_at is null and role_ref <> all($2::text[])"""
_HELD_OVER = """
update voidbot.membership_roles h set valid_to = voidbot.now()
from voidbot.people p, voidbot.roles r
where h.valid_to is null and h.person_id = p.id and h.role_id = r.id and r.community_id = $1
  and p.platform = $2 and p.account_ref = any($3::text[])
  and not exists (select 1 from unnest($4::text[], $5::text[]) u(person, role)
                  where u.person = p.account_ref and u.role = r.role_ref)"""
_HELD_NEW = """
insert into voidbot.membership_roles (person_id, role_id)
select p.id, r.id from unnest($3::text[], $4::text[]) u(person, role)
join voidbot.people p on p.platform = $2 and p.account_ref = u.person
join voidbot.roles r on r.community_id = $1 and r.role_ref = u.role
on conflict do nothing"""
_UNHOLD = """
update voidbot.membership_roles h set valid_to = voidbot.now() from voidbot.roles r
where h.person_id = $2 and r.id = h.role_id and r.community_id = $1 and h.valid_to is null"""
_ACCESS = """
insert into voidbot.room_access (room_id, known, everyone_view, everyone_history) values ($1, true, $2, $3)
on conflict (room_id) do update set known = true, everyone_view = $2, everyone_history = $3,
  version = room_access.version + 1, checked_at = voidbot.now() where room_access.source = 'platform'
returning room_id"""
_UNKNOWN = """
update voidbot.room_access set known = false, version = version + 1, checked_at = voidbot.now()
where room_id = $1 and source = 'platform' and known"""
_ACCESS_ROLES = """
insert into voidbot.room_access_roles (room_id, role_id, view, history)
select $1, r.id, r.role_ref = any($3::text[]), r.role_ref = any($4::text[]) from voidbot.roles r
where r.community_id = $2 and (r.role_ref = any($3::text[]) or r.role_ref = any($4::text[]))"""
_ACCESS_USERS = """
insert into voidbot.room_access_users (room_id, person_id, view, history)
select $1, p.id, p.account_ref = any($3::text[]), p.account_ref = any($4::text[]) from voidbot.people p
where p.platform = $2 and (p.account_ref = any($3::text[]) or p.account_ref = any($4::text[]))"""


async def learn_roles(tx: Tx, community_id: CommunityId, roles: Sequence[RoleReport], *, whole: bool) -> None:
    """Bring the community's roles to the report; `whole`: the others are gone."""
    refs = [role.ref for role in roles]
    if roles:
        names = [clean(role.name) for role in roles]
        await tx.execute(_ROLES, community_id, refs, names, [role.admin for role in roles])
    if whole:
        await tx.execute(_ROLES_GONE, community_id, refs)


async def learn_holders(tx: Tx, community_id: CommunityId, platform: str, members: Sequence[MemberReport]) -> None:
    """Bring the roles that these members hold to the report; their rows must be there."""
    held = [(member.ref, role) for member in members for role in sorted(member.roles)]
    holders, roles = [ref for ref, _ in held], [role for _, role in held]
    await tx.execute(_HELD_OVER, community_id, platform, [member.ref for member in members], holders, roles)
    await tx.execute(_HELD_NEW, community_id, platform, holders, roles)


async def end_roles(tx: Tx, community_id: CommunityId, person_id: PersonId) -> None:
    """Take every role of the community from a person who left it."""
    await tx.execute(_UNHOLD, community_id, person_id)


async def learn_access(tx: Tx, community_id: CommunityId, room_id: RoomId, room: RoomReport) -> None:
    """Set who may read the room as the platform says, unless an administrator has narrowed it by hand."""
    if room.view is None:  # it can't be told any more: what was known is no proof
        await tx.execute(_UNKNOWN, room_id)
        return
    view, history = room.view, both(room.history or Whoever(), room.view)  # who sees nothing reads nothing back
    if await tx.fetchval(_ACCESS, room_id, view.everyone, history.everyone) is None:
        return
    await tx.execute("delete from voidbot.room_access_roles where room_id = $1", room_id)
    await tx.execute("delete from voidbot.room_access_users where room_id = $1", room_id)
    if view.roles or history.roles:
        await tx.execute(_ACCESS_ROLES, room_id, community_id, sorted(view.roles), sorted(history.roles))
    if view.accounts or history.accounts:
        platform = room.key.platform
        await tx.execute(_ACCESS_USERS, room_id, platform, sorted(view.accounts), sorted(history.accounts))
