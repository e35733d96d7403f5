"""What members see of what was done to them, and what they say against it; the same for the staff."""

from bot.commands.cases import named_member
from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.errors import InputRejected
from core.domain.ids import PersonId
from core.domain.moderation.cases import Evidence
from core.domain.moderation.sanctions import Sanction, SanctionId, SanctionKind
from core.domain.relative import relative
from core.domain.rooms import RoomKind
from core.moderation.appeals import newest_of
from core.moderation.cards import quoted
from core.moderation.informing import sanction_words
from core.prompt.fences import shown_name
from core.store import appeals, audit, cases, ledger, people
from core.store.engine import Tx

SHOWN = 10
NUMBER_CHARS = 18


async def my_record(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show a member what stands about them, with reasons and their own words; never who reported, or staff notes."""
    direct = call.room.kind is RoomKind.DM  # from outside too: whoever is banned has no other room
    found = await ledger.list_about(tx, call.person_id) if direct else await _about(tx, call, call.person_id)
    found = [each for each in found if each.kind is not SanctionKind.NOTE]  # notes are the staff's own
    if not found:
        return CommandAnswer("Nothing stands about you here.")
    lines = []
    for each in found[:SHOWN]:
        reason = await ledger.reason_of(tx, each.id)
        lines.append(_line(each, call) + (f": {reason}" if reason else ""))
        quote = quoted(await _own_words(tx, each, call.person_id))
        lines += [quote] if quote else []
        appeal = await appeals.find_of(tx, each.id)
        if appeal is not None:
            lines.append("your appeal: " + {None: "waits", True: "granted", False: "refused"}[appeal.granted])
    lines.append("/appeal sanction:N says why one of them is wrong, within 30 days.")
    return CommandAnswer("\n".join(lines))


async def _about(tx: Tx, call: CommandCall, person_id: PersonId) -> list[Sanction]:
    subject = await ledger.subject_of(tx, call.community_id, person_id)
    return await ledger.list_of(tx, call.community_id, subject)


async def _own_words(tx: Tx, sanction: Sanction, person_id: PersonId) -> list[Evidence]:
    evidence = [] if sanction.case_id is None else await cases.list_evidence(tx, sanction.case_id)
    return [each for each in evidence if each.author_id == person_id]


def _line(sanction: Sanction, call: CommandCall) -> str:
    ends = ""
    if sanction.reversed_at is not None:
        ends = " · taken back"
    elif sanction.expires_at is not None:
        ends = f" · until {sanction.expires_at.astimezone(call.tz):%Y-%m-%d %H:%M}"
    when = relative(sanction.created_at, call.now)
    return f"{sanction.id} · {sanction_words(sanction)} · rule {sanction.rule_id} · {when}{ends}"


async def appeal(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Take in what a member says against a sanction; from outside of the community by a direct message."""
    named = call.options.get("sanction")
    if named is None:
        sanction_id = await newest_of(tx, await ledger.list_about(tx, call.person_id))
        if sanction_id is None:
            raise InputRejected("sanction: nothing stands about you that you could appeal against")
    else:
        sanction_id = SanctionId(_number(named, "sanction"))
    added = await services.moderation.appeals.appeal(tx, call.person_id, sanction_id, call.options["text"])
    return CommandAnswer(
        f"Appeal {added} against sanction {sanction_id} is with the staff; you hear what becomes of it."
    )


def _number(text: str, option: str) -> int:
    text = text.strip().lstrip("#")
    if not text.isdecimal() or len(text) > NUMBER_CHARS:
        raise InputRejected(f"{option}: write its number")
    return int(text)


async def history(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show the staff what stands about a member."""
    member = await named_member(tx, call)
    if member == call.person_id:
        raise InputRejected("member: that is you; /my-record shows what stands about you")
    found = await _about(tx, call, member)
    name = shown_name((await people.names_of(tx, [member])).get(member, "somebody"))
    lines = [_line(each, call) for each in found[:SHOWN]] or [f"Nothing stands about {name}."]
    if any(each.kind is not SanctionKind.STRIKE and each.reversed_at is None for each in found):
        lines.append("/void cases act:reverse id:N takes one back with its whole case.")
    return CommandAnswer("\n".join(lines))


async def reverse(tx: Tx, call: CommandCall, services: Services, sanction_id: SanctionId) -> CommandAnswer:
    """Take a sanction back, with everything that its case led to."""
    sanction = await ledger.find(tx, sanction_id)
    if sanction is None or sanction.community_id != call.community_id:
        raise InputRejected(f"id: there is no sanction {sanction_id} here; /void cases act:history lists a member's")
    if await ledger.person_of(tx, sanction) == call.person_id:
        raise InputRejected(f"id: sanction {sanction_id} is about you; somebody else takes it back")
    desk = services.moderation
    reason = call.options.get("reason", "").strip()
    case = await desk.reversal.reverse(tx, sanction_id, call.person_id, reason)
    if case is not None:
        await desk.cards.bring_up_to_date(tx, case)
    await audit.add(tx, call.person_id, call.path, f"sanction:{sanction_id}", {"reversed": sanction_id})
    return CommandAnswer(f"Sanction {sanction_id} is taken back. Messages that are gone stay gone.")


async def list_appeals(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show the appeals that wait, with what is said, but none of the asker's own."""
    found = [each for each in await appeals.list_open(tx, call.community_id) if each.person_id != call.person_id]
    names = await people.names_of(tx, sorted({each.person_id for each in found}))
    lines = []
    for each in found[:SHOWN]:
        sanction = await ledger.find(tx, each.sanction_id)
        about = "" if sanction is None else f" against {sanction_words(sanction)} under {sanction.rule_id}"
        case = "" if sanction is None or sanction.case_id is None else f", case {sanction.case_id}"
        name = shown_name(names.get(each.person_id, "somebody"))
        lines.append(f"appeal {each.id} by {name}{about}{case}, {relative(each.at, call.now)}")
        lines += [f"> {line}" for line in each.text.splitlines()]
    lines.append("/void cases act:grant or act:refuse with id:N decides one." if found else "No appeal waits.")
    return CommandAnswer("\n".join(lines))


async def decide_appeal(tx: Tx, call: CommandCall, services: Services, *, granted: bool) -> CommandAnswer:
    """Grant or refuse an appeal."""
    number = _number(call.options.get("id", ""), "id")
    found = await appeals.find(tx, number, lock=True)
    sanction = None if found is None else await ledger.find(tx, found.sanction_id)
    if found is None or sanction is None or sanction.community_id != call.community_id:
        raise InputRejected(f"id: there is no appeal {number} here; /void cases act:appeals lists them")
    reason = call.options.get("reason", "").strip()
    desk = services.moderation
    case = await desk.appeals.decide(tx, found, call.person_id, granted=granted, reason=reason)
    if case is not None:
        await desk.cards.bring_up_to_date(tx, case)
    await audit.add(tx, call.person_id, call.path, f"appeal:{number}", {"granted": granted})
    return CommandAnswer(f"Appeal {number} is {'granted: everything is taken back' if granted else 'refused'}.")
