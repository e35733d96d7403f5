"""Commands for everyone: ask, search, why, usage, help."""

import re
from datetime import UTC, datetime, timedelta

from bot.commands.money import usage as purses_in_words
from bot.commands.spec import CommandAnswer, CommandCall, CommandSpec, Services
from bot.commands.unasked import silence_lines
from core.chat import receipts
from core.chat.citations import quote_of_hit, receipt_of
from core.domain.audience import Private
from core.domain.errors import InputRejected
from core.domain.ids import RoomId
from core.domain.retrieval import Query
from core.domain.searchwords import read_wanted
from core.domain.speech import ReceiptSource
from core.domain.timeexpr import parse_time
from core.prompt.stock import StockKey
from core.providers.quotes import block
from core.retrieval.lore import LoreHit, search_all
from core.retrieval.service import Hit
from core.store import addresses, decisions, people, places
from core.store.engine import Tx

SEARCH_HITS = 5
_AGO = re.compile(r"(\d{1,4})\s*([hdw])")
_SPAN = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


async def search(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Find archived messages that the asker may read, and lines of files; shown to the asker alone."""
    query = await search_query(tx, call, services)
    hits = await search_all(tx, query, call.room.id, call.near)
    language, room = call.room.language, call.room.id
    narrowed = _narrowed(call, services, query)
    if not hits:
        return CommandAnswer("\n".join([services.stock.pick(language, StockKey.SEARCH_NONE, 0), *narrowed]))
    messages = [hit.message.id for hit in hits if isinstance(hit, Hit)]
    links = await addresses.links_of(tx, messages, query.readable)
    intro = services.stock.pick(language, StockKey.SEARCH_INTRO, 0, count=str(len(hits)))
    quotes = (block(quote_of_hit(hit, links), call.tz) for hit in hits)
    sources = frozenset({room}).union(*(receipt_of(hit).audience for hit in hits))
    text = "\n\n".join(["\n".join([*narrowed, intro]), *quotes])
    return CommandAnswer(text, sources, files=tuple(receipt_of(hit) for hit in hits if isinstance(hit, LoreHit)))


async def search_query(tx: Tx, call: CommandCall, services: Services) -> Query:
    """Return what a search looks for, where the asker may read now.

    A stretch of time in its words narrows it, unless `since` does; a vague one prefers the newest.
    """
    readable = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    rooms = await named_rooms(tx, call, readable)
    authors = None
    if (name := call.options.get("person")) is not None:
        authors = await people.list_named(tx, call.community_id, name.lstrip("@"))
    wanted = read_wanted(call.options["query"])
    since, until, latest = since_of(call), None, False
    if since is None and (meant := parse_time(wanted.text, call.now, call.tz)) is not None:
        if meant.vague:
            latest = meant.since is not None
        else:
            since, until = meant.since, meant.until
    return Query(
        text=wanted.text,
        community_id=call.community_id,
        readable=readable,
        rooms=rooms,
        authors=None if authors is None else tuple(authors),
        since=since,
        until=until,
        now=call.now,
        k=SEARCH_HITS,
        floor=0.0,
        people_only=True,
        latest=latest,
        phrases=wanted.phrases,
        without=wanted.without,
    )


def _narrowed(call: CommandCall, services: Services, query: Query) -> list[str]:
    """Return the line that says which stretch of time the words were taken to mean; none if they mean none."""
    if call.options.get("since") is not None or (query.since is None and query.until is None):
        return []
    ends = (query.since, query.until or call.now)
    since, until = ("…" if at is None else f"{at.astimezone(call.tz):%Y-%m-%d %H:%M}" for at in ends)
    return [services.stock.pick(call.room.language, StockKey.SEARCH_SPAN, 0, since=since, until=until)]


async def named_rooms(tx: Tx, call: CommandCall, readable: frozenset[RoomId]) -> frozenset[RoomId]:
    """Return the readable rooms of the name in the option `room`; all if there is no such option."""
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


def since_of(call: CommandCall) -> datetime | None:
    """Return what the option `since` means; None if it is not there.

    Raises:
        InputRejected: It is no time, or none that has been.
    """
    text = call.options.get("since")
    if text is None:
        return None
    if (ago := _AGO.fullmatch(text)) is not None:
        return call.now - int(ago[1]) * _SPAN[ago[2]]
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=call.tz).astimezone(UTC)
    except (ValueError, OverflowError):
        meant = parse_time(text, call.now, call.tz)
    if meant is None or meant.since is None:
        raise InputRejected("since: write a date like 2026-05-07, or 3h, 2d, 1w, yesterday")
    return meant.since


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
    links = await addresses.links_of(tx, receipt.messages(), readable)
    files = await receipts.name_files(tx, receipt, readable, call.community_id)
    standing = {ref for ref, file in files.items() if file.stands}
    named = tuple(ReceiptSource(*source) for source in receipt.sources if source[1] in standing)
    return CommandAnswer(receipts.render(receipt, readable, call.tz, links, files), files=named)


async def why_silent(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Name the first gate that said no to the asker's last message here, or to the one named.

    Where none is named, it is also told why nothing was said unasked.
    """
    ref = call.options.get("message") or call.message_ref
    row = await decisions.find(tx, call.room.id, call.person_id, ref)
    if row is None:
        words = services.stock.pick(call.room.language, StockKey.WHY_NO_RECEIPT, 0)
    else:
        words = receipts.render_decision(row, call.tz)
    lines, rooms = ([], frozenset[RoomId]()) if ref is not None else await silence_lines(tx, call, services)
    return CommandAnswer("\n".join([words, *lines]), rooms)


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
    return CommandAnswer("\n".join([intro, "", *(f"/{spec.path} — {spec.summary}" for spec in mine)]))


def _usage(spec: CommandSpec) -> str:
    options = [option.name if option.required else f"[{option.name}]" for option in spec.options]
    return " ".join([f"/{spec.path}", *options])


def _explained(spec: CommandSpec) -> str:
    lines = [f"{_usage(spec)} — {spec.summary}"]
    for option in spec.options:
        choices = f" ({', '.join(option.choices)})" if option.choices else ""
        lines.append(f"  {option.name}: {option.summary}{choices}")
    return "\n".join(lines)
