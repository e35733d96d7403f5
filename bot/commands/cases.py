"""`/void cases`: what the staff should look at, who has it, and what is decided; the same acts as below the cards.

Its law: nobody sees a case about themselves, only administrators see one about the staff, and what was said is
shown only to those who may read the room that it was said in.
"""

from collections.abc import Sequence
from datetime import timedelta

from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.audience import Private
from core.domain.errors import Conflict, InputRejected
from core.domain.ids import PersonId, RoomId
from core.domain.moderation.cases import Case, CaseId, Evidence, outcome_words
from core.domain.moderation.ladder import ASK, read_step, step_words
from core.domain.moderation.rules import Step
from core.domain.relative import relative
from core.moderation.cards import list_missing, quoted
from core.prompt.fences import shown_name
from core.store import archive, audit, cases, mod_rules, people
from core.store.cases import CaseFilter
from core.store.engine import Tx

ACTS = ("list", "show", "take", "decide", "dismiss", "context", "sanction")
SHOWN = 15
CONTEXT_LINES = 6
LINE_CHARS = 200
CONTEXT_OF = timedelta(hours=1)


async def about_cases(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """List and show cases, take one, decide it, or do something without one."""
    match call.options.get("act", "list"):
        case "show":
            return await _show(tx, call, services)
        case "context":
            return await _context(tx, call, services)
        case "take":
            return await _take(tx, call, services)
        case "decide" | "dismiss" as act:
            return await _decide(tx, call, services, dismissed=act == "dismiss")
        case "sanction":
            return await _sanction(tx, call, services)
        case _:
            return await _list(tx, call)


async def _list(tx: Tx, call: CommandCall) -> CommandAnswer:
    options = call.options
    wanted = CaseFilter(
        rule_id=options.get("rule"),
        severity=int(options["severity"]) if "severity" in options else None,
        assigned_to=call.person_id if options.get("mine") == "yes" else None,
        admin=call.admin or call.operator,
        not_about=call.person_id,
        limit=SHOWN + 1,
    )
    found = await cases.list_cases(tx, call.community_id, wanted)
    names = await people.names_of(tx, [case.assigned_to for case in found if case.assigned_to is not None])
    lines = [_line(case, call, names) for case in found[:SHOWN]]
    if not found:
        lines.append("No case waits for a decision.")
    if len(found) > SHOWN:
        lines.append(f"and more; rule:…, severity:… or mine:yes narrow it to less than {SHOWN}.")
    lines.append("/void cases show id:N tells more; decide, dismiss and take do what the buttons do.")
    return CommandAnswer("\n".join(lines))


def _line(case: Case, call: CommandCall, names: dict[PersonId, str]) -> str:
    holder = "" if case.assigned_to is None else f" · taken by {shown_name(names.get(case.assigned_to, 'somebody'))}"
    about = " · about the staff" if case.about_staff else ""
    when = relative(case.created_at, call.now)
    return f"{case.id} · {case.rule_id} (severity {case.severity}) · {step_words(case.step)} · {when}{holder}{about}"


async def seen_case(tx: Tx, call: CommandCall) -> Case:
    """Return the case that is named.

    Raises:
        InputRejected: There is none that the asker may see.
    """
    number = call.options.get("id", "").strip().lstrip("#")
    if not number.isdecimal() or len(number) > 18:
        raise InputRejected("id: write the number of a case, as /void cases lists them")
    case = await cases.load(tx, CaseId(int(number)))
    hidden = case is not None and case.about_staff and not (call.admin or call.operator)
    if case is None or case.community_id != call.community_id or case.subject_id == call.person_id or hidden:
        raise InputRejected(f"id: there is no case {number} that you may see; /void cases lists them")
    return case


async def _may_read(
    tx: Tx, call: CommandCall, services: Services, evidence: Sequence[Evidence]
) -> tuple[list[Evidence], frozenset[RoomId]]:
    readable = await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)
    shown = [each for each in evidence if each.room_id in readable or each.room_id == call.room.id]
    return shown, frozenset(each.room_id for each in shown)


