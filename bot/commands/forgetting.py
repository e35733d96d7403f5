"""Commands that erase: oneself, or a matter for the community. First a preview with a plan, then the plan."""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.audience import Private
from core.domain.erasure import EraseScope, Reach, scope_of
from core.domain.errors import InputRejected
from core.domain.ids import PersonId, RoomId
from core.privacy.erasure import erase_job
from core.prompt.fences import shown_name
from core.prompt.stock import StockKey
from core.store import audit, erasures, jobs, people, places, plans, preview
from core.store.engine import Tx

SCOPES = ("all", "community", "facts")
MATTER_MOST = 10_000
"""How many messages one topic may have; more wants a room or a time."""
MATTER_TOPIC_CHARS = 3
_STAYS = (
    "what others wrote, even about you; messages on the platform itself; backups, until one is restored: then this is"
    " done again"
)
_AGO = re.compile(r"(\d{1,4})\s*([hdw])")
_SPAN = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


async def forget_me(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show what would be erased of the asker and under which plan; with the plan, begin."""
    code = call.options.get("plan")
    if code is not None:
        plan = await plans.take(tx, code, call.person_id, call.community_id, "forget-me")
        if plan is None:
            return expired(call, services)
        return await start_erasure(tx, call, services, scope_of(plan.arguments), call.person_id)
    if await erasures.find_running(tx, call.person_id) is not None:
        raise InputRejected("erasure: one of yours is under way; you hear when it is done")
    scope = await _scope_of_person(tx, call, services)
    counted = await preview.count_person(tx, scope, call.person_id)
    code = await plans.offer(tx, call.person_id, call.community_id, "forget-me", scope.as_json())
    what = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counted.items() if n) or "nothing that is kept now"
    if scope.whole:
        what += ", and everything else that stands under your account"
    return preview_of(call, services, f"erase of you: {what}", _STAYS, code)


async def _scope_of_person(tx: Tx, call: CommandCall, services: Services) -> EraseScope:
    scope, named = call.options.get("scope", "all"), call.options.get("rooms")
    since, before = _moment(call, "since"), _moment(call, "before")
    if scope == "facts":
        return EraseScope(reach=Reach.FACTS)
    rooms: tuple[RoomId, ...] | None = None
    if named is not None:
        rooms = await _rooms(tx, call, named, await _rooms_of_person(tx, call, services))
    elif scope == "community":
        rooms = await _rooms(tx, call, None)
    if rooms is None and since is None and before is None:
        return EraseScope(reach=Reach.PERSON)
    return EraseScope(reach=Reach.MESSAGES, rooms=rooms, since=since, before=before)


async def _rooms_of_person(tx: Tx, call: CommandCall, services: Services) -> frozenset[RoomId]:
    """Return the rooms that the person may name: of any other one a name would tell whether it is there."""
    readable = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    spoken = {kept.room_id for kept in await preview.count_rooms(tx, [call.person_id])}
    return readable | spoken | {call.room.id}


async def _rooms(
    tx: Tx, call: CommandCall, named: str | None, readable: frozenset[RoomId] | None = None
) -> tuple[RoomId, ...]:
    """Return the community's rooms of these names, all of them if none is named; `readable`: only of those."""
    known = await places.list_rooms(tx, call.community_id)
    allowed = [room for room in known if readable is None or room.id in readable]
    if named is None:
        return tuple(room.id for room in allowed)
    found: list[RoomId] = []
    for word in re.split(r"[\s,]+", named.strip()):
        name = word.lstrip("#").casefold()
        hits = [room.id for room in allowed if name in (room.name.casefold(), room.key.chat_ref.casefold())]
        if not hits:
            raise InputRejected(f"rooms: there is none called {shown_name(name)} here")
        found += hits
    return tuple(found)


def _moment(call: CommandCall, name: str) -> datetime | None:
    text = call.options.get(name)
    if text is None:
        return None
    if (ago := _AGO.fullmatch(text)) is not None:
        return call.now - int(ago[1]) * _SPAN[ago[2]]
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=call.tz).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputRejected(f"{name}: write a date like 2026-05-07, or 3h, 2d, 1w") from None


