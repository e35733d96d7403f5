"""Acts at Discord, through the real library and real sockets: what is done, what is refused, what is seen before."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest

from bot.adapters.discord_admin import LONGEST_TIMEOUT, PACE, DiscordAdmin, pace_of
from bot.adapters.discord_gateway import DiscordSettings
from bot.adapters.discord_natives import Natives
from bot.adapters.discord_rest import Rest, reason_within
from bot.adapters.limiter import Limiter
from core.act_ports import Acting
from core.domain.errors import Unavailable
from core.domain.ids import RoomKey
from core.domain.moderation import refusals
from core.domain.moderation.acts import REASON_CHARS, Act, ActKind, Done, NativeKind, Standing
from core.ports import Ambiguous, RetryAfter, SendRefused, Unsent
from tests.doubles.discord_server import DiscordServer
from tests.doubles.discord_state import Channel, Guild, Member, Message
from tests.doubles.discord_words import EVERYONE, Permission
from tests.fakes import ManualClock
from tests.platform.discord_house import open_house

P = Permission
RIGHTS = (
    P.KICK_MEMBERS | P.BAN_MEMBERS | P.MODERATE_MEMBERS | P.MANAGE_MESSAGES | P.MANAGE_ROLES | P.MANAGE_THREADS
    | P.MANAGE_CHANNELS | P.MANAGE_GUILD | P.VIEW_AUDIT_LOG
)  # fmt: skip
ON_MEMBERS = frozenset({ActKind.TIMEOUT, ActKind.LIFT_TIMEOUT, ActKind.KICK, ActKind.BAN})
REASON = "VoidBot case 12, rule scam v3, by Ada"


@dataclass(frozen=True, slots=True)
class Court:
    """A community with a member to act on, and what acts."""

    server: DiscordServer
    clock: ManualClock
    guild: Guild
    room: Channel
    bea: Member
    admin: DiscordAdmin

    def act(self, kind: ActKind, who: Member | None = None, **more: object) -> Act:
        about = Act(
            kind=kind,
            community_ref=str(self.guild.id),
            room=RoomKey("discord", str(self.room.id)),
            nonce="n",
            reason=REASON,
            account_ref=str((who or self.bea).id),
        )
        return replace(about, **more)  # type: ignore[arg-type]  # a test's own values

    async def look(self, who: Member | None = None, **more: object) -> Standing:
        return await self.admin.look(self.act(ActKind.DELETE, who, **more))

    async def says(self, text: str = "buy now") -> Message:
        return await self.server.say(self.bea, self.room, text)


@pytest.fixture
async def court() -> AsyncIterator[Court]:
    clock = ManualClock()
    async with DiscordServer(clock) as server:
        guild = server.add_guild("Workshop", RIGHTS)
        room, bea = guild.add_channel("general"), guild.add_member("Bea")
        DiscordSettings(token=server.token, api_url=server.api_url).apply()
        rest = Rest()
        await rest.open(server.token)
        limiter = Limiter(clock, 1, 1, pace_of=pace_of)
        yield Court(
            server, clock, guild, room, bea, DiscordAdmin(rest, limiter, clock, Natives(None, clock, lambda: ""))
        )
        await rest.close()


async def test_a_message_is_deleted_once_and_the_log_says_why(court: Court) -> None:
    said = await court.says()
    act = court.act(ActKind.DELETE, message_ref=str(said.id))
    assert (await court.look(message_ref=str(said.id))).message_there
    assert await court.admin.do(act) == Done()
    assert said.deleted
    assert (await court.look(message_ref=str(said.id))).message_there is False
    assert await court.admin.do(act) == Done(changed=False)
    assert [(one.action, one.reason) for one in court.server.log.entries] == [(72, REASON)]


@pytest.mark.parametrize(("days", "kept"), [(1, timedelta(days=1)), (40, LONGEST_TIMEOUT), (None, LONGEST_TIMEOUT)])
async def test_timeout_limit(court: Court, days: int | None, kept: timedelta) -> None:
    until = None if days is None else court.clock.now() + timedelta(days=days)
    assert await court.admin.do(court.act(ActKind.TIMEOUT, until=until)) == Done()
    seen = (await court.look()).timed_out_until
    assert seen is not None and abs(seen - court.clock.now() - kept) < timedelta(minutes=2)
    assert await court.admin.do(court.act(ActKind.LIFT_TIMEOUT)) == Done()
    assert (await court.look()).timed_out_until is None


async def test_a_term_that_is_over_silences_nobody(court: Court) -> None:
    over = court.act(ActKind.TIMEOUT, until=court.clock.now() - timedelta(seconds=1))
    assert await court.admin.do(over) == SendRefused(refusals.TERM_OVER)
    assert court.server.called("PATCH", "/members/") == []


async def test_who_is_kicked_is_gone_and_who_has_left_is_not_missed(court: Court) -> None:
    assert await court.admin.do(court.act(ActKind.KICK)) == Done()
    assert court.bea.id not in court.guild.members and not (await court.look()).there
    assert await court.admin.do(court.act(ActKind.KICK)) == Done(changed=False)
    assert await court.admin.do(court.act(ActKind.LIFT_TIMEOUT)) == Done(changed=False)
    silenced = court.act(ActKind.TIMEOUT, until=court.clock.now() + timedelta(hours=1))
    assert await court.admin.do(silenced) == SendRefused(refusals.NOT_THERE)


async def test_a_ban_takes_no_words_along_and_is_lifted_once(court: Court) -> None:
    said = await court.says()
    assert not court.admin.ban_removes_words
    assert await court.admin.do(court.act(ActKind.BAN)) == Done()
    assert (court.guild.bans, said.deleted) == ({court.bea.id: REASON}, False)
    assert (await court.look()) == Standing(there=False, banned=True, allowed=frozenset(ActKind), message_there=None)
    assert await court.admin.do(court.act(ActKind.UNBAN)) == Done()
    assert await court.admin.do(court.act(ActKind.UNBAN)) == Done(changed=False)
    assert not court.guild.bans


async def test_what_a_raid_changes_is_put_back_as_it_was(court: Court) -> None:
    key = RoomKey("discord", str(court.room.id))
    await court.server.set_overwrite(court.room, court.guild.everyone, allow=P.ADD_REACTIONS | P.SEND_MESSAGES)
    before = await court.admin.settings(key, str(court.guild.id))
    assert not before.read_only
    for kind, setting in ((ActKind.SLOW, 30), (ActKind.HOLD_JOINS, 3), (ActKind.READ_ONLY, 0)):
        assert await court.admin.do(court.act(kind, setting=setting)) == Done()
    held = await court.admin.settings(key, str(court.guild.id))
    assert (held.slow_s, held.verification, held.read_only) == (30, 3, True)
    assert not court.room.allows(court.bea.user) & P.SEND_MESSAGES
    assert court.room.allows(court.bea.user) & P.ADD_REACTIONS
    assert await court.admin.do(court.act(ActKind.READ_ONLY, setting=0)) == Done(changed=False)
    back = (
        (ActKind.SLOW, before.slow_s),
        (ActKind.HOLD_JOINS, before.verification),
        (ActKind.READ_ONLY, before.writing),
    )
    for kind, setting in back:
        assert await court.admin.do(court.act(kind, setting=setting)) == Done()
    assert await court.admin.settings(key, str(court.guild.id)) == before
    assert court.room.overwrites[court.guild.id].allow == P.ADD_REACTIONS | P.SEND_MESSAGES


async def test_a_thread_is_slowed_by_itself_and_never_closed_alone(court: Court) -> None:
    thread = await court.server.create_thread(court.bea, court.room, "aside")
    inside = RoomKey("discord", str(thread.id))
    assert ActKind.READ_ONLY not in (await court.look(room=inside)).allowed
    assert await court.admin.do(court.act(ActKind.SLOW, setting=10, room=inside)) == Done()
    assert (thread.slow_s, court.room.slow_s) == (10, 0)


def test_audit_reason_is_cut_after_encoding() -> None:
    for sign, size in (("a", 1), (" é", 7), ("字", 9), ("🎩", 12), ("%", 3)):
        kept = reason_within(sign * 600, REASON_CHARS)
        assert REASON_CHARS - size < len(quote(kept, safe="/ ")) <= REASON_CHARS
    assert reason_within(" two\nlines ", REASON_CHARS) == "two lines"


async def test_a_long_reason_arrives_whole_up_to_the_limit(court: Court) -> None:
    assert await court.admin.do(court.act(ActKind.KICK, reason="ж" * 600)) == Done()
    assert court.server.log.entries[0].reason == "ж" * (REASON_CHARS // 6)


async def test_a_plain_member_can_be_acted_on(court: Court) -> None:
    assert await court.look() == Standing(there=True, allowed=frozenset(ActKind))


async def test_owner_administrators_and_we_are_protected(court: Court) -> None:
    chief = court.guild.add_member("Chief", [court.guild.add_role("chiefs", P.ADMINISTRATOR)])
    for who in (court.guild.owner, chief, court.guild.me):
        seen = await court.look(who)
        assert seen.protected and seen.staff and not seen.allowed & ON_MEMBERS, who.user.name


async def test_who_stands_above_us_cannot_be_touched(court: Court) -> None:
    high, level, low = (court.guild.add_role(name) for name in ("high", "level", "low"))
    ours = court.guild.me.roles[0]
    high.position, level.position, low.position = ours.position + 1, ours.position, ours.position - 1
    seen = {role.name: await court.look(court.guild.add_member(role.name, [role])) for role in (high, level, low)}
    assert [seen[name].above_us for name in ("high", "level", "low")] == [
        True,
        False,
        False,
    ]  # the older role is higher
    ours.id, level.id = level.id, ours.id
    assert not seen["high"].allowed & ON_MEMBERS and seen["high"].allowed and not seen["high"].protected


@pytest.mark.parametrize("right", [P.KICK_MEMBERS, P.MODERATE_MEMBERS, P.MANAGE_MESSAGES])
async def test_who_may_moderate_is_staff(court: Court, right: Permission) -> None:
    helper = court.guild.add_member("Cara", [court.guild.add_role("helpers", right)])
    assert (await court.look(helper)).staff and not (await court.look()).staff


async def test_who_moderates_in_one_room_is_staff_there(court: Court) -> None:
    await court.server.set_overwrite(court.room, court.bea, allow=P.MANAGE_MESSAGES)
    assert (await court.look()).staff


NEEDS = {
    P.MANAGE_MESSAGES: {ActKind.DELETE},
    P.MODERATE_MEMBERS: {ActKind.TIMEOUT, ActKind.LIFT_TIMEOUT},
    P.KICK_MEMBERS: {ActKind.KICK},
    P.BAN_MEMBERS: {ActKind.BAN, ActKind.UNBAN},
    P.MANAGE_CHANNELS: {ActKind.SLOW},
    P.MANAGE_GUILD: {ActKind.HOLD_JOINS},
    P.MANAGE_ROLES: {ActKind.READ_ONLY},
}


async def test_each_right_is_missed_before_anything_is_tried(court: Court) -> None:
    said = await court.says()
    for right, kinds in NEEDS.items():
        court.guild.me.roles[0].permissions = RIGHTS & ~right
        seen = await court.look(message_ref=str(said.id))
        assert seen.allowed == frozenset(ActKind) - kinds and seen.message_there, right.name
    assert court.server.invalid_answers == 0


async def test_what_a_room_takes_from_us_counts_in_that_room(court: Court) -> None:
    await court.server.set_overwrite(court.room, court.guild.me, deny=P.MANAGE_MESSAGES | P.READ_MESSAGE_HISTORY)
    seen = await court.look(message_ref="1")
    assert ActKind.DELETE not in seen.allowed and ActKind.TIMEOUT in seen.allowed and seen.message_there is None
    await court.server.set_overwrite(court.room, court.guild.me, deny=P.VIEW_CHANNEL)
    assert not (await court.look()).allowed & {ActKind.DELETE, ActKind.SLOW, ActKind.READ_ONLY}


async def test_rights_of_one_community_are_none_in_another(court: Court) -> None:
    other = court.server.add_guild("Elsewhere", RIGHTS)
    foreign = RoomKey("discord", str(other.add_channel("hall").id))
    assert ActKind.DELETE not in (await court.look(room=foreign)).allowed


async def test_while_we_are_silenced_we_may_do_nothing(court: Court) -> None:
    court.guild.me.timeout_until = court.clock.now() + timedelta(hours=1)
    assert not (await court.look()).allowed


@pytest.mark.parametrize("community", ["1", "dm:9"])
async def test_where_we_are_not_there_is_nobody(court: Court, community: str) -> None:
    assert await court.look(community_ref=community) == Standing(there=False)


async def test_words_of_webhooks_can_be_deleted_and_nothing_else_be_asked(court: Court) -> None:
    said = await court.server.webhook_say(court.room, "Feed", "buy now")
    seen = await court.look(account_ref="webhook:5:abc", message_ref=str(said.id))
    assert (seen.there, seen.message_there, ActKind.DELETE in seen.allowed) == (False, True, True)


async def test_a_right_lost_meanwhile_is_a_refusal(court: Court) -> None:
    court.guild.me.roles[0].permissions = 0
    for kind in (ActKind.KICK, ActKind.BAN, ActKind.TIMEOUT, ActKind.HOLD_JOINS, ActKind.SLOW):
        assert await court.admin.do(court.act(kind, setting=1)) == SendRefused(refusals.NO_RIGHT), kind
    unknown = court.act(ActKind.BAN, account_ref="5")
    assert await court.admin.do(unknown) == SendRefused(refusals.UNKNOWN_MEMBER)
    assert await court.admin.do(court.act(ActKind.BAN, by_channel=True)) == SendRefused(refusals.UNSUPPORTED)
    hidden = court.act(ActKind.READ_ONLY, room=RoomKey("discord", "5"))
    assert await court.admin.do(hidden) == SendRefused(refusals.ROOM_GONE)


async def test_a_wait_is_told_and_holds_the_community(court: Court) -> None:
    court.server.fault("unannounced_429", match="DELETE *", retry_after=33)
    assert await court.admin.do(court.act(ActKind.KICK)) == RetryAfter(33)
    asked = len(court.server.calls)
    again = await court.admin.do(court.act(ActKind.KICK))
    assert isinstance(again, RetryAfter) and 20 < again.seconds <= 33 and len(court.server.calls) == asked


async def test_an_answer_that_got_lost_is_in_doubt_until_one_looks(court: Court) -> None:
    court.server.fault("status_after", match="PUT */bans/*", status=503)
    assert isinstance(await court.admin.do(court.act(ActKind.BAN)), Ambiguous)
    assert (await court.look()).banned
    court.server.fault("status_before", match="DELETE */bans/*", status=503)
    assert isinstance(await court.admin.do(court.act(ActKind.UNBAN)), Ambiguous)
    assert (await court.look()).banned


async def test_what_cannot_be_looked_at_is_not_guessed(court: Court) -> None:
    court.server.fault("status_before", match="GET */members/*", status=503)
    with pytest.raises(Unavailable):
        await court.look()
    court.server.fault("status_before", match="GET /channels/*", status=503)
    assert isinstance(await court.admin.do(court.act(ActKind.READ_ONLY)), Unsent)


async def test_before_the_login_nothing_is_sent(court: Court) -> None:
    closed = DiscordAdmin(Rest(), Limiter(court.clock, 1, 1), court.clock, Natives(None, court.clock, lambda: ""))
    assert isinstance(await closed.do(court.act(ActKind.KICK)), Unsent)
    with pytest.raises(Unavailable):
        await closed.look(court.act(ActKind.KICK))


async def test_a_burst_of_acts_is_slowed(court: Court) -> None:
    results = [await court.admin.do(court.act(ActKind.LIFT_TIMEOUT)) for _ in range(int(PACE.burst))]
    assert set(results) == {Done()}


async def test_the_direct_room_of_a_member_is_found(court: Court) -> None:
    key = await court.admin.open_direct(str(court.bea.id))
    assert key == RoomKey("discord", str(court.server.dm(court.bea).id))
    assert await court.admin.open_direct("5") is None and await court.admin.open_direct("webhook:5:a") is None


async def test_the_log_is_read_from_its_oldest_end_without_what_is_ours(court: Court) -> None:
    began, log = court.clock.now(), court.server.log
    robo = court.guild.add_member("Robo", bot=True)
    log.note(court.guild, 22, court.guild.owner.user, court.bea.id, age=timedelta(days=50))
    log.note(court.guild, 22, court.guild.owner.user, court.bea.id, age=timedelta(days=44))
    for _ in range(120):
        log.note(court.guild, 11, court.guild.owner.user, court.room.id)
    await court.admin.do(court.act(ActKind.TIMEOUT, until=began + timedelta(hours=1)))
    await court.server.kick(robo, court.bea)
    court.guild.bans[court.bea.id] = None
    await court.server.unban(court.guild.owner, court.bea.user)
    found = await court.admin.native_since(str(court.guild.id), began - timedelta(days=60))
    assert [(one.kind, one.by_ref, one.by_bot) for one in found] == [
        (NativeKind.BANNED, str(court.guild.owner.id), False),
        (NativeKind.KICKED, str(robo.id), True),
        (NativeKind.UNBANNED, str(court.guild.owner.id), False),
    ]
    assert {one.account_ref for one in found} == {str(court.bea.id)} and len({one.event_ref for one in found}) == 3
    pages = [call.query["after"] for call in court.server.called("GET", "/audit-logs")]
    assert len(pages) == 2 and pages == sorted(pages)
    assert await court.admin.native_since(str(court.guild.id), found[-1].at) == []


async def test_a_log_that_we_may_not_see_is_not_asked_for(court: Court) -> None:
    court.guild.me.roles[0].permissions = EVERYONE
    assert (
        await court.admin.native_since(str(court.guild.id), datetime.fromtimestamp(0, court.clock.now().tzinfo)) == ()
    )
    assert court.server.called("GET", "/audit-logs") == []


async def test_joins_and_acts_of_others_are_told_as_they_happen() -> None:
    async with open_house() as house:
        house.guild.me.roles[0].permissions = RIGHTS
        moderator = house.guild.add_member("Mod")
        house.ada.user.avatar = "a1"
        until = house.clock.now() + timedelta(hours=1)
        async with house.running() as chat:
            assert isinstance(chat, Acting)
            bob = await house.server.join(house.guild, "Bob")
            said = await house.server.say(house.ada, house.room, "hello")
            await house.server.take_down(moderator, said)
            await house.server.time_out(moderator, house.ada, until)
            await house.server.time_out(moderator, house.ada, None)
            await house.server.automod(house.ada, house.room, "free gifts", silent_s=60)
            await house.server.ban(moderator, bob)
            key = RoomKey("discord", str(house.room.id))
            ours = Act(
                kind=ActKind.BAN, community_ref=str(house.guild.id), room=key, nonce="n", reason="x",
                account_ref=str(house.ada.id),
            )  # fmt: skip
            assert await chat.acts.do(ours) == Done()
            await house.server.unban(moderator, bob.user)
            await house.server.until(lambda: len(house.events.acts) >= 7)
            (joined,) = house.events.joins
            told = house.events.acts
            again = await chat.acts.native_since(str(house.guild.id), house.clock.now() - timedelta(minutes=5))
    assert (joined.account_ref, joined.name, joined.pictured) == (str(bob.id), "Bob", False)
    assert joined.account_made_at is not None and abs(joined.at - joined.account_made_at) < timedelta(seconds=5)
    assert [one.kind for one in told] == [
        NativeKind.DELETED, NativeKind.TIMED_OUT, NativeKind.TIMEOUT_LIFTED, NativeKind.BLOCKED, NativeKind.TIMED_OUT,
        NativeKind.BANNED, NativeKind.UNBANNED,
    ]  # fmt: skip
    blocked = told[3]
    assert (blocked.text, blocked.by_ref, blocked.room, blocked.account_ref) == (
        "free gifts",
        "",
        key,
        str(house.ada.id),
    )
    assert told[1].until is not None and abs(told[1].until - until) < timedelta(seconds=1)
    assert {one.by_ref for one in told if one not in (told[3], told[4])} == {str(moderator.id)}
    # Read back, the log gives each once more under the same name, and what AutoMod did not at all.
    assert [one.event_ref for one in again] == [one.event_ref for one in told if one.by_ref]


async def test_without_the_rights_acts_are_not_told_and_joins_are() -> None:
    async with open_house() as house:
        house.guild.me.roles[0].permissions = int(P.SEND_MESSAGES)
        async with house.running():
            await house.server.kick(house.guild.owner, await house.server.join(house.guild, "Eve"))
            await house.server.automod(house.ada, house.room, "free gifts")
            await house.server.say(house.ada, house.room, "still here")
            await house.heard("still here")
    assert [one.name for one in house.events.joins] == ["Eve"] and house.events.acts == []
