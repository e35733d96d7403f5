"""`/void candidates`, and why nothing was said unasked: what waits to be said, and which rules hold it.

Its law: a candidate is told of only where the asker may read every room that it was made from and would be said in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.audience import Private
from core.domain.errors import InputRejected
from core.domain.ids import CommunityId, RoomId
from core.domain.mind.bodies import KIND_OF
from core.domain.mind.codes import Rejected
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.speech import Candidate, CandidateStatus, DeliveryMode
from core.domain.mind.values import EntryId, Text1000
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, Item
from core.domain.operations.speech import AdvanceCandidate, RetireCandidateIntervention
from core.domain.passes import PassName, Run, RunState
from core.domain.relative import relative
from core.domain.rooms import Room, RoomKind, RoomMode
from core.passes import telling
from core.passes.telling import Judged
from core.state.history import Sight, rooms_of
from core.state.telling import cut
from core.store import audit, mind_facts, passes, places, state
from core.store.engine import Tx

ACTS = ("list", "show", "approve", "deny")
SHOWN = 12
LOOKED_AT = 30
"""In how many of the newest runs a decision and reasons for silence are looked for."""
MOST_REASONS = 3
_REASON: TypeAdapter[str] = TypeAdapter(Text1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Desk:
    """One use of a command: who asks, of which mind, what they may see of it."""

    call: CommandCall
    services: Services
    mind_id: str
    sight: Sight

    @property
    def numbers(self) -> bool:
        """Whether the asker is told numbers, which speak of other rooms too."""
        return self.call.admin or self.call.operator


async def _desk(tx: Tx, call: CommandCall, services: Services) -> _Desk:
    mind_id = (await places.load_community(tx, call.community_id)).mind_id
    rooms = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    sight = Sight(rooms, await mind_facts.list_withdrawn(tx, mind_id))
    return _Desk(call=call, services=services, mind_id=mind_id, sight=sight)


async def candidates(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show what waits to be said unasked, and let it be said or not."""
    desk = await _desk(tx, call, services)
    match call.options.get("act", "list"):
        case "list":
            return await _list(tx, desk)
        case "show":
            entry, body = await _named(tx, desk)
            return CommandAnswer("\n".join([_line(desk, entry, body), *_whole(body)]), rooms_of(entry))
        case "approve":
            entry, body = await _named(tx, desk)
            if body.status is not CandidateStatus.AWAITING_APPROVAL:
                raise InputRejected(f"id: it is {_words(body)}; only what awaits approval can be approved")
            why = _reason(desk, "approved by an administrator")
            step = AdvanceCandidate(intervention_id=entry.id, to=CandidateStatus.APPROVED, reason=why)
            return await _do(tx, desk, entry, step, "Approved: it is said when its turn comes.")
        case _:
            entry, _ = await _named(tx, desk)
            why = _reason(desk, "denied by an administrator")
            given_up = RetireCandidateIntervention(intervention_id=entry.id, reason=why)
            return await _do(tx, desk, entry, given_up, "Denied: it is not said.")


def _reason(desk: _Desk, default: str) -> str:
    """Return why it is decided so.

    Raises:
        InputRejected: It is no reason that an operation can hold.
    """
    reason = desk.call.options.get("reason", "").strip() or default
    try:
        return _REASON.validate_python(reason)
    except ValidationError as exc:
        raise InputRejected("reason: write it in up to 1000 letters of plain text") from exc


async def _open(tx: Tx, mind_id: str) -> list[tuple[Entry, Candidate]]:
    held = await state.list_live(tx, mind_id, ["candidate"])
    found = [(each.entry, each.entry.body) for each in held if isinstance(each.entry.body, Candidate)]
    # What a person has to decide about comes first, then what matters most.
    waits = CandidateStatus.AWAITING_APPROVAL
    return sorted(found, key=lambda pair: (pair[1].status is not waits, -pair[1].priority, pair[0].id))


