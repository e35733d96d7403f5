"""Rooms, roles, members and readers of a community, as the cache of the real library knows them."""

import random
from collections.abc import AsyncIterator

import pytest

from bot.adapters.discord_rooms import is_admin, may_moderate
from core.domain.ids import RoomKey
from core.domain.platforms import CommunityReport, MemberReport, RoomReport, Whoever
from core.domain.rooms import RoomKind
from tests.doubles.discord_state import Channel, Guild, Member, Overwrite, Role
from tests.doubles.discord_words import Intent, Permission
from tests.platform.discord_house import House, open_house


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


def report(house: House) -> CommunityReport:
    return house.memory.newest(str(house.guild.id))


def room_in(house: House, channel: Channel) -> RoomReport:
    key = RoomKey("discord", str(channel.id))
    return next(one for one in report(house).rooms if one.key == key)


def may(who: Whoever | None, member: Member) -> bool:
    assert who is not None
    held = {str(role.id) for role in member.roles}
    return who.everyone or bool(who.roles & held) or str(member.id) in who.accounts


def confuse(guild: Guild, chance: random.Random) -> None:
    """Add roles, members and channels with overwrites of every sort."""
    view, history = Permission.VIEW_CHANNEL, Permission.READ_MESSAGE_HISTORY
    bits = [0, view, history, view | history]
    roles = [guild.add_role(f"r{n}", chance.choice([*bits, Permission.ADMINISTRATOR])) for n in range(4)]
    members = [guild.add_member(f"m{n}", chance.sample(roles, chance.randint(0, 3))) for n in range(6)]
    for number in range(12):
        channel = guild.add_channel(f"c{number}")
        targets: list[Member | Role] = [guild.everyone, *roles, *members]
        for target in chance.sample(targets, chance.randint(0, 4)):
            allow = chance.choice(bits)
            overwrite_on(channel, target, int(allow), int(chance.choice(bits) & ~allow))
        overwrite_on(channel, guild.me, int(view | history), 0)
    if chance.random() < 0.5:
        guild.everyone.permissions &= ~(view | history)


def overwrite_on(channel: Channel, target: Member | Role, allow: int, deny: int) -> None:
    channel.overwrites[target.id] = Overwrite(target.id, isinstance(target, Member), allow, deny)


@pytest.mark.parametrize("seed", range(6))
async def test_readers_are_exactly_those_whom_the_platform_lets_in(house: House, seed: int) -> None:
    confuse(house.guild, random.Random(seed))
    async with house.running():
        pass
    compared = 0
    for channel in [one for one in house.guild.channels.values() if one.allows(house.server.bot)]:
        found = room_in(house, channel)
        for member in house.guild.members.values():
            allowed = member.permissions_in(channel)
            assert may(found.view, member) is bool(allowed & Permission.VIEW_CHANNEL)
            assert may(found.history, member) is bool(allowed & Permission.READ_MESSAGE_HISTORY)
            compared += 1
    assert compared > 80


async def test_a_community_is_told_whole(house: House) -> None:
    keeper = house.guild.add_role("keeper", Permission.MANAGE_GUILD)
    bob = house.guild.add_member("Bob", [keeper])
    forum = house.guild.add_channel("ideas", "forum")
    house.guild.add_channel("all of them", "category")
    thread = await house.server.create_thread(house.ada, house.room, "side")
    post = await house.server.create_thread(house.ada, forum, "an idea", text="what if")
    async with house.running():
        pass
    found = report(house)
    assert (found.platform, found.name, found.whole, found.members_known) == ("discord", "Workshop", True, True)
    kinds = {one.surroundings.name: one.surroundings.kind for one in found.rooms}
    assert kinds == {
        "general": RoomKind.CHANNEL,
        "ideas": RoomKind.CHANNEL,
        "side": RoomKind.THREAD_PUBLIC,
        "an idea": RoomKind.FORUM_POST,
    }
    assert room_in(house, thread).surroundings.parent == RoomKey("discord", str(house.room.id))
    assert room_in(house, post).surroundings.parent == RoomKey("discord", str(forum.id))
    assert {one.name: one.admin for one in found.roles} == {"@everyone": False, "VoidBot": False, "keeper": True}
    assert MemberReport(ref=str(bob.id), name="Bob", roles=frozenset({str(keeper.id)})) in found.members


async def test_what_the_bot_cannot_see_is_not_told(house: House) -> None:
    house.guild.add_channel("hidden", hidden_from_bot=True)
    async with house.running():
        pass
    assert [one.surroundings.name for one in report(house).rooms] == ["general"]


async def test_readers_of_a_private_thread_are_not_told(house: House) -> None:
    thread = await house.server.create_thread(house.ada, house.room, "secret", private=True)
    house.server.world.join_thread(thread, house.server.bot)
    async with house.running():
        pass
    found = room_in(house, thread)
    assert found.surroundings.kind is RoomKind.THREAD_PRIVATE and found.view is None and found.history is None


async def test_audience_without_member_intent(house: House) -> None:
    house.server.privileged_intents = Intent.MESSAGE_CONTENT
    shut_out = house.guild.add_role("shut out")
    closed = house.guild.add_channel("closed to some")
    await house.server.set_overwrite(closed, shut_out, deny=Permission.VIEW_CHANNEL)
    async with house.running():
        pass
    assert not report(house).members_known and not report(house).members
    assert room_in(house, closed).view is None
    assert room_in(house, house.room).view is not None


