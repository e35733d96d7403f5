"""What the Discord double remembers: guilds, rooms, people and messages; every change is told to one listener."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from core.ports import Clock
from tests.doubles.discord_words import (
    ALL_PERMISSIONS,
    THREADS,
    ChannelKind,
    MessageFlag,
    MessageKind,
    Permission,
    Snowflakes,
    moment,
)

Listener = Callable[..., None]


@dataclass(slots=True, eq=False)
class User:
    """An account. `accepts_dms` False makes every direct message to it fail with 50007."""

    id: int
    name: str
    bot: bool = False
    accepts_dms: bool = True
    avatar: str | None = None

    @property
    def mention(self) -> str:
        return f"<@{self.id}>"


@dataclass(slots=True, eq=False)
class Role:
    """A named set of permissions in a guild; the higher position stands above."""

    id: int
    name: str
    permissions: int
    position: int
    managed: bool = False

    @property
    def mention(self) -> str:
        return f"<@&{self.id}>"


@dataclass(slots=True, eq=False)
class Member:
    """A user in a guild."""

    user: User
    guild: "Guild"
    roles: list[Role]
    joined_at: datetime
    nick: str | None = None
    timeout_until: datetime | None = None

    @property
    def id(self) -> int:
        return self.user.id

    @property
    def mention(self) -> str:
        return self.user.mention

    @property
    def top_position(self) -> int:
        return max((role.position for role in self.roles), default=0)

    def permissions(self) -> Permission:
        """Return what the member may do in the guild as a whole."""
        if self.user is self.guild.owner.user:
            return ALL_PERMISSIONS
        total = self.guild.everyone.permissions
        for role in self.roles:
            total |= role.permissions
        return ALL_PERMISSIONS if total & Permission.ADMINISTRATOR else Permission(total)

    def permissions_in(self, channel: "Channel") -> Permission:
        """Return what the member may do in a channel: role bits, then the overwrites of everyone, roles, the member."""
        total = self.permissions()
        if total & Permission.ADMINISTRATOR:
            return total
        room = channel.parent if channel.is_thread and channel.parent else channel
        allow = deny = 0
        for role in self.roles:
            if own := room.overwrites.get(role.id):
                allow, deny = allow | own.allow, deny | own.deny
        steps = [room.overwrites.get(self.guild.id), Overwrite(0, False, allow, deny), room.overwrites.get(self.id)]
        for step in filter(None, steps):
            total = Permission(total & ~step.deny | step.allow)
        if channel.kind is ChannelKind.PRIVATE_THREAD and not total & Permission.MANAGE_THREADS:
            total = total if self.id in channel.joined else Permission(0)
        if self.timeout_until is not None and self.timeout_until > self.guild.world.clock.now():
            total &= Permission.VIEW_CHANNEL | Permission.READ_MESSAGE_HISTORY
        return total if total & Permission.VIEW_CHANNEL else Permission(0)


@dataclass(slots=True, eq=False)
class Overwrite:
    """What a channel grants or takes from one role or one member."""

    target_id: int
    is_member: bool
    allow: int = 0
    deny: int = 0


@dataclass(slots=True, eq=False)
class Attachment:
    """A file at the CDN."""

    id: int
    filename: str
    data: bytes
    content_type: str
    channel_id: int


@dataclass(slots=True, eq=False)
class Message:
    """A stored message; `deleted` once it is gone, so that tests may keep a reference."""

    id: int
    channel: "Channel"
    author: User
    content: str
    kind: MessageKind = MessageKind.DEFAULT
    nonce: str | int | None = None
    embeds: list[dict[str, Any]] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    components: list[dict[str, Any]] = field(default_factory=list)
    reply_to: "Message | None" = None
    snapshot: "Message | None" = None
    mentions: list[User] = field(default_factory=list)
    mention_roles: list[int] = field(default_factory=list)
    mention_everyone: bool = False
    flags: int = 0
    webhook_id: int | None = None
    application_id: int | None = None
    interaction: Any = None
    thread: "Channel | None" = None
    edited_at: datetime | None = None
    reactions: dict[str, list[User]] = field(default_factory=dict)
    deleted: bool = False

    @property
    def created_at(self) -> datetime:
        return moment(self.id)

    @property
    def ephemeral(self) -> bool:
        return bool(self.flags & MessageFlag.EPHEMERAL)


@dataclass(slots=True, eq=False)
class Channel:
    """A room of any kind: channel, forum, thread or direct channel."""

    id: int
    world: "Register"
    kind: ChannelKind
    name: str = ""
    guild: "Guild | None" = None
    parent: "Channel | None" = None
    overwrites: dict[int, Overwrite] = field(default_factory=dict)
    recipient: User | None = None
    owner_id: int = 0
    archived: bool = False
    locked: bool = False
    changed_at: datetime | None = None
    joined: set[int] = field(default_factory=set)
    messages: dict[int, Message] = field(default_factory=dict)
    last_message_id: int | None = None
    slow_s: int = 0

    @property
    def is_thread(self) -> bool:
        return self.kind in THREADS

    @property
    def mention(self) -> str:
        return f"<#{self.id}>"

    def allows(self, user: User) -> Permission:
        """Return what a user may do here; nothing for one who is not a member."""
        if self.guild is None:
            return ALL_PERMISSIONS if user in (self.recipient, self.world.bot) else Permission(0)
        member = self.guild.members.get(user.id)
        return Permission(0) if member is None else member.permissions_in(self)

    def history(self) -> list[Message]:
        """Return what is stored here, oldest first."""
        return [self.messages[key] for key in sorted(self.messages)]


@dataclass(slots=True, eq=False)
class Guild:
    """A server. Its builders work before anyone is connected and announce themselves afterwards."""

    id: int
    name: str
    world: "Register"
    everyone: Role
    owner: Member = field(init=False)
    me: Member = field(init=False)
    roles: dict[int, Role] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    threads: dict[int, Channel] = field(default_factory=dict)
    bans: dict[int, str | None] = field(default_factory=dict)
    blocked_words: set[str] = field(default_factory=set)
    unavailable: bool = False
    returning: bool = False
    verification_level: int = 0

    def add_role(self, name: str, permissions: int = 0, *, managed: bool = False) -> Role:
        """Add a role above all others but the bot's own, which stays on top."""
        role = Role(self.world.ids.next(), name, permissions, len(self.roles), managed)
        self.roles[role.id] = role
        if managed:
            role.position = 1_000
        self.world.tell("GUILD_ROLE_CREATE", role, guild=self)
        return role

    def add_member(self, who: str | User, roles: Sequence[Role] = (), *, bot: bool = False) -> Member:
        """Let someone in: a new account under a name, or one that exists already."""
        user = self.world.add_user(who, bot=bot) if isinstance(who, str) else who
        member = Member(user, self, list(roles), self.world.clock.now())
        self.members[user.id] = member
        self.world.tell("GUILD_MEMBER_ADD", member, guild=self)
        return member

    def add_channel(
        self,
        name: str,
        kind: str | ChannelKind = ChannelKind.TEXT,
        *,
        private_to: Iterable[Role | Member] | None = None,
        parent: Channel | None = None,
        hidden_from_bot: bool = False,
    ) -> Channel:
        """Add a channel of a kind such as "text", "news", "voice", "forum" or "category".

        With `private_to` only these roles and members see it, and the bot, unless `hidden_from_bot`.
        """
        kind = ChannelKind[kind.upper()] if isinstance(kind, str) else kind
        channel = Channel(self.world.ids.next(), self.world, kind, name, self, parent)
        view = Permission.VIEW_CHANNEL
        if private_to is not None or hidden_from_bot:
            channel.overwrites[self.id] = Overwrite(self.id, False, deny=view if private_to is not None else 0)
            channel.overwrites[self.me.id] = Overwrite(self.me.id, True, *((0, view) if hidden_from_bot else (view, 0)))
            for target in private_to or ():
                channel.overwrites[target.id] = Overwrite(target.id, isinstance(target, Member), allow=view)
        self.channels[channel.id] = self.world.channels[channel.id] = channel
        self.world.tell("CHANNEL_CREATE", channel, guild=self, channel=channel)
        return channel


class Register:
    """All that exists, by id, and the one who is told of changes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ids = Snowflakes(clock)
        self.users: dict[int, User] = {}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.listener: Listener = lambda *_args, **_more: None
        self.bot = self.add_user("VoidBot", bot=True)

    def tell(self, event: str, subject: Any, **where: Any) -> None:
        """Say what happened to whoever listens: the gateway."""
        self.listener(event, subject, **where)

    def add_user(self, name: str, *, bot: bool = False) -> User:
        user = User(self.ids.next(), name, bot)
        self.users[user.id] = user
        return user