async def forget(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show which messages of a topic, a room or a time would be erased for everybody; with the plan, begin."""
    code = call.options.get("plan")
    if code is not None:
        return await _forget_planned(tx, call, services, code)
    if not {"topic", "before", "room"} & call.options.keys():
        raise InputRejected('forget: name a topic, a room or a time, as in /void forget topic:"the move"')
    scope, state, count = await _matter(tx, call, services, call.options)
    code = await plans.offer(tx, call.person_id, call.community_id, "void forget", dict(call.options), state)
    rooms = len(scope.rooms or ())
    what = f"erase {count} messages in {rooms} rooms for everybody, with what I made and said from them"
    return preview_of(call, services, what, "messages on the platform itself; backups, until one is restored", code)


async def _forget_planned(tx: Tx, call: CommandCall, services: Services, code: str) -> CommandAnswer:
    plan = await plans.take(tx, code, call.person_id, call.community_id, "void forget")
    if plan is None:
        return expired(call, services)
    scope, state, _ = await _matter(tx, call, services, plan.arguments)
    if state != plan.state:  # what would go has changed since: a new preview
        return expired(call, services)
    return await start_erasure(tx, call, services, scope, None)


async def _matter(
    tx: Tx, call: CommandCall, services: Services, given: Mapping[str, str]
) -> tuple[EraseScope, str, int]:
    """Return the scope of a matter, what it would reach now as one word, and how many messages that is."""
    readable = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    rooms = await _rooms(tx, call, given.get("room"), readable | {call.room.id})
    before, topic = _before(call, given.get("before")), " ".join(given.get("topic", "").split())
    if topic and len(topic) < MATTER_TOPIC_CHARS:
        raise InputRejected(f"topic: write at least {MATTER_TOPIC_CHARS} characters")
    if not topic:
        count = await preview.count_matter(tx, rooms, before)
        return EraseScope(reach=Reach.MATTER, rooms=rooms, before=before), str(count), count
    found = await preview.list_matter(tx, rooms, before, topic, MATTER_MOST + 1)
    if len(found) > MATTER_MOST:
        raise InputRejected(f"topic: more than {MATTER_MOST} messages hold it; name a room or a time as well")
    state = hashlib.sha256(",".join(map(str, found)).encode()).hexdigest()
    scope = EraseScope(reach=Reach.MATTER, rooms=rooms, before=before, messages=tuple(found))
    return scope, state, len(found)


def _before(call: CommandCall, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=call.tz).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputRejected("before: write a date like 2026-05-07") from None


async def start_erasure(
    tx: Tx, call: CommandCall, services: Services, scope: EraseScope, person_id: PersonId | None
) -> CommandAnswer:
    """Write the erasure down, block its person if nothing is to be left, and queue the job: one transaction."""
    platform, account = await people.find_account(tx, call.person_id)
    key = services.privacy.key
    number = await erasures.write_down(
        tx,
        scope,
        key_id=key.id,
        key_hash="" if person_id is None else key.person(platform, account),
        person_id=person_id,
        community_id=call.community_id,
        room_id=call.room.id,
        front_end=call.front_end,
        trace=call.trace,
    )
    if person_id is not None and scope.whole:
        await erasures.block(tx, person_id)
    await audit.add(tx, person_id or call.person_id, call.path, f"room:{call.room.id}", {"erasure": number})
    await jobs.enqueue(tx, [erase_job(number, trace=call.trace)])
    lines = [f"Erasure {number} has begun."]
    if person_id is not None:
        lines.append("You get a summary when it is done.")
    if person_id is not None and scope.whole:
        lines.append("Until then I take nothing in from you; afterwards we have never met.")
    return CommandAnswer(" ".join(lines))


def preview_of(call: CommandCall, services: Services, what: str, stays: str, code: str) -> CommandAnswer:
    """Show what an erasure would do, and the plan under which it begins."""
    text = services.stock.pick(call.room.language, StockKey.COMMAND_PREVIEW, 0, what=what, stays=stays, plan=code)
    return CommandAnswer(f"{text}\n/{call.path} plan:{code}")


def expired(call: CommandCall, services: Services) -> CommandAnswer:
    """Say that a plan is not, or no longer, the asker's to use."""
    return CommandAnswer(services.stock.pick(call.room.language, StockKey.COMMAND_EXPIRED_PLAN, 0), refused=True)
