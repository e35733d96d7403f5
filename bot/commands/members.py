"""Commands for everyone: ask, search, why, usage, help."""

import re
from datetime import UTC, datetime, timedelta

from bot.commands.money import usage as purses_in_words
from bot.commands.spec import CommandAnswer, CommandCall, CommandSpec, Services
from core.chat import receipts
from core.domain.audience import Private
from core.domain.errors import InputRejected
from core.domain.ids import RoomId
from core.domain.retrieval import Query
from core.prompt.fences import shown_name
from core.prompt.stock import StockKey
from core.providers.quotes import Quote, block
from core.retrieval import service as retrieval
from core.store import decisions, people, places
from core.store.engine import Tx

SEARCH_HITS = 5
_AGO = re.compile(r"(\d{1,4})\s*([hdw])")
_SPAN = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


async def search(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Find archived messages that the asker may read; shown to the asker alone."""
    readable = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    rooms = await _named_rooms(tx, call, readable)
    authors = None
    if (name := call.options.get("person")) is not None:
        authors = await people.list_named(tx, call.community_id, name.lstrip("@"))
    query = Query(
        text=call.options["query"],
        community_id=call.community_id,
        readable=readable,
        rooms=rooms,
        authors=None if authors is None else tuple(authors),
        since=_since(call),
        now=call.now,
        k=SEARCH_HITS,
        floor=0.0,
        people_only=True,
    )
    hits = await retrieval.search(tx, query)
    language, room = call.room.language, call.room.id
    if not hits:
        return CommandAnswer(services.stock.pick(language, StockKey.SEARCH_NONE, 0))
    lines = [services.stock.pick(language, StockKey.SEARCH_INTRO, 0, count=str(len(hits)))]
    for found in (hit.message for hit in hits):
        author, place = shown_name(found.author_name), shown_name(found.room_name)
        lines.append(block(Quote(author, place, found.sent_at, found.text, found.id), call.tz))
    sources = frozenset(source for hit in hits for source in hit.message.sources)
    return CommandAnswer("\n\n".join(lines), sources | {room})


async def _named_rooms(tx: Tx, call: CommandCall, readable: frozenset[RoomId]) -> frozenset[RoomId]:
    wanted = call.options.get("room")
    if wanted is None:
        return readable
    name = wanted.lstrip("#").casefold()
    # A room that the asker may not read gives the same answer as one that does not exist.
    return frozenset(
        room.id
        for room in await places.list_rooms(tx, call.community_id)
        if room.id in readable and name in (room.name.casefold(), room.key.chat_ref.casefold())
    )


def _since(call: CommandCall) -> datetime | None:
    text = call.options.get("since")
    if text is None:
        return None
    if (ago := _AGO.fullmatch(text)) is not None:
        return call.now - int(ago[1]) * _SPAN[ago[2]]
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=call.tz).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputRejected("since: write a date like 2026-05-07, or 3h, 2d, 1w") from None


async def why(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Explain the last answer here, or the one named or replied to, for this asker's eyes."""
    readable = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    ref = call.options.get("message") or call.message_ref
    receipt = await receipts.find(tx, call.room.id, ref, call.person_id)
    if receipt is None and ref is not None and call.options.get("message") is None:
        receipt = await receipts.find(tx, call.room.id, None, call.person_id)
    if receipt is None:
        return CommandAnswer(services.stock.pick(call.room.language, StockKey.WHY_NO_RECEIPT, 0))
    if receipt.private_to is not None and receipt.private_to != call.person_id:
        # As if there were none: an answer for one person is not even counted by others.
        return CommandAnswer(services.stock.pick(call.room.language, StockKey.WHY_NO_RECEIPT, 0))
    return CommandAnswer(receipts.render(receipt, readable, call.tz))


async def why_silent(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Name the first gate that said no to the asker's last message here, or to the one named."""
    ref = call.options.get("message") or call.message_ref
    row = await decisions.find(tx, call.room.id, call.person_id, ref)
    if row is None:
        return CommandAnswer(services.stock.pick(call.room.language, StockKey.WHY_NO_RECEIPT, 0))
    return CommandAnswer(receipts.render_decision(row, call.tz))


async def usage(tx: Tx, call: CommandCall, _: Services) -> CommandAnswer:
    """Show limits, what is used and left, and when it returns; for administrators the community's too."""
    return await purses_in_words(tx, call)


async def ask(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Say what is missing: an `/ask` with a question never comes here, it is a turn like any other."""
    return CommandAnswer(
        services.stock.pick(
            call.room.language, StockKey.COMMAND_BAD_OPTION, 0, option="question", expected="a question"
        )
    )


async def help_(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """List what the asker may use here, or explain one command."""
    wanted = call.options.get("command", "").lstrip("/").lower()
    mine = [spec for spec in services.table if spec.access in call.access]
    if wanted:
        mine = [spec for spec in mine if spec.path == wanted or spec.path.startswith(f"{wanted} ")]
        if not mine:
            return CommandAnswer(
                services.stock.pick(call.room.language, StockKey.COMMAND_UNKNOWN, 0, command=f"/{wanted}")
            )
        return CommandAnswer("\n\n".join(_explained(spec) for spec in mine))
    intro = services.stock.pick(call.room.language, StockKey.HELP_INTRO, 0)
    return CommandAnswer("\n".join([intro, "", *(f"{_usage(spec)} — {spec.summary}" for spec in mine)]))


def _usage(spec: CommandSpec) -> str:
    options = [option.name if option.required else f"[{option.name}]" for option in spec.options]
    return " ".join([f"/{spec.path}", *options])


def _explained(spec: CommandSpec) -> str:
    lines = [f"{_usage(spec)} — {spec.summary}"]
    for option in spec.options:
        choices = f" ({', '.join(option.choices)})" if option.choices else ""
        lines.append(f"  {option.name}: {option.summary}{choices}")
    return "\n".join(lines)
