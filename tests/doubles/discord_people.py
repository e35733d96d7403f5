"""What people do at the Discord double: they speak, edit, press, join and leave; a test never writes JSON for it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tests.doubles.discord_bodies import CONTENT_LIMIT, content_type_of
from tests.doubles.discord_commands import CommandRoutes
from tests.doubles.discord_interactions import Interaction, InteractionKind, Interactions
from tests.doubles.discord_options import command_data, component_in, filled_form, focused
from tests.doubles.discord_state import Attachment, Channel, Guild, Member, Message, Overwrite, Role, User
from tests.doubles.discord_words import MessageFlag, MessageKind, Permission
from tests.doubles.discord_world import World

BUTTON = 2
"""The type of a button among components."""
Person = Member | User


def account(who: Person) -> User:
    return who.user if isinstance(who, Member) else who


class People:
    """The acting half of the server. Whoever acts must be allowed to, or the test is wrong and fails."""

    def __init__(self, world: World, interactions: Interactions, commands: CommandRoutes) -> None:
        self.world = world
        self._interactions = interactions
        self._commands = commands

    async def say(
        self,
        author: Person,
        channel: Channel,
        text: str,
        *,
        reply_to: Message | None = None,
        ping: bool = True,
        attachments: Iterable[tuple[str, bytes]] = (),
        sent_at: datetime | None = None,
    ) -> Message:
        """Send a message and return it as stored.

        Like the real client, a text over the limit becomes the file `message.txt`. `ping` False: the reply does
        not mention its target. `sent_at` puts the message into the past, without keeping the order of ids.
        """
        user = account(author)
        self._check(user, channel)
        files = [*attachments]
        if len(text) > CONTENT_LIMIT:
            files, text = [*files, ("message.txt", text.encode())], ""
        fields = self.world.mentions_in(channel, text, None, user)
        if reply_to is not None:
            fields |= {"kind": MessageKind.REPLY, "reply_to": reply_to}
            if ping and reply_to.author not in fields["mentions"]:
                fields["mentions"].append(reply_to.author)
        stored = [self.world.attach(channel, name, data, content_type_of(name)) for name, data in files]
        return self.world.post(channel, user, text, sent_at=sent_at, attachments=stored, **fields)

    def _check(self, user: User, channel: Channel, permission: Permission | None = None) -> None:
        write = Permission.SEND_MESSAGES_IN_THREADS if channel.is_thread else Permission.SEND_MESSAGES
        allowed = channel.allows(user) & (permission or write)
        open_to = not channel.locked or channel.allows(user) & Permission.MANAGE_THREADS
        assert allowed and open_to, f"{user.name} may not do this in {channel.name or 'this direct room'}"

    async def edit(self, message: Message, text: str) -> None:
        fields = self.world.mentions_in(message.channel, text, None, message.author)
        self.world.change(message, content=text, **fields)

    async def preview(self, message: Message, url: str) -> None:
        """Let the platform add the preview of a link: an update without an edit."""
        self.world.change(message, edited=False, embeds=[{"type": "link", "url": url, "title": "A page"}])

    async def forward(self, author: Person, message: Message, channel: Channel) -> Message:
        """Forward a message: the new one has no text of its own, only a snapshot."""
        user = account(author)
        self._check(user, channel)
        return self.world.post(channel, user, "", snapshot=message, flags=MessageFlag.HAS_SNAPSHOT)

    async def webhook_say(
        self, channel: Channel, name: str, text: str, application_id: int | None = None, webhook_id: int | None = None
    ) -> Message:
        """Post as a webhook, a new one unless its id is given; with the id of an application, as one of its own."""
        poster = User(webhook_id or self.world.ids.next(), name, bot=True)
        fields = self.world.mentions_in(channel, text, None, poster)
        return self.world.post(channel, poster, text, webhook_id=poster.id, application_id=application_id, **fields)

    async def delete(self, message: Message) -> None:
        self.world.remove([message])

    async def bulk_delete(self, messages: Sequence[Message]) -> None:
        """Delete messages of one channel in one event."""
        self.world.remove(messages, bulk=True)

    async def react(self, who: Person, message: Message, emoji: str) -> None:
        self.world.react(message, account(who), emoji)

    async def unreact(self, who: Person, message: Message, emoji: str) -> None:
        self.world.unreact(message, account(who), emoji)

    async def type(self, who: Person, channel: Channel) -> None:
        self.world.tell("TYPING_START", (channel, account(who)), guild=channel.guild, channel=channel)

    async def slash(
        self,
        who: Person,
        channel: Channel,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        stale: bool = False,
    ) -> Interaction:
        """Use a command; `name` may be a path such as "void cases". Values decide the types of options.

        It has to be registered, unless `stale`: then an old client still offers it.
        """
        self._check(account(who), channel, Permission.VIEW_CHANNEL)
        data = self._command(channel, name, options or {}, stale=stale)
        return self._interactions.start(InteractionKind.COMMAND, account(who), channel, data)

    async def autocomplete(
        self,
        who: Person,
        channel: Channel,
        name: str,
        option: str,
        typed: str,
        options: Mapping[str, Any] | None = None,
    ) -> Interaction:
        """Type into an option of a command, with others filled in before."""
        data = self._command(channel, name, {**(options or {}), option: typed}, stale=False)
        focused(data, option)
        return self._interactions.start(InteractionKind.AUTOCOMPLETE, account(who), channel, data)

    def _command(self, channel: Channel, name: str, options: Mapping[str, Any], *, stale: bool) -> dict[str, Any]:
        guild_id = channel.guild.id if channel.guild else None
        registered = self._commands.find(guild_id, name.split()[0])
        assert registered or stale, f"the bot has no command /{name.split()[0]} here"
        key = registered["id"] if registered else str(self.world.ids.next())
        return command_data(key, name, options)

    async def click(
        self,
        who: Person,
        message: Message,
        custom_id: str,
        values: Sequence[str] | None = None,
        *,
        stale: bool = False,
    ) -> Interaction:
        """Press a button, or choose `values` in a select menu; `stale`: the client has not heard that it is gone."""
        self._check(account(who), message.channel, Permission.VIEW_CHANNEL)
        component = {"type": BUTTON} if stale else component_in(message.components, custom_id)
        assert component is not None and not component.get("disabled"), f"{custom_id} cannot be pressed"
        data: dict[str, Any] = {"custom_id": custom_id, "component_type": component["type"]}
        if values is not None:
            data["values"] = list(values)
        return self._interactions.start(InteractionKind.COMPONENT, account(who), message.channel, data, message)

    async def submit_modal(self, opened: Interaction, values: Mapping[str, str]) -> Interaction:
        """Fill in the form that an interaction opened, by the custom ids of its inputs, and send it off."""
        assert opened.modal is not None, "no form was opened"
        data = {"custom_id": opened.modal["custom_id"], "components": filled_form(opened.modal["components"], values)}
        return self._interactions.start(InteractionKind.MODAL, opened.user, opened.channel, data, opened.message)

    async def join(self, guild: Guild, who: str | User, roles: Sequence[Role] = ()) -> Member:
        return guild.add_member(who, roles)

    async def leave(self, member: Member) -> None:
        self.world.leave(member)

    async def rename(self, member: Member, nick: str | None) -> None:
        member.nick = nick
        self.world.tell("GUILD_MEMBER_UPDATE", member, guild=member.guild)

    async def set_roles(self, member: Member, roles: Sequence[Role]) -> None:
        member.roles = list(roles)
        self.world.tell("GUILD_MEMBER_UPDATE", member, guild=member.guild)

    async def set_permissions(self, guild: Guild, role: Role, permissions: int) -> None:
        role.permissions = permissions
        self.world.tell("GUILD_ROLE_UPDATE", role, guild=guild)

    async def delete_role(self, guild: Guild, role: Role) -> None:
        """Delete a role; members lose it without a word of their own."""
        del guild.roles[role.id]
        for member in guild.members.values():
            member.roles = [one for one in member.roles if one is not role]
        self.world.tell("GUILD_ROLE_DELETE", role, guild=guild)

    async def set_overwrite(self, channel: Channel, target: Role | Member, allow: int = 0, deny: int = 0) -> None:
        """Set what a channel grants and takes; nothing at all removes the overwrite."""
        assert channel.guild is not None, "direct channels have no overwrites"
        saw = bool(channel.allows(self.world.bot))
        channel.overwrites[target.id] = Overwrite(target.id, isinstance(target, Member), allow, deny)
        if not allow | deny:
            del channel.overwrites[target.id]
        self.world.tell("CHANNEL_UPDATE", channel, guild=channel.guild, channel=channel)
        if not saw and channel.allows(self.world.bot):
            self.world.tell("THREAD_LIST_SYNC", channel, guild=channel.guild, channel=channel)

    async def rename_channel(self, channel: Channel, name: str) -> None:
        channel.name = name
        self.world.tell("CHANNEL_UPDATE", channel, guild=channel.guild, channel=channel)

    async def delete_channel(self, channel: Channel) -> None:
        """Delete a channel or a thread."""
        self.world.delete_channel(channel)

    async def create_thread(
        self,
        who: Person,
        parent: Channel,
        name: str,
        *,
        starter: Message | None = None,
        text: str | None = None,
        private: bool = False,
        attachments: Iterable[tuple[str, bytes]] = (),
    ) -> Channel:
        """Open a thread on a message, without one, or in a forum, where `text` is the post's first message."""
        user = account(who)
        thread = self.world.start_thread(parent, name, user, starter=starter, private=private)
        if text is not None:
            files: list[Attachment] = [
                self.world.attach(thread, filename, data, content_type_of(filename)) for filename, data in attachments
            ]
            fields = self.world.mentions_in(thread, text, None, user)
            self.world.post(thread, user, text, id=thread.id, attachments=files, **fields)
        return thread

    async def add_to_thread(self, thread: Channel, who: Person) -> None:
        """Take someone into a thread; the bot then learns of one that was private."""
        self.world.join_thread(thread, account(who))

    async def archive_thread(self, thread: Channel, *, locked: bool = False) -> None:
        """Put a thread to sleep; the next message wakes it, unless it is locked."""
        self.world.change_thread(thread, archived=True, locked=locked)

    async def outage(self, guild: Guild) -> None:
        """Make a guild unavailable, which is not the same as being removed from it."""
        guild.unavailable = True
        self.world.tell("GUILD_DELETE", guild, guild=guild)

    async def recover(self, guild: Guild) -> None:
        """End an outage."""
        guild.unavailable, guild.returning = False, True
        self.world.tell("GUILD_CREATE", guild, guild=guild)
        guild.returning = False

    async def remove_bot(self, guild: Guild) -> None:
        """Throw the bot out of a guild."""
        self.world.tell("GUILD_DELETE", guild, guild=guild)
        for channel in [*guild.channels.values(), *guild.threads.values()]:
            self.world.channels.pop(channel.id, None)
        del self.world.guilds[guild.id]

    def dm(self, who: Person) -> Channel:
        """Return the direct room between a person and the bot."""
        return self.world.dm(account(who))

    def messages(self, channel: Channel) -> list[Message]:
        """Return what is stored in a channel, oldest first."""
        return channel.history()

    def said_by_bot(self, channel: Channel) -> list[str]:
        """Return the texts that the bot has in a channel now, oldest first."""
        return [message.content for message in channel.history() if message.author is self.world.bot]
