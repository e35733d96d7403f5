"""What the doctor finds at Discord, and that it leaves running connections alone."""

from collections.abc import AsyncIterator

import discord
import pytest

from bot.adapters.discord_doctor import NEEDED, PERMISSIONS, examine
from bot.adapters.discord_gateway import DiscordSettings
from core.domain.findings import Examined, Verdict
from tests.doubles.discord_faults import FaultKind
from tests.doubles.discord_server import DiscordServer
from tests.doubles.discord_state import Guild, Overwrite
from tests.doubles.discord_words import EVERYONE, Intent, Permission
from tests.fakes import ManualClock
from tests.platform.discord_house import open_house


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    async with DiscordServer() as double:
        yield double


async def look(server: DiscordServer, token: str = "", clock: ManualClock | None = None, **more: object) -> Examined:
    values: dict[str, object] = {"api_url": server.api_url, "gateway_url": server.gateway_url, **more}
    settings = DiscordSettings(token=token or server.token, **values)  # type: ignore[arg-type]  # a test's own values
    return await examine(settings, clock or ManualClock())


def told(examined: Examined, check: str) -> tuple[Verdict, str, str]:
    """Return the one finding of a check."""
    (found,) = [each for each in examined.findings if each.check == check]
    assert (found.verdict is Verdict.OK) == (not found.remedy), found
    return found.verdict, found.what, found.remedy


def workshop(server: DiscordServer) -> Guild:
    guild = server.add_guild("Workshop")
    guild.add_channel("hall", "category")
    guild.add_channel("general")
    return guild


async def test_all_is_well_without_a_connection_to_the_gateway(server: DiscordServer) -> None:
    workshop(server)
    examined = await look(server)
    assert {each.verdict for each in examined.findings} == {Verdict.OK}, examined.findings
    assert examined.name == "voidbot" and "voidbot" in told(examined, "discord.token")[1]
    assert "1 of 1 rooms" in told(examined, "discord.permissions")[1]
    assert server.identifies == 0 and server.called("POST", "") == []


async def test_a_running_connection_is_left_alone() -> None:
    async with open_house() as house, house.running():
        began = house.server.identifies
        examined = await look(house.server)
        assert told(examined, "discord.token")[0] is Verdict.OK
        assert house.server.connected and house.server.identifies == began
        await house.server.say(house.ada, house.room, f"{house.server.bot.mention} still there?")
        await house.count(1)


async def test_a_refused_token_is_found(server: DiscordServer) -> None:
    examined = await look(server, token="MTA.some.other-token")
    verdict, what, remedy = told(examined, "discord.token")
    assert verdict is Verdict.WRONG and "refuses" in what and "Reset Token" in remedy and "DISCORD_TOKEN" in remedy
    assert "some.other" not in str(examined)


@pytest.mark.parametrize(
    ("missing", "check", "portal"),
    [
        (Intent.MESSAGE_CONTENT, "discord.message_content", "Message Content"),
        (Intent.GUILD_MEMBERS, "discord.members", "Server Members"),
    ],
)
async def test_an_intent_that_is_off_is_found(server: DiscordServer, missing: Intent, check: str, portal: str) -> None:
    workshop(server)
    server.privileged_intents &= ~missing
    examined = await look(server)
    verdict, what, remedy = told(examined, check)
    assert verdict is Verdict.WARNING and portal in what and "Privileged Gateway Intents" in remedy
    assert [each.check for each in examined.findings if each.verdict is not Verdict.OK] == [check]


async def test_a_bot_without_a_server_gets_its_invite_link(server: DiscordServer) -> None:
    verdict, _, remedy = told(await look(server), "discord.servers")
    assert verdict is Verdict.WARNING
    assert f"client_id={server.bot.id}" in remedy and f"permissions={PERMISSIONS.value}" in remedy
    assert "scope=bot+applications.commands" in remedy


async def test_a_server_that_is_named_and_not_joined_is_found(server: DiscordServer) -> None:
    guild = workshop(server)
    examined = await look(server, guilds=(str(guild.id), "123456"))
    verdict, what, remedy = told(examined, "discord.guilds")
    assert verdict is Verdict.WRONG and "123456" in what and str(guild.id) not in what and "DISCORD_GUILDS" in remedy


