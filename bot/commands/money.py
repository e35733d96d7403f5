"""Budgets in words, and how they are set."""

from datetime import tzinfo
from decimal import Decimal, InvalidOperation

from bot.commands.spec import Access, CommandAnswer, CommandCall, Services
from core.domain.budgets import MAX_AMOUNT, Scope, Unit, Window
from core.domain.errors import InputRejected
from core.store import budgets, people
from core.store.engine import Tx
from core.store.usage import ModelUse, PurseUse, UsageReport

UNITS = {"answers": Unit.ANSWERS, "tokens": Unit.TOKENS, "usd": Unit.USD_MICRO, "calls": Unit.CALLS}
SCOPES = (Scope.PERSON, Scope.ROOM, Scope.COMMUNITY, Scope.DEPLOYMENT)
_WORDS = {unit: word for word, unit in UNITS.items()}
_OPERATOR_SCOPES = frozenset({Scope.PERSON, Scope.DEPLOYMENT})


def render_usage(report: UsageReport, scopes: frozenset[str], tz: tzinfo) -> str:
    """Return purses and calls of the scopes that the asker may see."""
    purses = [_purse(use, tz) for use in report.purses if use.scope in scopes]
    calls = [_calls(use) for use in report.models if use.scope in scopes]
    lines = ["Limits:", *(purses or ["none set"])]
    lines += ["", "Calls today:", *(calls or ["none"])]
    return "\n".join(lines)


def _purse(use: PurseUse, tz: tzinfo) -> str:
    used, limit = _amount(use.used + use.held, use.unit), _amount(use.limit, use.unit)
    reset = use.resets_at.astimezone(tz).strftime("%Y-%m-%d %H:%M %Z")
    held = f" ({_amount(use.held, use.unit)} of it held for calls under way)" if use.held else ""
    mark = " ⚠" if use.warn else ""
    return (
        f"{use.scope} · {_WORDS.get(use.unit, use.unit)} a {use.window}: {used} of {limit}{held}, returns {reset}{mark}"
    )


def _amount(amount: int | None, unit: Unit) -> str:
    if amount is None:
        return "no limit"
    return f"${amount / 1_000_000:.4f}" if unit is Unit.USD_MICRO else str(amount)


def _calls(use: ModelUse) -> str:
    price = "no price set" if use.unpriced == use.calls else f"${use.usd_micro / 1_000_000:.6f}"
    failed = f", {use.failed} failed" if use.failed else ""
    guess = ", tokens partly estimated" if use.estimated else ""
    return (
        f"{use.scope} · {use.model or 'no model'} for {use.purpose}: {use.calls} calls{failed},"
        f" {use.input_tokens} tokens read, {use.output_tokens} written, {price}{guess}"
    )


async def budget(tx: Tx, call: CommandCall, _: Services) -> CommandAnswer:
    """Show the purses, or set one: money, persons' and the deployment's are the operator's to set."""
    if call.options:
        missing = [name for name in ("scope", "unit", "amount") if name not in call.options]
        if missing:
            raise InputRejected(f"{missing[0]}: is needed to set a limit; /help void budget explains it")
        await _set(tx, call)
    return await usage(tx, call)


async def usage(tx: Tx, call: CommandCall) -> CommandAnswer:
    """Show the purses and calls that concern the asker: the community's to administrators, all to operators."""
    limits = await people.load_limits(tx, call.person_id)
    report = await budgets.usage_report(
        tx, call.person_id, call.room.id, call.community_id, call.now, limits=limits, deployment=call.operator
    )
    scopes = {"person", "room"}
    if Access.ADMIN in call.access:
        scopes.add("community")
    if Access.OPERATOR in call.access:
        scopes |= {"deployment", "passes"}
    return CommandAnswer(render_usage(report, frozenset(scopes), call.tz))


async def _set(tx: Tx, call: CommandCall) -> None:
    scope, unit = Scope(call.options["scope"]), UNITS[call.options["unit"]]
    if not call.operator and (unit is Unit.USD_MICRO or scope in _OPERATOR_SCOPES):
        raise InputRejected("budget: money, and the limits of persons and the deployment, are set by an operator")
    subject = {Scope.ROOM: str(call.room.id), Scope.COMMUNITY: str(call.community_id)}.get(scope, "")
    window = Window(call.options.get("window", Window.DAY))
    limit = _limit(call.options["amount"], unit)
    await budgets.set_purse(tx, scope, subject, unit, window, limit, by=f"person:{call.person_id}")


def _limit(text: str, unit: Unit) -> int | None:
    if text == "none":
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise InputRejected("amount: write a number, or none for no limit") from None
    if not amount.is_finite() or amount.copy_abs() > MAX_AMOUNT:  # before any arithmetic: an exponent can be huge
        raise InputRejected("amount: write a number of a size that means something, or none for no limit")
    scaled = amount * 1_000_000 if unit is Unit.USD_MICRO else amount
    if scaled != scaled.to_integral_value():
        raise InputRejected("amount: write a whole number; dollars may have up to six decimals")
    return int(scaled)
