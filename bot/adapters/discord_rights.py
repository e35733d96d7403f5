"""What members of a Discord community may do, reckoned from what the platform answered a moment ago. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from bot.adapters.discord_payload import Payload, moment, number, part, parts, ref, words
from core.domain.moderation.acts import ActKind, Standing

KICK_MEMBERS, BAN_MEMBERS, ADMINISTRATOR = 1 << 1, 1 << 2, 1 << 3
MANAGE_CHANNELS, MANAGE_GUILD, VIEW_AUDIT_LOG = 1 << 4, 1 << 5, 1 << 7
VIEW, SEND, MANAGE_MESSAGES, READ_HISTORY = 1 << 10, 1 << 11, 1 << 13, 1 << 16
MANAGE_ROLES, MANAGE_THREADS, SEND_IN_THREADS, MODERATE_MEMBERS = 1 << 28, 1 << 34, 1 << 38, 1 << 40

_EVERYTHING = (1 << 64) - 1
_LEFT_TO_THE_SILENCED = VIEW | READ_HISTORY
STAFF = KICK_MEMBERS | BAN_MEMBERS | MANAGE_MESSAGES | MANAGE_GUILD | MODERATE_MEMBERS
_THREADS = frozenset({10, 11, 12})
_WRITING = (SEND, SEND_IN_THREADS)
"""What is taken from everyone where nobody is to write. We may only take what we hold ourselves."""
_INHERITED, _GRANTED, _REFUSED = 0, 1, 2
_NOTHING = 8
"""Where both are refused: what two such places make, to the base of three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A community, us in it, and one of its rooms; `room` is empty where it is none of it or we cannot see it.

    `parent`: the channel whose settings count, which for a thread is the one that it hangs on.
    """

    guild: Payload
    us: Payload
    now: datetime
    room: Payload
    parent: Payload

    @property
    def ours(self) -> int:
        """Return what we may do in the community as a whole."""
        return rights_of(self.guild, self.us, self.now)

    @property
    def ours_here(self) -> int:
        """Return what we may do in the room; nothing where we cannot see it."""
        return rights_in(self.guild, self.parent, self.us, self.now)

    @property
    def is_thread(self) -> bool:
        """Whether the room is a thread."""
        return number(self.room, "type") in _THREADS


def account_of(member: Payload) -> str:
    """Return the account of a member."""
    return ref(part(member, "user"), "id")


def rights_of(guild: Payload, member: Payload, now: datetime) -> int:
    """Return what a member may do in the community as a whole, as bits; a silenced one hardly anything."""
    if account_of(member) == ref(guild, "owner_id"):
        return _EVERYTHING
    bits = 0
    for role in _held(guild, member):
        bits |= number(role, "permissions")
    if bits & ADMINISTRATOR:
        return _EVERYTHING
    return bits & _LEFT_TO_THE_SILENCED if _is_silenced(member, now) else bits


def rights_in(guild: Payload, channel: Payload, member: Payload, now: datetime) -> int:
    """Return what a member may do in a channel: what the community grants, changed for everyone, roles, the member."""
    bits = rights_of(guild, member, now)
    if bits == _EVERYTHING or not channel:
        return bits if channel else 0
    changes = {ref(one, "id"): one for one in parts(channel, "permission_overwrites")}
    granted = refused = 0
    for role in _held(guild, member):
        if (change := changes.get(ref(role, "id"))) is not None and ref(role, "id") != ref(guild, "id"):
            granted, refused = granted | number(change, "allow"), refused | number(change, "deny")
    everyone, own = changes.get(ref(guild, "id"), {}), changes.get(account_of(member), {})
    bits = bits & ~number(everyone, "deny") | number(everyone, "allow")
    bits = bits & ~refused | granted
    bits = bits & ~number(own, "deny") | number(own, "allow")
    if _is_silenced(member, now):
        bits &= _LEFT_TO_THE_SILENCED
    return bits if bits & VIEW else 0


def rank_of(guild: Payload, member: Payload) -> tuple[int, int]:
    """Return what members are ordered by: the highest role's place; of two in one place the older role is higher."""
    return max(((number(role, "position"), -number(role, "id")) for role in _held(guild, member)), default=(-1, 0))


