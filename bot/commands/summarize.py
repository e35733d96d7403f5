"""`/summarize`: which room and which span; the `summarize` job reads them and answers the asker alone."""

from bot.commands.members import named_rooms, since_of
from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.chat.summaries import MOST_MESSAGES
from core.chat.work import SummaryWork, summary_job
from core.domain.audience import Private
from core.domain.errors import InputRejected
from core.prompt.stock import StockKey
from core.store.engine import Tx


async def summarize(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Leave the summary of a room to its job; one that the asker may not read is as empty as one that is not there."""
    count = _count(call)
    since = None if (call.options.get("since") or "").isdecimal() else since_of(call)
    rooms = frozenset({call.room.id})
    if "room" in call.options:
        readable = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
        rooms = await named_rooms(tx, call, readable)
        if not rooms:
            return CommandAnswer(services.stock.pick(call.room.language, StockKey.SUMMARY_NONE, 0))
    work = SummaryWork(
        turn_id=call.turn_id,
        rooms=tuple(sorted(rooms)),
        since=since,
        count=MOST_MESSAGES if count is None else count,
        usual=since is None and count is None,
    )
    job = summary_job(
        work, community_id=call.community_id, room_id=call.room.id, person_id=call.person_id, trace=call.trace
    )
    return CommandAnswer("", job=job)


def _count(call: CommandCall) -> int | None:
    """Return how many messages were asked for: by name, or as a number in the place of a time."""
    since = call.options.get("since") or ""
    text = call.options.get("count") or (since if since.isdecimal() else None)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_MESSAGES):
        raise InputRejected(f"count: write a whole number between 1 and {MOST_MESSAGES}")
    return int(text)
