"""Commands for administrators: status, rooms, mode, style."""

from bot.commands.spec import CommandAnswer, CommandCall, Services
from bot.commands.unasked import approval_lines
from core.domain.archiving import is_archived
from core.domain.audience import Private
from core.domain.errors import InputRejected
from core.domain.prompt import Tier
from core.domain.quiet import written
from core.domain.rooms import Room
from core.prompt.fences import shown_name
from core.prompt.stock import StockKey
from core.retrieval.vector_words import search_in_words
from core.store import embeddings, jobs, outbox, places, platforms
from core.store.engine import Tx


async def status(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show health in figures: models, queues, what waits, what could not be proved sent."""
    stats = await jobs.stats(tx)
    states = await outbox.count_states(tx)
    waiting = sum(each.ready + each.waiting + each.later for each in stats)
    oldest = max((each.oldest_wait for each in stats), default=0.0)
    lines = [
        f"VoidBot {services.version}",
        "Models: " + _models(services),
        f"Jobs: {sum(each.running for each in stats)} running, {waiting} waiting (oldest {oldest:.1f} s),"
        f" {sum(each.dead for each in stats)} dead",
        "Answers: " + (", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none open"),
    ]
    lines += search_in_words(await embeddings.list_figures(tx), services.vectors)
    if unknown := states.get("unknown"):
        lines.append(f"{unknown} answers could not be proved sent; they are never sent again by themselves")
    lines += [
        f"Read back after the last gap ({gap.platform}, {gap.at.astimezone(call.tz):%Y-%m-%d %H:%M}): {gap.figures}"
        for gap in await platforms.list_gaps(tx)
    ]
    lines += await approval_lines(tx, call.community_id)
    found = await readable_rooms_of(tx, call, services)
    kept = sum(is_archived(room, services.archiving) for room in found)
    lines.append(f"Rooms that you may read: {len(found)}, {kept} of them with archive")
    return CommandAnswer("\n".join(lines))


def _models(services: Services) -> str:
    shown = []
    for tier in Tier:
        route = services.router.route(tier)
        if route is not None:
            shown.append(f"{tier} {', '.join(model.name for model in route.models)}")
    return "; ".join(shown) or "none configured, answers are quotes"


async def rooms(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """List the rooms that the asker may read with their mode and switches."""
    return CommandAnswer("\n".join(room_line(room, services) for room in await readable_rooms_of(tx, call, services)))


async def readable_rooms_of(tx: Tx, call: CommandCall, services: Services) -> list[Room]:
    """Return the rooms that the asker may read, and the one where the asker is."""
    readable = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    known = readable | {call.room.id}
    return [room for room in await places.list_rooms(tx, call.community_id) if room.id in known]


def room_line(room: Room, services: Services) -> str:
    """Return one room with its switches."""
    archived = "archive on" if is_archived(room, services.archiving) else "archive off"
    more = [f"style {room.persona}"]
    more += ["speaks unasked"] if room.unattended else []
    more += ["staff"] if room.staff else []
    more += [f"quiet {written(room.quiet_hours)}"] if room.quiet_hours is not None else []
    return " · ".join([f"#{shown_name(room.name)}", room.kind, room.mode, archived, *more])


async def persona(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Choose the style pack of this room."""
    name = call.options["name"]
    if name not in services.personas:
        raise InputRejected(f"persona: there are {', '.join(services.personas)}")
    await places.save_persona(tx, call.room.id, name)
    return CommandAnswer(services.stock.pick(call.room.language, StockKey.COMMAND_DONE, 0))