async def test_the_history_of_a_private_room_is_its_readers_alone(house: House) -> None:
    inner = house.guild.add_role("inner")
    closed = house.guild.add_channel("closed", private_to=[inner])
    async with house.running():
        pass
    found = room_in(house, closed)
    assert found.history == found.view
    assert found.history is not None and not found.history.everyone and str(inner.id) in found.history.roles


async def test_where_members_are_not_known_a_history_closes_rather_than_opens(house: House) -> None:
    house.server.privileged_intents = Intent.MESSAGE_CONTENT
    view, history = Permission.VIEW_CHANNEL, Permission.READ_MESSAGE_HISTORY
    seeing, reading, both = (house.guild.add_role(name) for name in ("seeing", "reading", "both"))
    room = house.guild.add_channel("split", private_to=[both, seeing])
    overwrite_on(room, house.guild.everyone, 0, int(view | history))
    overwrite_on(room, seeing, int(view), 0)
    overwrite_on(room, reading, int(history), 0)
    overwrite_on(room, both, int(view | history), 0)
    async with house.running():
        pass
    found = room_in(house, room).history
    assert found is not None and not found.everyone and found.roles == {str(both.id)}


async def test_who_joins_where_seeing_and_reading_back_are_told_apart_is_counted_in(house: House) -> None:
    seeing, reading = house.guild.add_role("seeing"), house.guild.add_role("reading")
    overwrite_on(house.room, house.guild.everyone, 0, int(Permission.VIEW_CHANNEL | Permission.READ_MESSAGE_HISTORY))
    overwrite_on(house.room, seeing, int(Permission.VIEW_CHANNEL), 0)
    overwrite_on(house.room, reading, int(Permission.READ_MESSAGE_HISTORY), 0)
    overwrite_on(house.room, house.guild.me, int(Permission.VIEW_CHANNEL | Permission.READ_MESSAGE_HISTORY), 0)
    async with house.running():
        assert not may(room_in(house, house.room).history, house.ada)
        await house.server.set_roles(house.ada, [seeing, reading])
        await house.server.until(lambda: may(room_in(house, house.room).history, house.ada))


async def test_overwrite_change_alters_audience(house: House) -> None:
    async with house.running():
        assert may(room_in(house, house.room).view, house.ada)
        await house.server.set_overwrite(house.room, house.guild.everyone, deny=Permission.VIEW_CHANNEL)
        await house.server.until(lambda: report(house).rooms == ())
        await house.server.set_overwrite(house.room, house.guild.me, allow=Permission.VIEW_CHANNEL)
        await house.server.until(lambda: bool(report(house).rooms))
        assert not may(room_in(house, house.room).view, house.ada)


async def test_role_changes_alter_audience(house: House) -> None:
    inner = house.guild.add_role("inner")
    closed = house.guild.add_channel("closed", private_to=[inner])
    async with house.running():
        assert room_in(house, closed).view == Whoever(
            roles=frozenset({str(inner.id)}), accounts=frozenset({str(house.guild.owner.id), str(house.guild.me.id)})
        )
        await house.server.set_roles(house.ada, [inner])
        held = MemberReport(ref=str(house.ada.id), name="Ada", roles=frozenset({str(inner.id)}))
        await house.server.until(lambda: any(held in one.members for one in house.memory.reports))
        await house.server.delete_role(house.guild, inner)
        await house.server.until(lambda: all(one.ref != str(inner.id) for one in report(house).roles))


async def test_members_come_and_go(house: House) -> None:
    async with house.running():
        bob = await house.server.join(house.guild, "Bob")
        joined = MemberReport(ref=str(bob.id), name="Bob")
        await house.server.until(lambda: any(joined in one.members for one in house.memory.reports))
        await house.server.rename(bob, "Bobby")
        renamed = MemberReport(ref=str(bob.id), name="Bobby")
        await house.server.until(lambda: any(renamed in one.members for one in house.memory.reports))
        await house.server.leave(bob)
        await house.server.until(lambda: bool(house.memory.told))
    assert house.memory.told == [("left", (str(house.guild.id), str(bob.id)))]


async def test_who_joins_a_room_that_shuts_somebody_out_is_counted_in(house: House) -> None:
    await house.server.set_overwrite(house.room, house.ada, deny=Permission.VIEW_CHANNEL)
    async with house.running():
        assert not may(room_in(house, house.room).view, house.ada)
        bob = await house.server.join(house.guild, "Bob")
        await house.server.until(lambda: may(room_in(house, house.room).view, bob))


async def test_new_and_renamed_rooms_are_told(house: House) -> None:
    async with house.running():
        fresh = house.guild.add_channel("fresh")
        await house.server.until(lambda: len(report(house).rooms) == 2)
        await house.server.rename_channel(fresh, "stale")
        await house.server.until(lambda: room_in(house, fresh).surroundings.name == "stale")
        await house.server.delete_channel(fresh)
        await house.server.until(lambda: len(report(house).rooms) == 1)


async def test_members_beyond_the_first_chunk_are_told(house: House) -> None:
    house.server.members_per_chunk = 50
    for number in range(180):
        house.guild.add_member(f"m{number}")
    async with house.running():
        pass
    assert report(house).members_known and len(report(house).members) == 183


def test_administrators_are_those_who_may_manage_the_community() -> None:
    bits = {one.name: is_admin(int(one)) for one in Permission}
    assert {name for name, admin in bits.items() if admin} == {"ADMINISTRATOR", "MANAGE_GUILD"}
    looking = {one.name for one in Permission if may_moderate(int(one))}
    assert looking - {"ADMINISTRATOR", "MANAGE_GUILD"} == {
        "KICK_MEMBERS", "BAN_MEMBERS", "MANAGE_MESSAGES", "MODERATE_MEMBERS"
    }  # fmt: skip
