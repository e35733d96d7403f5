"""What the library's cache knows of communities, in our words: rooms, roles, members and who may read what."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import discord

from bot.adapters.discord_intake import ADMINISTRATOR, MANAGE_GUILD, PLATFORM, Place
from bot.adapters.discord_payload import Payload, part, parts, ref, text
from bot.adapters.discord_rights import STAFF
from core.domain.ids import RoomKey
from core.domain.platforms import CommunityReport, MemberReport, RoleReport, RoomReport, Surroundings, Whoever, both
from core.domain.rooms import RoomKind

DIRECT = "dm:"
"""What stands before the account in the reference of a direct room's own community."""
VIEW = discord.Permissions.view_channel.flag
HISTORY = discord.Permissions.read_message_history.flag
MANAGE_THREADS = discord.Permissions.manage_threads.flag

Parent = discord.abc.GuildChannel
Room = discord.abc.GuildChannel | discord.Thread


def key_of(room_id: int | str) -> RoomKey:
    """Return the key of a channel or thread: a thread is a room of its own."""
    return RoomKey(PLATFORM, str(room_id))


def kind_of(room: Room) -> RoomKind:
    """Return what sort of place a channel or thread is."""
    if not isinstance(room, discord.Thread):
        return RoomKind.CHANNEL
    if isinstance(room.parent, discord.ForumChannel):
        return RoomKind.FORUM_POST
    return RoomKind.THREAD_PRIVATE if room.is_private() else RoomKind.THREAD_PUBLIC


def surroundings_of(room: Room) -> Surroundings:
    """Return the room as the platform describes it."""
    parent = key_of(room.parent_id) if isinstance(room, discord.Thread) else None
    return Surroundings(
        community_ref=str(room.guild.id),
        kind=kind_of(room),
        community_name=room.guild.name,
        name=room.name,
        topic=getattr(room, "topic", None) or "",
        parent=parent,
    )


def place_of(data: Payload, client: discord.Client) -> Place:
    """Return the room of an event: from the cache, else what the event itself says."""
    room = client.get_channel(int(ref(data, "channel_id") or 0))
    if isinstance(room, Room):
        return _place_in(room.guild, surroundings_of(room), client)
    guild_ref = ref(data, "guild_id")
    guild = client.get_guild(int(guild_ref or 0))
    if guild is not None:
        about = Surroundings(community_ref=guild_ref, kind=RoomKind.CHANNEL, community_name=guild.name)
        return _place_in(guild, about, client)
    if guild_ref:
        return Place(surroundings=Surroundings(community_ref=guild_ref, kind=RoomKind.CHANNEL))
    return Place(surroundings=_direct(data, room, client))


def _direct(data: Payload, room: object, client: discord.Client) -> Surroundings:
    """Return a direct room: a community of its own, under the person's account; without one if nothing names them."""
    own = 0 if client.user is None else client.user.id
    if isinstance(room, discord.DMChannel) and room.recipient is not None:
        who, name = str(room.recipient.id), room.recipient.display_name
    else:
        people = [part(data, "author"), part(data, "user"), *parts(part(data, "channel"), "recipients")]
        other: Payload = next((one for one in people if ref(one, "id") not in ("", str(own))), {})
        who = ref(other, "id")
        name = text(other, "global_name") or text(other, "username")
    return Surroundings(community_ref=who and DIRECT + who, kind=RoomKind.DM, community_name=name, name=name)


def _place_in(guild: discord.Guild, about: Surroundings, client: discord.Client) -> Place:
    def role_name(key: str) -> str:
        role = guild.get_role(int(key))
        return "" if role is None else role.name

    def room_name(key: str) -> str:
        room = client.get_channel(int(key))
        return room.name if isinstance(room, Room) and room.guild == guild else ""

    return Place(
        surroundings=about,
        owner_ref=str(guild.owner_id or ""),
        admin_roles=frozenset(str(role.id) for role in guild.roles if is_admin(role.permissions.value)),
        staff_roles=frozenset(str(role.id) for role in guild.roles if may_moderate(role.permissions.value)),
        own_roles=frozenset(own_roles(guild)),
        role_name=role_name,
        room_name=room_name,
    )


