"""From a platform's event to the first call that answers it, on both doubles, beside a bot that stores nothing."""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.rig import PATIENCE_S, load, parser, print_line, say, spread_ms
from core.domain.messages import FRAGMENT_WINDOW
from tests.doubles.discord_server import DiscordServer
from tests.doubles.telegram_server import TelegramServer

TARGET = {"p50_ms": 20.0, "p99_ms": 80.0}
MOST_TIMES_THE_FLOOR = 5.0
LOWER_IS_BETTER = ("discord.ms.p50", "discord.ms.p99", "telegram.ms.p50", "telegram.ms.p99")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured. Rooms and people are so many that no limit of ours or of a platform is met."""

    rate_per_s: float
    seconds: float
    rooms: int
    people: int


FULL = Size(rate_per_s=20, seconds=30, rooms=80, people=250)
QUICK = Size(rate_per_s=10, seconds=3, rooms=20, people=20)
WARM_UP = 20
"""How many first messages do not count."""


class Stamped(list[Any]):
    """The calls that a double saw, each with the time when it came."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[float] = []

    def append(self, call: Any) -> None:
        """Note a call and the time."""
        self.at.append(time.perf_counter())
        super().append(call)


@dataclass(slots=True)
class Talk:
    """What was said, by message id, and what the double saw since."""

    calls: Stamped
    answered: Callable[[Any], str | None]
    said: dict[str, float] = field(default_factory=dict)

    def waits(self) -> dict[str, float]:
        """Return the seconds from each message to the first call that answers it."""
        found: dict[str, float] = {}
        for call, at in zip(self.calls, self.calls.at, strict=True):
            message = self.answered(call)
            if message in self.said and message not in found:
                found[message] = at - self.said[message]
        return found