async def _list(tx: Tx, desk: _Desk) -> CommandAnswer:
    there = await _open(tx, desk.mind_id)
    seen = [(entry, body) for entry, body in there if desk.sight.shows(entry)]
    lines = [f"{_line(desk, entry, body)}: {cut(body.draft)}" for entry, body in seen[:SHOWN]]
    if not there:
        lines.append("Nothing waits to be said.")
    if len(seen) > SHOWN:
        lines.append(f"and {len(seen) - SHOWN} more")
    if hidden := len(there) - len(seen):
        lines.append(f"{hidden} others are of rooms that you may not read.")
    if any(body.status is CandidateStatus.AWAITING_APPROVAL for _, body in seen):
        lines.append("/void candidates approve ID lets one be said, /void candidates deny ID reason:… does not.")
        if await places.find_staff(tx, desk.call.community_id) is None:
            lines.append("Nobody was asked by a card: no room is the staff's. /void room staff on makes one.")
    rooms = frozenset[RoomId]().union(*(rooms_of(entry) for entry, _ in seen[:SHOWN]))
    return CommandAnswer("\n".join(lines), rooms)


async def approval_lines(tx: Tx, community_id: CommunityId) -> list[str]:
    """Return that something waits for a person's yes, and how to see it; nothing of what it is."""
    mind_id = (await places.load_community(tx, community_id)).mind_id
    held = [each.entry.body for each in await state.list_live(tx, mind_id, ["candidate"])]
    waits = sum(isinstance(body, Candidate) and body.status is CandidateStatus.AWAITING_APPROVAL for body in held)
    if not waits:
        return []
    shown = "" if await places.find_staff(tx, community_id) else "; no room is the staff's (/void room staff on)"
    return [f"Waiting for a yes before they are said: {waits}, see /void candidates{shown}"]


def _line(desk: _Desk, entry: Entry, body: Candidate) -> str:
    at = relative(entry.created_at, desk.call.now)
    return f"{entry.id} · {body.kind.value.replace('_', ' ')} · {_words(body)} · {at} · {_where(desk, body)}"


def _words(body: Candidate) -> str:
    return body.status.value.replace("_", " ")


def _where(desk: _Desk, body: Candidate) -> str:
    place = body.delivery_target
    if place is None:
        return "no place yet"
    if place.mode is DeliveryMode.OWNER_DM:
        return "to whoever runs me"
    return "here" if place.channel_id == desk.call.room.id else f"in room {place.channel_id}"


def _whole(body: Candidate) -> list[str]:
    return [f"why: {body.summary}", f"words: {body.draft}", f"priority {body.priority:.2f}"]


async def _named(tx: Tx, desk: _Desk) -> tuple[Entry, Candidate]:
    """Return the candidate that is named; one of a room that the asker may not read is as if it were not there."""
    name = desk.call.options.get("id", "").strip().removeprefix("candidate/")
    found = [(entry, body) for entry, body in await _open(tx, desk.mind_id) if entry.id == name]
    if not found or not desk.sight.shows(found[0][0]):
        raise InputRejected("id: nothing of this name waits that you may see; /void candidates lists it")
    return found[0]


async def _do(tx: Tx, desk: _Desk, entry: Entry, operation: Operation, done: str) -> CommandAnswer:
    call = desk.call
    item = Item(operation, f"candidate:{call.turn_id}", {entry.id: entry.version})
    actor = Actor(Emitter.OPERATOR, f"person:{call.person_id}")
    verdict = await desk.services.minds.apply(tx, Batch(mind_id=desk.mind_id, actor=actor, items=(item,)))
    recorded = verdict.items[0]
    if isinstance(recorded.verdict, Rejected):
        refusal = recorded.verdict
        return CommandAnswer(f"Not done: {refusal.code.value}, {refusal.message}.", rooms_of(entry), refused=True)
    details = {"act": call.options["act"], "id": entry.id, "row": recorded.seq}
    await audit.add(tx, call.person_id, call.path, f"room:{call.room.id}", details)
    return CommandAnswer(f"{done} This was op {recorded.seq}.", rooms_of(entry))