def is_admin(bits: int) -> bool:
    """Return whether these permission bits let their holder administer a community."""
    return bool(bits & (ADMINISTRATOR | MANAGE_GUILD))


def may_moderate(bits: int) -> bool:
    """Return whether these permission bits let their holder look after members and what they write."""
    return bool(bits & (STAFF | ADMINISTRATOR))


def own_roles(guild: discord.Guild) -> Iterator[str]:
    """Yield the roles that only we hold: our integration's own, and others as far as all members are known."""
    me = me_in(guild)
    for role in [] if me is None else me.roles:
        managed = role.tags is not None and role.tags.bot_id == guild.me.id
        if managed or (guild.chunked and not role.is_default() and role.members == [me]):
            yield str(role.id)


def rooms_of(guild: discord.Guild) -> Iterator[Room]:
    """Yield the channels and threads of a community that we may see and where words can be."""
    me = me_in(guild)
    if me is None:
        return
    for room in [*guild.channels, *guild.threads]:
        if not isinstance(room, discord.CategoryChannel) and room.permissions_for(me).view_channel:
            yield room


def me_in(guild: discord.Guild) -> discord.Member | None:
    """Return us as a member; None while the platform has not told us so."""
    return guild.me


def may_read_back(room: Room) -> bool:
    """Return whether we may read what was said in a room."""
    me = me_in(room.guild)
    if me is None:
        return False
    may = room.permissions_for(me)
    return may.view_channel and may.read_message_history


async def report_of(guild: discord.Guild, *, members: bool) -> CommunityReport:
    """Return everything known of a community. `members`: with all members, where the platform told us of them.

    Lets others run between rooms: a list of readers takes its time where there are many members.
    """
    known = members and guild.chunked
    rooms = []
    for room in list(rooms_of(guild)):
        rooms.append(room_report(room))
        await asyncio.sleep(0)
    return CommunityReport(
        platform=PLATFORM,
        ref=str(guild.id),
        name=guild.name,
        rooms=tuple(rooms),
        roles=tuple(RoleReport(str(one.id), one.name, is_admin(one.permissions.value)) for one in guild.roles),
        members=tuple(map(member_report, guild.members)) if known else (),
        whole=True,
        members_known=known,
    )


def room_report(room: Room) -> RoomReport:
    """Return one room with its readers: who cannot see it cannot read back in it, whatever else is granted."""
    view, history = allowed(room, VIEW), allowed(room, HISTORY)
    return RoomReport(
        key=key_of(room.id), surroundings=surroundings_of(room), view=view, history=_reading(room, view, history)
    )


def _reading(room: Room, view: Whoever | None, history: Whoever | None) -> Whoever | None:
    """Return who sees a room and reads back in it; rather too few than too many where members are not known."""
    if view is None or history is None:
        return None
    place: Parent | None = room.parent if isinstance(room, discord.Thread) else room
    if place is not None and place.guild.chunked and not _nested(view, history):
        return _one_by_one(place, VIEW | HISTORY)
    return both(view, history)


def _nested(one: Whoever, other: Whoever) -> bool:
    """Return whether those of the one are plainly among the other's, or the other way round."""
    return any(
        more.everyone or (not less.everyone and less.roles <= more.roles and less.accounts <= more.accounts)
        for less, more in ((one, other), (other, one))
    )


def member_report(member: discord.Member) -> MemberReport:
    """Return one member; the role that everyone has is left out."""
    roles = frozenset(str(role.id) for role in member.roles if not role.is_default())
    return MemberReport(ref=str(member.id), name=member.display_name, roles=roles, is_bot=member.bot)


def one_member(guild: discord.Guild, member: MemberReport) -> CommunityReport:
    """Return a report of one member alone."""
    return CommunityReport(platform=PLATFORM, ref=str(guild.id), name=guild.name, members=(member,))


