"""What others do to members at the Discord double: staff, other programs, and the platform's own AutoMod."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.doubles.discord_state import Channel, Member, Message, User
from tests.doubles.discord_words import stamp
from tests.doubles.discord_world import World

KICK, BAN, UNBAN, MEMBER_UPDATE, MESSAGE_DELETE = 20, 22, 23, 24, 72
AUTOMOD_BLOCK, AUTOMOD_TIMEOUT = 143, 145
BLOCK_MESSAGE, SEND_ALERT, TIMEOUT = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Execution:
    """What AutoMod did once: `action` is Discord's number of it."""

    member: Member
    channel: Channel
    content: str
    action: int
    seconds: int = 0

    def to_json(self) -> dict[str, Any]:
        metadata = {"duration_seconds": self.seconds} if self.action == TIMEOUT else {}
        return {
            "guild_id": str(self.member.guild.id),
            "action": {"type": self.action, "metadata": metadata},
            "rule_id": "77",
            "rule_trigger_type": 1,
            "user_id": str(self.member.id),
            "channel_id": str(self.channel.id),
            "content": self.content,
            "matched_keyword": self.content,
            "matched_content": self.content,
        }


class Staff:
    """The acting half for those who moderate. Whoever acts is allowed to; each act is in the guild's log."""

    world: World

    async def kick(self, by: Member, member: Member) -> None:
        self.world.leave(member)
        self.world.log(by.guild, KICK, by.user, member.id)

    async def ban(self, by: Member, member: Member) -> None:
        self.world.ban(by.guild, member.user, None)
        self.world.log(by.guild, BAN, by.user, member.id)

    async def unban(self, by: Member, user: User) -> None:
        self.world.unban(by.guild, user)
        self.world.log(by.guild, UNBAN, by.user, user.id)

    async def time_out(self, by: Member, member: Member, until: datetime | None) -> None:
        self.world.time_out(member, until)
        self.world.log(by.guild, MEMBER_UPDATE, by.user, member.id, changes=[timeout_change(until)])

    async def take_down(self, by: Member, message: Message) -> None:
        """Delete somebody's message as a moderator."""
        self.world.remove([message])
        options = {"channel_id": str(message.channel.id), "count": "1"}
        self.world.log(by.guild, MESSAGE_DELETE, by.user, message.author.id, options=options)

    async def automod(self, member: Member, channel: Channel, text: str, *, silent_s: int = 0) -> None:
        """Let AutoMod keep a message from being seen and alert the staff; with `silent_s` also silence its author."""
        actions = [BLOCK_MESSAGE, SEND_ALERT, *([TIMEOUT] if silent_s else [])]
        options = {"channel_id": str(channel.id), "auto_moderation_rule_name": "No such words"}
        for action in actions:
            done = Execution(member, channel, text, action, silent_s)
            self.world.tell("AUTO_MODERATION_ACTION_EXECUTION", done, guild=member.guild)
            if (logged := {BLOCK_MESSAGE: AUTOMOD_BLOCK, TIMEOUT: AUTOMOD_TIMEOUT}.get(action)) is not None:
                self.world.log(member.guild, logged, None, member.id, options=options)


def timeout_change(until: datetime | None) -> dict[str, Any]:
    """Return the change of a member that a timeout is in the log."""
    key = {"key": "communication_disabled_until"}
    return key | ({} if until is None else {"new_value": stamp(until)})
