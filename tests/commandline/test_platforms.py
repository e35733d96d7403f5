"""`voidbot up` and `voidbot run gateway` with platforms: what the operator is told, and how it ends."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from core.store.engine import Database
from tests.commandline.processes import FORKED, NEW, environment, spawn
from tests.doubles.discord_server import DiscordServer
from tests.doubles.telegram_server import TelegramServer


@asynccontextmanager
async def running(
    dsn: str, home: Path, *words: str, env: Mapping[str, str], interpreter: str = FORKED
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `voidbot` with these words; it is killed if the block leaves it behind."""
    process = await spawn(
        words, environment(home, DATABASE_URL=dsn, **env), interpreter=interpreter, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def told(process: asyncio.subprocess.Process, words: str) -> list[str]:
    """Read what the operator is told until a line holds the words; return all of it."""
    lines: list[str] = []
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while not any(words in line for line in lines):
            raw = await process.stderr.readline()
            assert raw, f"ended without saying {words!r}: {lines}"
            lines.append(raw.decode())
    return lines


def discord_env(discord: DiscordServer) -> dict[str, str]:
    return {
        "DISCORD_TOKEN": discord.token,
        "DISCORD_API_URL": discord.api_url,
        "DISCORD_GATEWAY_URL": discord.gateway_url,
        "DISCORD_CDN_URL": discord.cdn_url,
    }


async def test_up_without_a_chat_serves_both_platforms_and_ends_on_a_signal(
    database: Database, fresh_dsn: str, tmp_path: Path
) -> None:
    async with DiscordServer() as discord, TelegramServer(privacy_mode=False) as telegram:
        guild = discord.add_guild("House")
        room, ada = guild.add_channel("hall"), guild.add_member("Ada")
        bob = telegram.add_user("Bob")
        private = await telegram.start_private(bob)
        env = discord_env(discord) | {"TELEGRAM_TOKEN": telegram.token, "TELEGRAM_API_URL": telegram.api_url}
        async with running(fresh_dsn, tmp_path, "up", "--no-chat", env=env, interpreter=NEW) as process:
            lines = await told(process, "telegram: connecting")
            assert any("discord: connecting" in line for line in lines)
            await discord.until(lambda: bool(discord.connected), timeout_s=30)
            await discord.say(ada, room, f"<@{discord.bot.id}> is anybody there?")
            await telegram.say(bob, private, "is anybody there?")
            await discord.until(lambda: len(discord.messages(room)) == 2, timeout_s=30)
            await telegram.until(lambda: len(telegram.messages(private)) >= 2, timeout_s=30)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                assert await process.wait() == 0
            assert process.stderr is not None
            rest = (await process.stderr.read()).decode() + "".join(lines)
        assert discord.token not in rest and telegram.token not in rest and "Traceback" not in rest


async def test_a_refused_token_is_told_and_the_rest_of_the_house_goes_on(
    database: Database, fresh_dsn: str, tmp_path: Path
) -> None:
    async with DiscordServer() as discord, TelegramServer() as telegram:
        bob = telegram.add_user("Bob")
        private = await telegram.start_private(bob)
        wrong = "MTA.wrong.token-that-nobody-gave"
        env = discord_env(discord) | {"DISCORD_TOKEN": wrong}
        env |= {"TELEGRAM_TOKEN": telegram.token, "TELEGRAM_API_URL": telegram.api_url}
        async with running(fresh_dsn, tmp_path, "run", "gateway", env=env) as gateway:
            lines = await told(gateway, "DISCORD_TOKEN")
            assert wrong not in "".join(lines)
            async with running(fresh_dsn, tmp_path / "second", "run", "worker", env={}):
                await telegram.say(bob, private, "is anybody there?")
                await telegram.until(lambda: len(telegram.messages(private)) >= 2, timeout_s=30)


async def test_a_gateway_without_a_token_says_what_to_set(database: Database, fresh_dsn: str, tmp_path: Path) -> None:
    async with running(fresh_dsn, tmp_path, "run", "gateway", env={}) as process:
        async with asyncio.timeout(60):
            _, err = await process.communicate()
    assert process.returncode == 1
    assert "set DISCORD_TOKEN or TELEGRAM_TOKEN" in err.decode()
