"""`/mind` and `/void mind`: what the mind holds, as far as this asker may hear it; why; and the way back by a plan."""

from collections.abc import Iterable, Mapping

from bot.commands.forgetting import expired
from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.audience import InRoom, Private, Venue
from core.domain.errors import InputRejected
from core.domain.ids import RoomId
from core.domain.mind.bodies import TYPES
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.projecting import CHAT_TOKENS, ViewWanted
from core.domain.relative import relative
from core.domain.rooms import RoomKind
from core.prompt.fences import shown_name
from core.prompt.tokens import estimate
from core.state import history, reversal, telling
from core.state.history import Explained, Sight
from core.state.projection import project
from core.state.reversal import UndoPlan
from core.store import audit, journal, mind_books, mind_facts, places, plans, state
from core.store.engine import Tx
from core.store.journal import JournalRow

ACTS = ("show", "ops", "explain", "undo", "pause", "resume")
SHOWN = 15
LOOKED_AT = 300
"""Among how many of the newest operations, or entries, those are looked for that the asker may see."""
_ACT = "void mind undo"


async def mind(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show what the mind holds that everyone may hear who reads here."""
    alone = call.room.kind is RoomKind.DM
    venue: Venue = Private(call.person_id) if alone else InRoom(call.room.id)
    readable = await services.readable.load(tx, call.community_id, venue, call.person_id)
    view = ViewWanted(
        room=call.room.id,
        readable=readable,
        private_to=call.person_id if alone else None,
        speaker=call.person_id,
    )
    section = await project(tx, await _mind_id(tx, call), view, call.now, CHAT_TOKENS, estimate)
    lines = ["What I hold that everyone may hear who reads here:"]
    held = (*section.self_view, *section.memories)
    lines += [f"· {each.label}: {telling.cut(each.text, telling.VALUE_CHARS)}" for each in held]
    if left := sum(each.left_out for each in section.trace):
        lines.append(f"… and {left} more")
    if not section.memories:
        lines.append("I remember nothing yet that I could tell here.")
    return CommandAnswer("\n".join(lines), section.packet.rooms)


async def void_mind(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show the mind to an administrator, explain an entry, undo an operation by a plan, or pause it."""
    desk = _Desk(call, services, await _mind_id(tx, call))
    if "plan" in call.options:
        return await _undo_planned(tx, desk, call.options["plan"])
    match call.options.get("act", "show"):
        case "ops":
            return await _ops(tx, desk)
        case "explain":
            return await _explain(tx, desk)
        case "undo":
            return await _undo(tx, desk)
        case "pause" | "resume" as act:
            return await _pause(tx, desk, paused=act == "pause")
        case _:
            return await _show(tx, desk)


class _Desk:
    """One use of the command: who asks, of which mind, and what they may see of it."""

    def __init__(self, call: CommandCall, services: Services, mind_id: str) -> None:
        self.call, self.services, self.mind_id = call, services, mind_id
        self.actor = Actor(Emitter.OPERATOR, f"person:{call.person_id}")

    async def sight(self, tx: Tx) -> Sight:
        """Return what the asker may read now, by themselves."""
        person = self.call.person_id
        rooms = await self.services.readable.load(tx, self.call.community_id, Private(person), person)
        return Sight(rooms, await mind_facts.list_withdrawn(tx, self.mind_id))

    @property
    def when(self) -> telling.When:
        """How a time is told: as it lies from now."""
        return lambda at: relative(at, self.call.now)


async def _mind_id(tx: Tx, call: CommandCall) -> str:
    return (await places.load_community(tx, call.community_id)).mind_id


async def _show(tx: Tx, desk: _Desk) -> CommandAnswer:
    sight = await desk.sight(tx)
    found = await state.find_mind(tx, desk.mind_id)
    counts = await state.count_live(tx, desk.mind_id, TYPES)
    held = await mind_books.list_newest(tx, desk.mind_id, LOOKED_AT, readable=sight.rooms)
    entries = [each.entry for each in held if sight.shows(each.entry)]
    there: dict[str, int] = {}
    for type_, sources, count in counts:
        if sources <= (sight.rooms or frozenset()):
            there[type_] = there.get(type_, 0) + count
    hidden = sum(count for _, _, count in counts) - sum(there.values())
    words = ", ".join(f"{count} {type_.replace('_', ' ')}" for type_, count in sorted(there.items())) or "nothing"
    paused = "It is paused: /void mind resume lets it take proposals again." if found and found.paused else ""
    others = f"; {hidden} others, of rooms that you may not read" if hidden else ""
    lines = [*filter(None, [paused]), f"The mind holds {words}{others}."]
    lines += [f"· {telling.name_of(entry)} — {telling.headline(entry)}" for entry in entries[:SHOWN]]
    lines.append("/void mind explain entry:… says where one comes from, /void mind ops what was done.")
    return CommandAnswer("\n".join(lines), _rooms(entries[:SHOWN]))


async def _ops(tx: Tx, desk: _Desk) -> CommandAnswer:
    sight = await desk.sight(tx)
    rows = await mind_books.list_operations(tx, desk.mind_id, LOOKED_AT)
    seen = [row for row in rows if sight.shows_row(row)]
    lines = [_line(desk, row) for row in seen[:SHOWN]] or ["Nothing was done that you may see."]
    if hidden := len(rows) - len(seen):
        lines.append(f"{hidden} others of the last {len(rows)} are of rooms that you may not read.")
    lines.append('/void mind undo op:… reason:"…" shows what an undo would do.')
    return CommandAnswer("\n".join(lines), _rooms_of_rows(seen[:SHOWN]))


def _line(desk: _Desk, row: JournalRow) -> str:
    touched = f" · {telling.touched_words(row)}" if row.touched else ""
    who = f" · {row.actor.kind}"
    return f"op {row.seq} · {desk.when(row.at)} · {row.op} · {telling.verdict_words(row)}{touched}{who}"


async def _explain(tx: Tx, desk: _Desk) -> CommandAnswer:
    name = desk.call.options.get("entry", "").strip()
    if not name:
        raise InputRejected("entry: name one, as /void mind show lists them")
    sight = await desk.sight(tx)
    entries = await history.find_entries(tx, desk.mind_id, name, sight)
    if len(entries) > 1:
        raise InputRejected(f"entry: it may be {' or '.join(map(telling.name_of, entries))}")
    if not entries:  # one of a room that the asker may not read is as if it were not there
        raise InputRejected("entry: there is none of this name that you may see")
    found = await history.explain(tx, desk.mind_id, entries[0], sight)
    rooms = _rooms([found.entry, *found.cited_by, *found.spoken]) | _rooms_of_rows(found.rows)
    return CommandAnswer(
        "\n".join(_explained(desk, found)), rooms.union(*(message.sources for message in found.messages))
    )


def _explained(desk: _Desk, found: Explained) -> list[str]:
    lines = [f"{telling.name_of(found.entry)} · {telling.standing(found.entry, desk.when)}"]
    lines += [f"  {line}" for line in telling.field_lines(found.entry)]
    lines += [
        f"rests on: {shown_name(m.author_name)} in #{shown_name(m.room_name)}, {desk.when(m.sent_at)}:"
        f" {telling.cut(m.text)}"
        for m in found.messages
    ]
    for row in found.rows[-SHOWN:]:
        reason = telling.reason_words(row)
        lines.append(_line(desk, row) + (f" · {reason}" if reason else ""))
    if found.cited_by:
        lines.append(f"on it rest: {', '.join(map(telling.name_of, found.cited_by[:SHOWN]))}")
    if found.spoken:
        lines.append(f"said from it: {', '.join(map(telling.name_of, found.spoken[:SHOWN]))}")
    if hidden := [f"{count} {what}" for what, count in found.hidden.items() if count]:
        lines.append(f"not shown, gone or of rooms that you may not read: {', '.join(hidden)}")
    return lines


async def _undo(tx: Tx, desk: _Desk) -> CommandAnswer:
    seq, reason = _seq(desk), desk.call.options.get("reason", "")
    plan = await reversal.plan_undo(tx, desk.services.minds, desk.mind_id, desk.actor, seq, reason)
    sight = await desk.sight(tx)
    # Newest first: the one that is meant is the last; a number alone says nothing of what it stands for.
    meant = await journal.find_row(tx, desk.mind_id, seq)
    if meant is None or not meant.accepted or not sight.shows_row(meant):
        raise InputRejected(f"op: {seq} is none that was accepted and that you may see; /void mind ops lists them")
    if plan.refused is not None:
        return CommandAnswer(_refused(plan.refused), _rooms_of_rows([meant]), refused=True)
    hidden = sum(not sight.shows_row(row) for row in plan.rows)
    if hidden or not all(map(sight.shows, plan.touched)):
        raise InputRejected(
            "op: on it rests what was made of rooms that you may not read; an operator can undo it,"
            f" with `voidbot mind undo {seq}`"
        )
    arguments = {"op": seq, "reason": reason, "cascade": list(plan.cascade)}
    code = await plans.offer(tx, desk.call.person_id, desk.call.community_id, _ACT, arguments)
    return CommandAnswer("\n".join(_previewed(desk, plan, code)), _rooms(plan.touched) | _rooms_of_rows(plan.rows))


def _seq(desk: _Desk) -> int:
    options = desk.call.options
    number = options.get("op") or options.get("entry") or ""
    if not number.isdecimal() or len(number) > 18:
        raise InputRejected("op: name the number of an operation, as /void mind ops lists them")
    return int(number)


def _previewed(desk: _Desk, plan: UndoPlan, code: str) -> list[str]:
    lines = [f"Undoing op {plan.seq} would do this:"]
    for change in plan.changes:
        lines += telling.change_lines(change)
    if plan.cascade:
        lines.append(f"{len(plan.cascade)} later operations rest on it and would be undone as well:")
        lines += [f"  {_line(desk, row)}" for row in plan.rows[:-1][:SHOWN]]
    lines += [f"It can be undone in its turn. To do it: /void mind plan:{code}"]
    return lines


async def _undo_planned(tx: Tx, desk: _Desk, code: str) -> CommandAnswer:
    call = desk.call
    plan = await plans.take(tx, code, call.person_id, call.community_id, _ACT)
    if plan is None:
        return expired(call, desk.services)
    operation = reversal.read_undo(plan.arguments["op"], plan.arguments["reason"], plan.arguments["cascade"])
    await state.lock_mind(tx, desk.mind_id)
    sight = await desk.sight(tx)
    rows = await journal.list_rows(tx, desk.mind_id, [operation.seq, *operation.cascade])
    if not all(map(sight.shows_row, rows)):  # a room was closed to the asker meanwhile
        return expired(call, desk.services)
    done = await reversal.carry_out(tx, desk.services.minds, desk.mind_id, desk.actor, operation, f"op:{call.turn_id}")
    if isinstance(done.verdict, Rejected):
        if done.verdict.code in (RejectionCode.STALE_VERSION, RejectionCode.UNDO_HAS_DEPENDENTS):
            return expired(call, desk.services)
        return CommandAnswer(_refused(done.verdict), _rooms_of_rows(rows), refused=True)
    await _note(tx, desk, {"undo": operation.seq, "row": done.seq, "cascade": len(operation.cascade)})
    with_ = f" with {len(operation.cascade)} that rested on it" if operation.cascade else ""
    return CommandAnswer(f"Op {operation.seq} is undone{with_}. This was op {done.seq}.")


def _refused(refusal: Rejected) -> str:
    return f"Not undone: {refusal.code.value}, {refusal.message}. {reversal.way_out(refusal.code)}."


async def _pause(tx: Tx, desk: _Desk, *, paused: bool) -> CommandAnswer:
    minds = {each.id: each.communities for each in await mind_books.list_minds(tx)}
    if len(minds[desk.mind_id]) > 1 and not desk.call.operator:
        raise InputRejected("act: communities share this mind; an operator can do this, with `voidbot mind pause`")
    await state.set_paused(tx, desk.mind_id, paused)
    await _note(tx, desk, {"paused": paused})
    if paused:
        return CommandAnswer("The mind is paused: nothing that I think of is kept until /void mind resume.")
    return CommandAnswer("The mind takes proposals again.")


async def _note(tx: Tx, desk: _Desk, details: Mapping[str, object]) -> None:
    await audit.add(tx, desk.call.person_id, desk.call.path, f"room:{desk.call.room.id}", details)


def _rooms(entries: Iterable[Entry]) -> frozenset[RoomId]:
    return frozenset[RoomId]().union(*(entry.sources for entry in entries))


def _rooms_of_rows(rows: Iterable[JournalRow]) -> frozenset[RoomId]:
    return _rooms([touched.entry for row in rows for touched in row.touched])
