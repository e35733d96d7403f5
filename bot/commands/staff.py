"""`/void cases`, whole: what concerns cases, and what concerns the ledger and appeals against it."""

from bot.commands.cases import ACTS as CASE_ACTS
from bot.commands.cases import about_cases, seen_case
from bot.commands.spec import CommandAnswer, CommandCall, Services
from bot.commands.standing import NUMBER_CHARS, decide_appeal, history, list_appeals, reverse
from core.domain.errors import InputRejected
from core.domain.moderation.sanctions import SanctionId, SanctionKind
from core.store import ledger
from core.store.engine import Tx

ACTS = (*CASE_ACTS, "undo", "history", "reverse", "appeals", "grant", "refuse")


async def void_cases(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Do what the option `act` says."""
    match call.options.get("act", "list"):
        case "undo":
            return await _undo(tx, call, services)
        case "history":
            return await history(tx, call, services)
        case "reverse":
            number = call.options.get("id", "")
            if not number.isdecimal() or len(number) > NUMBER_CHARS:
                raise InputRejected("id: write the number of a sanction, as act:history lists them")
            return await reverse(tx, call, services, SanctionId(int(number)))
        case "appeals":
            return await list_appeals(tx, call, services)
        case "grant" | "refuse" as act:
            return await decide_appeal(tx, call, services, granted=act == "grant")
        case _:
            return await about_cases(tx, call, services)


async def _undo(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Take back what a case led to: what the button below a card that is done does."""
    case = await seen_case(tx, call)
    rows = [row for row in await ledger.list_of_case(tx, case.id) if row.kind is not SanctionKind.STRIKE]
    if not rows:
        raise InputRejected(f"id: case {case.id} led to nothing that could be taken back")
    return await reverse(tx, call, services, rows[0].id)