async def silence_lines(tx: Tx, call: CommandCall, services: Services) -> tuple[list[str], frozenset[RoomId]]:
    """Return why nothing was said in this room unasked, and the rooms that these words came from."""
    room = call.room
    if room.kind is RoomKind.DM:
        return [], frozenset()
    if not room.unattended or room.mode is RoomMode.SILENT:
        how = "/void room unattended on" if not room.unattended else "another /void mode"
        return [f"Unasked I say nothing here; an administrator could allow it with {how}."], frozenset()
    desk = await _desk(tx, call, services)
    group = (await services.minds.loader.groups.load(tx, desk.mind_id)).get(room.id)
    if group is None:
        return ["Unasked I say nothing here: I do not know who reads this room."], frozenset()
    runs = await passes.list_runs(tx, mind_id=desk.mind_id, name=PassName.RUMINATION, group=group, limit=LOOKED_AT)
    if not runs:
        return ["Unasked I have not thought of anything to say here yet."], frozenset()
    lines, rooms = await _decision_lines(tx, desk, runs)
    return [*_skip_lines(call, runs), *lines], rooms


def _skip_lines(call: CommandCall, runs: Sequence[Run]) -> list[str]:
    """Return why nothing was thought over since the last time that it was, each reason once."""
    newest: dict[str, Run] = {}
    for run in runs:
        if run.state is not RunState.SKIPPED:
            break
        newest.setdefault(run.reason, run)
    return [
        f"{relative(run.finished_at or run.created_at, call.now).capitalize()} I thought nothing over:"
        f" {telling.skip_words(reason)}."
        for reason, run in list(newest.items())[:MOST_REASONS]
    ]


async def _decision_lines(tx: Tx, desk: _Desk, runs: Sequence[Run]) -> tuple[list[str], frozenset[RoomId]]:
    """Return what the newest run decided about what would be said in this room."""
    run, decision = await _newest_decision(tx, runs)
    if run is None:
        return [], frozenset()
    when = relative(run.finished_at or run.created_at, desk.call.now)
    keys = {EntryId(each.id): each for each in decision}
    held = await state.load_entries(tx, desk.mind_id, [Key(KIND_OF["candidate"], id_) for id_ in sorted(keys)])
    entries = [each.entry for each in held]
    told = [entry for entry in entries if _of_this_room(entry, desk.call.room) and desk.sight.shows(entry)]
    lines = [_judged_line(desk, entry, keys[entry.id], when) for entry in told]
    if not told:
        lines.append(f"When I last thought things over ({when}), I found nothing to say here.")
    if desk.numbers and len(told) < len(decision):
        lines.append(f"{len(decision) - len(told)} other candidates were looked at in run {run.id}.")
    return lines, frozenset[RoomId]().union(*map(rooms_of, told))


async def _newest_decision(tx: Tx, runs: Sequence[Run]) -> tuple[Run | None, list[Judged]]:
    for run in runs:
        if run.state is not RunState.SKIPPED and (kept := await passes.get(tx, run.id, telling.DECISION)) is not None:
            return run, telling.judged(kept)
    return None, []


def _of_this_room(entry: Entry, room: Room) -> bool:
    body = entry.body
    place = body.delivery_target if isinstance(body, Candidate) else None
    return place is not None and place.channel_id == room.id


def _judged_line(desk: _Desk, entry: Entry, judged: Judged, when: str) -> str:
    """Return what became of a candidate."""
    kind = entry.body.kind.value.replace("_", " ") if isinstance(entry.body, Candidate) else "something"
    if not judged.held_by:
        return f"{when.capitalize()} I wanted to say something here ({kind}): {judged.end}."
    why = "; ".join(f"{by.words} ({by.detail})" if desk.numbers and by.detail else by.words for by in judged.held_by)
    return f"{when.capitalize()} I held something back here ({kind}): {why}."