def told_one_by_one(guild: discord.Guild) -> bool:
    """Return whether some room's readers are a list of people, which changes with every member."""
    return guild.chunked and any(
        _told_by_people(room) for room in rooms_of(guild) if not isinstance(room, discord.Thread)
    )


def _told_by_people(place: Parent) -> bool:
    if _needs_people(place, VIEW) or _needs_people(place, HISTORY):
        return True
    view, history = allowed(place, VIEW), allowed(place, HISTORY)
    return view is not None and history is not None and not _nested(view, history)


def allowed(room: Room, bit: int) -> Whoever | None:
    """Return who has a permission in a room, exactly, or None where that cannot be told.

    Platform rules: what everyone or a role may do in the community is changed in the room first for everyone,
    then for all held roles at once (granting wins), then for the member. Refusals that single out a role or
    a member can only be told person by person, which needs the list of all members.
    """
    place: Parent | None = room.parent if isinstance(room, discord.Thread) else room
    if place is None or (isinstance(room, discord.Thread) and room.is_private()):
        return None  # whoever was added to the thread: no list of them is told
    if _needs_people(place, bit):
        return _one_by_one(place, bit)
    guild, changes = place.guild, _changes(place)
    of_roles = {key for key, (grants, _) in changes.roles.items() if grants & bit}
    people = {key for key, (grants, _) in changes.members.items() if grants & bit}
    admins = {role.id for role in guild.roles if role.permissions.value & ADMINISTRATOR and not role.is_default()}
    owner = {guild.owner_id} if guild.owner_id else set()
    return Whoever(
        everyone=changes.everyone_has(bit),
        roles=frozenset(map(str, of_roles | admins | changes.roles_given(bit))),
        accounts=frozenset(map(str, people | owner)),
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """What a room changes of what its community grants: (bits granted, bits refused) for everyone, roles, members."""

    guild: discord.Guild
    everyone: tuple[int, int]
    roles: Mapping[int, tuple[int, int]]
    members: Mapping[int, tuple[int, int]]

    def everyone_has(self, bit: int) -> bool:
        """Return whether members have it for being members."""
        grants, refuses = self.everyone
        return bool(grants & bit) or (not refuses & bit and bool(self.guild.default_role.permissions.value & bit))

    def roles_given(self, bit: int) -> set[int]:
        """Return the roles that have it from the community, where the room does not take it from everyone."""
        if self.everyone[1] & bit:
            return set()
        return {role.id for role in self.guild.roles if role.permissions.value & bit and not role.is_default()}


def _changes(place: Parent) -> _Changes:
    everyone = (0, 0)
    roles: dict[int, tuple[int, int]] = {}
    members: dict[int, tuple[int, int]] = {}
    for target, overwrite in place.overwrites.items():
        grants, refuses = overwrite.pair()
        change = (grants.value, refuses.value)
        if target.id == place.guild.id:
            everyone = change
        elif isinstance(target, discord.Role) or (isinstance(target, discord.Object) and target.type is discord.Role):
            roles[target.id] = change
        else:
            members[target.id] = change
    return _Changes(place.guild, everyone, roles, members)


def _needs_people(place: Parent, bit: int) -> bool:
    """Return whether the room refuses a permission to some who would have it, and who is not told by roles."""
    changes = _changes(place)
    if any(refuses & bit for _, refuses in changes.members.values()):
        return True
    taken = any(refuses & bit for _, refuses in changes.roles.values())
    safe = {key for key, (grants, _) in changes.roles.items() if grants & bit}
    return taken and (changes.everyone_has(bit) or bool(changes.roles_given(bit) - safe))


def _one_by_one(place: Parent, bits: int) -> Whoever | None:
    if not place.guild.chunked:
        return None
    people = place.guild.members
    return Whoever(accounts=frozenset(str(one.id) for one in people if place.permissions_for(one).value & bits == bits))