@asynccontextmanager
async def bot(name: str, platform: dict[str, Any]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a bot in a process of its own; closing its input ends it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.platform_child",
        name,
        json.dumps(platform),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await asyncio.wait_for(process.wait(), PATIENCE_S)


async def measure(talk: Talk, size: Size, speak: Callable[[], Awaitable[str]], deliberate_s: float) -> dict[str, Any]:
    """Say things at a steady rate, wait for the answers, and return how long they took without deliberate waits."""
    began = time.perf_counter()
    for number in range(round(size.rate_per_s * size.seconds)):
        if (early := began + number / size.rate_per_s - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        at = time.perf_counter()
        talk.said[await speak()] = at
    deadline = time.perf_counter() + PATIENCE_S
    while len(talk.waits()) < len(talk.said) and time.perf_counter() < deadline:
        await asyncio.sleep(0.05)
    waits = talk.waits()
    counted = [waits[each] - deliberate_s for each in list(talk.said)[WARM_UP:] if each in waits]
    return {"messages": len(talk.said), "answered": len(waits), "ms": spread_ms(counted)}


def _discord_answer(call: Any) -> str | None:
    if call.method != "POST" or not call.path.endswith("/messages") or not isinstance(call.body, dict):
        return None
    return str((call.body.get("message_reference") or {}).get("message_id"))


def discord_platform(discord: DiscordServer) -> dict[str, Any]:
    """Return the settings that lead a bot to the double."""
    return {
        "discord_token": discord.token,
        "discord_api_url": discord.api_url,
        "discord_gateway_url": discord.gateway_url,
        "discord_cdn_url": discord.cdn_url,
    }


async def on_discord(name: str, size: Size) -> dict[str, object]:
    """Measure one bot on Discord's double."""
    async with DiscordServer() as discord:
        guild = discord.add_guild("Town")
        rooms = itertools.cycle([guild.add_channel(f"room-{n}") for n in range(size.rooms)])
        people = itertools.cycle([guild.add_member(f"Person {n}") for n in range(size.people)])
        discord.calls = Stamped()
        async with bot(name, discord_platform(discord)):
            await discord.until(lambda: bool(discord.connected), timeout_s=60)
            await asyncio.sleep(3)  # what a fresh connection learns of the guild is another figure
            talk = Talk(discord.calls, _discord_answer)

            async def speak() -> str:
                text = f"<@{discord.bot.id}> what about {next(_NUMBERS)}?"
                return str((await discord.say(next(people), next(rooms), text)).id)

            waits_s = FRAGMENT_WINDOW.total_seconds() if name == "voidbot" else 0.0
            return await measure(talk, size, speak, waits_s)


_NUMBERS: Iterator[int] = itertools.count(1)


MISSED_ROOMS = 20
LIVE_PER_S, LIVE_S = 10.0, 10.0
LONGEST_S = 300.0


async def caught_up(missed: int) -> dict[str, object]:
    """Let a gateway's session be lost, say `missed` messages meanwhile, and return how they are read back.

    Live questions go on in other rooms all the time; `live_ms` is how long they took.
    """
    async with DiscordServer() as discord:
        guild = discord.add_guild("Town")
        rooms = [guild.add_channel(f"room-{n}") for n in range(MISSED_ROOMS)]
        lively = itertools.cycle([guild.add_channel(f"lively-{n}") for n in range(MISSED_ROOMS * 2)])
        people = itertools.cycle([guild.add_member(f"Person {n}") for n in range(250)])
        discord.calls = Stamped()
        async with bot("voidbot", discord_platform(discord)) as process:
            await discord.until(lambda: bool(discord.connected), timeout_s=60)
            for room in rooms:
                await discord.say(next(people), room, "the first word")
            while (await ask(process))["stored"] < len(rooms):
                await asyncio.sleep(0.1)
            discord.pause_gateway()
            await discord.drop()
            for number in range(missed):
                await discord.say(next(people), rooms[number % len(rooms)], f"missed word {number}")
            talk = Talk(discord.calls, _discord_answer)

            async def speak() -> str:
                text = f"<@{discord.bot.id}> what about {next(_NUMBERS)}?"
                return str((await discord.say(next(people), next(lively), text)).id)

            discord.resume_gateway()
            await discord.until(lambda: bool(discord.connected), timeout_s=60)
            began = time.perf_counter()
            size = Size(LIVE_PER_S, LIVE_S, 0, 0)
            async with asyncio.TaskGroup() as group:
                live = group.create_task(measure(talk, size, speak, FRAGMENT_WINDOW.total_seconds()))
                while (await ask(process))["stored"] < len(rooms) + missed and time.perf_counter() < began + LONGEST_S:
                    await asyncio.sleep(0.1)
                took_s = time.perf_counter() - began
            stored = (await ask(process))["stored"] - len(rooms)
            return {"missed": missed, "stored": stored, "seconds": round(took_s, 1), "live_ms": live.result()["ms"]}


async def per_room_mb(rooms: int) -> dict[str, object]:
    """Return what so many more rooms cost in memory."""
    sizes = []
    for count in (10, 10 + rooms):
        async with DiscordServer() as discord:
            guild = discord.add_guild("Town")
            for number in range(count):
                guild.add_channel(f"room-{number}")
            async with bot("voidbot", discord_platform(discord)) as process:
                await discord.until(lambda: bool(discord.connected), timeout_s=60)
                await asyncio.sleep(5)
                sizes.append(float((await ask(process))["rss_mb"]))
    return {"rooms": rooms, "mb": round(sizes[1] - sizes[0], 1), "with_ten_rooms_mb": sizes[0]}


async def ask(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Ask the bot's process how much it has stored and how large it is."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("the bot has no pipes")
    process.stdin.write(b"?\n")
    answer: dict[str, Any] = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE_S))
    return answer


def _telegram_answer(call: Any) -> str | None:
    if call.method != "sendMessage":
        return None
    reply = call.params.get("reply_parameters") or {}
    return f"{call.params['chat_id']}/{reply.get('message_id')}"


async def on_telegram(size: Size) -> dict[str, object]:
    """Measure VoidBot on Telegram's double."""
    async with TelegramServer(privacy_mode=False) as telegram:
        groups = [telegram.add_group(f"Group {n}", kind="supergroup") for n in range(size.rooms)]
        people = [telegram.add_user(f"Person {n}") for n in range(size.people)]
        rooms, speakers = itertools.cycle(groups), itertools.cycle(people)
        telegram.calls = Stamped()
        platform = {"telegram_token": telegram.token, "telegram_api_url": telegram.api_url}
        async with bot("voidbot", platform):
            await telegram.until(lambda: telegram.polls > 0, timeout_s=60)
            await asyncio.sleep(1)
            talk = Talk(telegram.calls, _telegram_answer)

            async def speak() -> str:
                group = next(rooms)
                said = await telegram.say(
                    next(speakers), group, f"@{telegram.bot_username} what about {next(_NUMBERS)}?"
                )
                return f"{group.id}/{said.id}"

            return await measure(talk, size, speak, FRAGMENT_WINDOW.total_seconds())


def verdict(line: dict[str, Any]) -> str:
    """Return `target` or what is missed."""
    missed = [
        name
        for name in ("discord", "telegram")
        if line[name]["answered"] < line[name]["messages"]
        or line[name]["ms"]["p50"] > TARGET["p50_ms"]
        or line[name]["ms"]["p99"] > TARGET["p99_ms"]
    ]
    if line["times_the_floor"] > MOST_TIMES_THE_FLOOR:
        missed.append("floor")
    return f"missed: {', '.join(missed)}" if missed else "target"


async def run(size: Size) -> dict[str, Any]:
    """Measure all three, one after the other."""
    before = load()
    say("the floor bot on Discord")
    floor = await on_discord("floor", size)
    say("VoidBot on Discord")
    ours = await on_discord("voidbot", size)
    say("VoidBot on Telegram")
    telegram = await on_telegram(size)
    line: dict[str, Any] = {"floor": floor, "discord": ours, "telegram": telegram, "load": [before, load()]}
    line["times_the_floor"] = round(line["discord"]["ms"]["p50"] / max(line["floor"]["ms"]["p50"], 0.01), 1)
    return line


def main() -> int:
    """Print one JSON line."""
    flags = parser(__doc__ or "")
    flags.add_argument("--gap", type=int, metavar="N", help="instead: read back N messages that were missed")
    flags.add_argument("--memory", type=int, metavar="N", help="instead: what N rooms cost in memory")
    options = flags.parse_args()
    if options.gap or options.memory:
        found = asyncio.run(caught_up(options.gap) if options.gap else per_room_mb(options.memory))
        print_line({"benchmark": "platforms", "load": load()} | found, options.against, ("seconds", "mb"))
        return 0
    size = QUICK if options.quick else FULL
    line = {"benchmark": "platforms", "quick": options.quick, "rate_per_s": size.rate_per_s} | asyncio.run(run(size))
    line["verdict"] = verdict(line)
    print_line(line, options.against, LOWER_IS_BETTER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