@pytest.mark.parametrize("name", [name for name in NEEDED if name not in ("view_channel", "send_messages")])
async def test_a_permission_that_the_whole_server_lacks_is_named(server: DiscordServer, name: str) -> None:
    guild = workshop(server)
    guild.everyone.permissions = EVERYONE & ~Permission(getattr(discord.Permissions, name).flag)
    examined = await look(server)
    verdict, what, remedy = told(examined, "discord.permissions")
    assert verdict is Verdict.WARNING and what == f"in the server Workshop the bot lacks {NEEDED[name]}"
    assert "Roles" in remedy and str(PERMISSIONS.value) in remedy


async def test_members_who_may_not_use_commands_are_found(server: DiscordServer) -> None:
    guild = workshop(server)
    guild.everyone.permissions = EVERYONE & ~Permission.USE_APPLICATION_COMMANDS
    verdict, what, remedy = told(await look(server), "discord.commands")
    assert verdict is Verdict.WARNING and "Workshop" in what and "@everyone" in remedy


async def test_a_permission_that_single_rooms_take_is_named_with_them(server: DiscordServer) -> None:
    guild = workshop(server)
    for name in ("files", "rules", "plans", "news"):
        room = guild.add_channel(name)
        room.overwrites[guild.id] = Overwrite(guild.id, False, deny=Permission.SEND_MESSAGES)
    verdict, what, remedy = told(await look(server), "discord.permissions")
    assert verdict is Verdict.WARNING and "lacks Send Messages in #files, #rules, #plans and 1 more" in what
    assert "Send Messages" in remedy


async def test_a_room_that_hides_from_the_bot_is_only_counted(server: DiscordServer) -> None:
    workshop(server).add_channel("staff", hidden_from_bot=True)
    verdict, what, _ = told(await look(server), "discord.permissions")
    assert verdict is Verdict.OK and "1 of 2 rooms" in what


async def test_a_server_in_which_nothing_can_be_written_is_wrong(server: DiscordServer) -> None:
    guild = server.add_guild("Attic")
    room = guild.add_channel("general")
    room.overwrites[guild.id] = Overwrite(guild.id, False, deny=Permission.SEND_MESSAGES)
    verdict, what, remedy = told(await look(server), "discord.permissions")
    assert verdict is Verdict.WRONG and "Attic" in what and "Permissions" in remedy


async def test_a_clock_that_is_off_is_found(server: DiscordServer) -> None:
    workshop(server)
    clock = ManualClock()
    await clock.advance(20)
    verdict, what, remedy = told(await look(server, clock=clock), "clock.discord")
    assert verdict is Verdict.WARNING and "ahead" in what and "timedatectl" in remedy
    await clock.advance(-920)
    verdict, what, _ = told(await look(server, clock=clock), "clock.discord")
    assert verdict is Verdict.WRONG and "behind" in what


async def test_a_platform_that_is_away_is_found(server: DiscordServer) -> None:
    examined = await look(server, api_url="http://127.0.0.1:9")
    verdict, what, remedy = told(examined, "discord.reached")
    assert verdict is Verdict.WRONG and "no answer" in what and "DISCORD_API_URL" in remedy


async def test_a_platform_that_refuses_to_say_is_found(server: DiscordServer) -> None:
    workshop(server)
    server.fault(FaultKind.STATUS_BEFORE, match="GET /users/@me/guilds", status=403)
    examined = await look(server)
    assert told(examined, "discord.token")[0] is Verdict.OK
    verdict, what, _ = told(examined, "discord.reached")
    assert verdict is Verdict.WRONG and "403" in what


async def test_names_of_servers_cannot_break_a_line(server: DiscordServer) -> None:
    guild = server.add_guild("Work\nshop\x1b[31m" + "x" * 200)
    guild.add_channel("general")
    _, what, _ = told(await look(server), "discord.permissions")
    assert what.isprintable() and len(what) < 200