async def _show(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    case = await seen_case(tx, call)
    evidence = await cases.list_evidence(tx, case.id)
    shown, rooms = await _may_read(tx, call, services, evidence)
    rule = await services.moderation.rulebook.find(tx, case.community_id, case.rule_id, case.rule_version)
    words = "" if rule is None else f": {rule.words(call.room.language)}"
    who = await _name(tx, case.subject_id)
    lines = [
        f"Case {case.id} · {case.rule_id} v{case.rule_version}{words}",
        f"level {case.level}{', dry run' if case.dry_run else ''} · severity {case.severity} · found by {case.lane}",
        f"about {who} · strikes that count, with this one: {case.strikes} · proposed: {step_words(case.step)}",
        quoted(shown),
    ]
    if len(shown) < len(evidence):
        lines.append(f"{len(evidence) - len(shown)} messages are of rooms that you may not read.")
    for signal in (await mod_rules.list_signals(tx, case.id))[-5:]:
        what = f" ({signal.what})" if signal.what else ""
        lines.append(f"found: {signal.detector}{what} {signal.value:g}, from {signal.threshold:g} on")
    if reports := await cases.count_reports(tx, case.id):
        lines.append(f"reported by {reports} members")
    lines += await _events(tx, call, case)
    hold = f" · {case.hold_reason}" if case.hold_reason else ""
    lines.append(f"now: {outcome_words(case, await list_missing(tx, case.id))}{hold} (version {case.version})")
    return CommandAnswer("\n".join(filter(None, lines)), rooms)


async def _events(tx: Tx, call: CommandCall, case: Case) -> list[str]:
    rows = (await cases.list_events(tx, case.id))[-8:]
    names = await people.names_of(tx, [PersonId(row["person_id"]) for row in rows if row["person_id"] is not None])
    found = []
    for row in rows:
        by = "" if row["person_id"] is None else f" by {shown_name(names.get(row['person_id'], 'somebody'))}"
        step = f": {row['details']['step']}" if row["details"].get("step") else ""
        found.append(f"· {relative(row['at'], call.now)} {row['act'].replace('_', ' ')}{by}{step}")
    return found


async def _name(tx: Tx, person_id: PersonId | None) -> str:
    if person_id is None:
        return "nobody"
    return shown_name((await people.names_of(tx, [person_id])).get(person_id, "somebody"))


async def _context(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show what was said before, where the asker may read it."""
    case = await seen_case(tx, call)
    shown, rooms = await _may_read(tx, call, services, await cases.list_evidence(tx, case.id))
    if not shown:
        raise InputRejected(f"id: what case {case.id} is about was said where you may not read")
    lines = []
    first = shown[0]
    before = await archive.list_transcript(
        tx, [first.room_id], first.room_id, limit=CONTEXT_LINES, since=first.sent_at - CONTEXT_OF, until=first.sent_at
    )
    for each in before:
        text = " ".join(each.text.split())
        cut = text if len(text) <= LINE_CHARS else f"{text[:LINE_CHARS]} […]"
        lines.append(f"> {shown_name(each.author_name)}: {cut}")
    if not lines:
        lines.append("Nothing of what was said before is kept.")
    lines.append(quoted(shown))
    if not case.status.waits:
        return CommandAnswer("\n".join(lines), rooms)
    await services.moderation.cards.bring_up_to_date(tx, case)
    return CommandAnswer("\n".join(lines), rooms)


async def _take(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    case = await seen_case(tx, call)
    desk = services.moderation
    try:
        taken = await desk.casework.take(tx, case.id, call.person_id)
    except Conflict as exc:
        raise InputRejected(str(exc)) from exc
    await desk.cards.bring_up_to_date(tx, taken)
    if taken.assigned_to is None:
        return CommandAnswer(f"Case {case.id} is let go; anybody of the staff can take it.")
    return CommandAnswer(f"Case {case.id} is yours for a day. /void cases show id:{case.id} tells more.")


def _step_of(call: CommandCall, case: Case | None) -> Step:
    written = call.options.get("step")
    if written is None:
        if case is None or case.step == ASK:
            raise InputRejected('step: say what is to be done, as in step:warn or step:"timeout 1h"')
        return case.step
    try:
        return read_step(written)
    except ValueError as exc:
        raise InputRejected(str(exc)) from exc


async def _decide(tx: Tx, call: CommandCall, services: Services, *, dismissed: bool) -> CommandAnswer:
    case = await seen_case(tx, call)
    version = int(call.options["version"]) if "version" in call.options else case.version
    step = None if dismissed else _step_of(call, case)
    desk = services.moderation
    reason = call.options.get("reason", "").strip()
    try:
        done = await desk.casework.decide(tx, case.id, version, step, by=call.person_id, reason=reason)
    except Conflict as exc:
        raise InputRejected(await _too_late(tx, call, case)) from exc
    await desk.cards.bring_up_to_date(tx, done)
    details = {"case": case.id, "step": "dismissed" if step is None else step_words(step)}
    await audit.add(tx, call.person_id, call.path, f"case:{case.id}", details)
    return CommandAnswer(f"Case {case.id}: {outcome_words(done)}.")


async def _too_late(tx: Tx, call: CommandCall, case: Case) -> str:
    now = await cases.load(tx, case.id)
    if now is None or now.decided_by is None or now.decided_at is None:
        return f"Case {case.id} has changed since you saw it; /void cases show id:{case.id} tells how it stands."
    return (
        f"Case {case.id}: already decided by {await _name(tx, now.decided_by)}, {relative(now.decided_at, call.now)}."
    )


async def named_member(tx: Tx, call: CommandCall, option: str = "member") -> PersonId:
    """Return the one member that is named, by name or by the platform's id.

    Raises:
        InputRejected: Nobody is, or several are.
    """
    wanted = call.options.get(option, "").strip().removeprefix("<@").removeprefix("!").removesuffix(">").lstrip("@")
    if not wanted:
        raise InputRejected(f"{option}: say whom, as in {option}:@name")
    found = await people.list_named(tx, call.community_id, wanted)
    if not found:
        standing = await people.find_person(tx, call.room.key.platform, wanted, call.community_id)
        found = [] if standing is None else [standing.id]
    if not found:
        raise InputRejected(f"{option}: nobody here is called {wanted}; the platform's id of the account works too")
    if len(found) > 1:
        raise InputRejected(
            f"{option}: {len(found)} members are called {wanted}; write the platform's id of the account"
        )
    return found[0]


async def _sanction(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    rule = call.options.get("rule")
    if rule is None:
        raise InputRejected("rule: say under which, as in rule:flood; /rules lists them")
    reason = call.options.get("reason", "").strip()
    if not reason:
        raise InputRejected("reason: say why, in quotes; the member is told")
    subject, step = await named_member(tx, call), _step_of(call, None)
    desk = services.moderation
    done = await desk.casework.sanction(tx, call.room, subject, rule, step, by=call.person_id, reason=reason)
    details = {"case": done.id, "step": step_words(step), "rule": rule}
    await audit.add(tx, call.person_id, call.path, f"case:{done.id}", details)
    return CommandAnswer(f"Case {done.id}: {outcome_words(done)}.")