def _held(guild: Payload, member: Payload) -> Iterator[Payload]:
    """Yield the roles of a member with the one of everyone, which has the community's own id."""
    held = {*words(member, "roles"), ref(guild, "id")}
    return (role for role in parts(guild, "roles") if ref(role, "id") in held)


def _is_silenced(member: Payload, now: datetime) -> bool:
    until = moment(member, "communication_disabled_until")
    return until is not None and until > now


def standing_of(scene: Scene, member: Payload | None, *, banned: bool, message_there: bool | None) -> Standing:
    """Return how a member stands towards us; None: they are not in the community."""
    allowed = _allowed_in_room(scene) | (_on_members(scene.ours))
    if member is None:
        return Standing(there=False, banned=banned, message_there=message_there, allowed=frozenset(allowed))
    guild, now = scene.guild, scene.now
    owner, account = ref(guild, "owner_id"), account_of(member)
    bits = rights_of(guild, member, now)
    protected = account in (owner, account_of(scene.us)) or bool(bits & ADMINISTRATOR)
    we_own = account_of(scene.us) == owner
    above_us = account == owner or (not we_own and rank_of(guild, member) >= rank_of(guild, scene.us))
    if protected or above_us:
        allowed -= {ActKind.TIMEOUT, ActKind.LIFT_TIMEOUT, ActKind.KICK, ActKind.BAN}
    until = moment(member, "communication_disabled_until")
    return Standing(
        there=True,
        protected=protected,
        staff=bool((bits | rights_in(guild, scene.parent, member, now)) & STAFF),
        above_us=above_us,
        banned=banned,
        timed_out_until=until if until is not None and until > now else None,
        message_there=message_there,
        allowed=frozenset(allowed),
    )


def _on_members(bits: int) -> set[ActKind]:
    needed: Mapping[ActKind, int] = {
        ActKind.TIMEOUT: MODERATE_MEMBERS,
        ActKind.LIFT_TIMEOUT: MODERATE_MEMBERS,
        ActKind.KICK: KICK_MEMBERS,
        ActKind.BAN: BAN_MEMBERS,
        ActKind.UNBAN: BAN_MEMBERS,
        ActKind.HOLD_JOINS: MANAGE_GUILD,
    }
    return {kind for kind, bit in needed.items() if bits & bit}


def _allowed_in_room(scene: Scene) -> set[ActKind]:
    """Return what we may do in the room. Who may write in a thread is set where it hangs, for all of them at once."""
    bits, allowed = scene.ours_here, set[ActKind]()
    if bits & MANAGE_MESSAGES:
        allowed.add(ActKind.DELETE)
    if bits & (MANAGE_THREADS if scene.is_thread else MANAGE_CHANNELS):
        allowed.add(ActKind.SLOW)
    if bits & MANAGE_ROLES and not scene.is_thread:
        allowed.add(ActKind.READ_ONLY)
    return allowed


def writing_in(channel: Payload, guild_ref: str) -> int:
    """Return as one number what a channel says of everyone's writing; 0: nobody writes, 1: the channel says nothing."""
    change, total = _everyones(channel, guild_ref), 0
    for bit in _WRITING:
        said = _REFUSED if number(change, "deny") & bit else _GRANTED if number(change, "allow") & bit else _INHERITED
        total = total * 3 + said
    return 0 if total == _NOTHING else total + 1


def with_writing(channel: Payload, guild_ref: str, writing: int) -> dict[str, object]:
    """Return the change for everyone that makes `writing_in` this number and leaves all else as it is."""
    change, total = _everyones(channel, guild_ref), writing - 1 if writing else _NOTHING
    granted, refused = number(change, "allow"), number(change, "deny")
    for bit in reversed(_WRITING):
        total, said = divmod(total, 3)
        granted = granted | bit if said == _GRANTED else granted & ~bit
        refused = refused | bit if said == _REFUSED else refused & ~bit
    return {"type": 0, "allow": str(granted), "deny": str(refused)}


def _everyones(channel: Payload, guild_ref: str) -> Payload:
    found = (one for one in parts(channel, "permission_overwrites") if ref(one, "id") == guild_ref)
    return next(found, {})
