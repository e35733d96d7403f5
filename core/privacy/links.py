"""Linking two accounts of one person: a code from one side, a confirming code from the other, notices to both."""

from dataclasses import dataclass

from core.domain.errors import InputRejected
from core.domain.ids import PersonId, RoomId
from core.privacy.desk import Desk
from core.privacy.hand import Telling
from core.store import facts, links, people, rates
from core.store.engine import Tx
from core.store.plans import new_code

TRY_COSTS_S = 120.0
TRIES_WITHIN_S = 600.0
"""Five codes may be entered in ten minutes, right or wrong."""
OFFER, CONFIRM = "offer", "confirm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The account that types, and where."""

    person_id: PersonId
    room_id: RoomId
    front_end: str
    trace: str


async def offer(tx: Tx, desk: Desk, side: Side) -> str:
    """Return the words with a code that the other account has to enter."""
    code = new_code()
    await links.offer(tx, desk.key.code("link", code), OFFER, side.person_id, None, side.room_id, side.front_end)
    return (
        f"Send /link code:{code} from your other account within 10 minutes. It gets a second code to enter here:"
        " only then are the two linked."
    )


async def enter(tx: Tx, desk: Desk, side: Side, code: str) -> str:
    """Take a code in; return the words for who entered it.

    Raises:
        InputRejected: It is not a code that is good for this account, or too many were tried.
    """
    if await rates.take(tx, f"person:{side.person_id}:link", TRY_COSTS_S, TRIES_WITHIN_S) is not None:
        raise InputRejected("code: five were tried in ten minutes; wait, and begin again with /link")
    hashed = desk.key.code("link", code.strip().upper())
    found = await links.find(tx, hashed)
    if found is None:
        raise InputRejected("code: there is none like it, or its ten minutes are over; begin again with /link")
    if found.kind == OFFER and found.person_id == side.person_id:
        raise InputRejected("code: this one has to be entered from your other account")
    if found.kind == CONFIRM and found.other_id != side.person_id:
        raise InputRejected("code: this one has to be entered from the account that began")
    await links.take(tx, hashed)
    if found.kind == OFFER:
        return await _confirming(tx, desk, side, found)
    return await _join(tx, desk, side, found)


async def _confirming(tx: Tx, desk: Desk, side: Side, found: links.LinkCode) -> str:
    code = new_code()
    hashed = desk.key.code("link", code)
    await links.offer(tx, hashed, CONFIRM, side.person_id, found.person_id, side.room_id, side.front_end)
    await _notify(
        tx,
        desk,
        side,
        found.person_id,
        (found.room_id, found.front_end),
        f"{await _shown(tx, side.person_id)} has entered your code. If that is you, send /link code:… here with the"
        " code that was shown there. If not, do nothing: nothing is linked.",
        f"link:asked:{hashed[:16]}",
    )
    return f"Now send /link code:{code} from {await _shown(tx, found.person_id)}, within 10 minutes."


async def _join(tx: Tx, desk: Desk, side: Side, found: links.LinkCode) -> str:
    if not await links.join(tx, side.person_id, found.person_id):
        return "The two accounts are linked already."
    mine = await _shown(tx, side.person_id)
    await _notify(
        tx,
        desk,
        side,
        found.person_id,
        (found.room_id, found.front_end),
        f"This account is now linked with {mine}. /unlink undoes it, from either side.",
        f"link:made:{side.trace}",
    )
    return f"Linked with {await _shown(tx, found.person_id)}. /unlink undoes it, from either side."


async def part(tx: Tx, desk: Desk, side: Side, account: str | None) -> str:
    """End a link, and give each account the facts that its own words prove; return the words.

    Raises:
        InputRejected: There is no link, or several and none is named.
    """
    linked = await links.list_linked(tx, side.person_id)
    if not linked:
        raise InputRejected("link: this account is linked with no other")
    chosen = [each for each in linked if account in (None, f"{each.platform}:{each.account_ref}")]
    if len(chosen) != 1:
        names = ", ".join(f"{each.platform}:{each.account_ref}" for each in linked)
        raise InputRejected(f"account: name one of {names}")
    other = chosen[0]
    await links.part(tx, side.person_id, other.person_id)
    moved = await facts.part(tx, side.person_id, other.person_id)
    where = await links.find_room(tx, other.person_id)
    if where is not None:
        mine = await _shown(tx, side.person_id)
        text = f"This account is no longer linked with {mine}."
        await _notify(tx, desk, side, other.person_id, where, text, f"link:ended:{side.trace}")
    return f"No longer linked with {other.platform}:{other.account_ref}. Facts that went to their own account: {moved}."


async def _shown(tx: Tx, person_id: PersonId) -> str:
    platform, account = await people.find_account(tx, person_id)
    return f"{platform}:{account}"


async def _notify(
    tx: Tx, desk: Desk, side: Side, person_id: PersonId, where: tuple[RoomId, str], text: str, dedupe: str
) -> None:
    room_id, front_end = where
    await desk.tell(
        tx,
        Telling(
            person_id=person_id,
            room_id=room_id,
            front_end=front_end,
            text=text,
            dedupe=dedupe,
            rule="command:link",
            trace=side.trace,
        ),
    )
