"""Links between accounts of one person, and the codes by which both sides consent. Only this module writes these."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.ids import PersonId, RoomId
from core.store.engine import Row, Tx

VALID = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class LinkCode:
    """A code that was shown to `person_id` in a room. `other_id`: the account that it confirms."""

    kind: str
    person_id: PersonId
    other_id: PersonId | None
    room_id: RoomId
    front_end: str


async def offer(
    tx: Tx, code_hash: str, kind: str, person_id: PersonId, other_id: PersonId | None, room_id: RoomId, front_end: str
) -> None:
    """Keep a code by its hash, for ten minutes; an older one of the same kind and person is void."""
    await tx.execute("delete from voidbot.link_codes where person_id = $1 and kind = $2", person_id, kind)
    await tx.execute(
        "insert into voidbot.link_codes (code_hash, kind, person_id, other_id, room_id, front_end, expires_at)"
        " values ($1, $2, $3, $4, $5, $6, voidbot.now() + $7)",
        code_hash,
        kind,
        person_id,
        other_id,
        room_id,
        front_end,
        VALID,
    )


async def take(tx: Tx, code_hash: str) -> LinkCode | None:
    """Use a code up; None if there is none like it or its time is over."""
    row = await tx.fetchrow(
        "delete from voidbot.link_codes where code_hash = $1 and expires_at > voidbot.now() returning *", code_hash
    )
    return None if row is None else _code_of(row)


async def find(tx: Tx, code_hash: str) -> LinkCode | None:
    """Return a code that is still good, without using it up."""
    row = await tx.fetchrow(
        "select * from voidbot.link_codes where code_hash = $1 and expires_at > voidbot.now()", code_hash
    )
    return None if row is None else _code_of(row)


def _code_of(row: Row) -> LinkCode:
    other = row["other_id"]
    return LinkCode(
        row["kind"],
        PersonId(row["person_id"]),
        None if other is None else PersonId(other),
        RoomId(row["room_id"]),
        row["front_end"],
    )


async def join(tx: Tx, one: PersonId, other: PersonId) -> bool:
    """Link two accounts; False if they are linked already."""
    low, high = sorted((one, other))
    return bool(
        await tx.execute(
            "insert into voidbot.person_links (one_id, other_id) values ($1, $2) on conflict do nothing", low, high
        )
    )


@dataclass(frozen=True, slots=True)
class Linked:
    """An account that is linked with the person's."""

    person_id: PersonId
    platform: str
    account_ref: str
    since: datetime


async def list_linked(tx: Tx, person_id: PersonId) -> list[Linked]:
    """Return the accounts that are linked with the person's now."""
    rows = await tx.fetch(
        "select p.id, p.platform, p.account_ref, l.linked_at from voidbot.person_links l"
        " join voidbot.people p on p.id = case when l.one_id = $1 then l.other_id else l.one_id end"
        " where (l.one_id = $1 or l.other_id = $1) and l.ended_at is null order by l.id",
        person_id,
    )
    return [Linked(PersonId(row["id"]), row["platform"], row["account_ref"], row["linked_at"]) for row in rows]


async def part(tx: Tx, one: PersonId, other: PersonId) -> None:
    """End the link between two accounts."""
    low, high = sorted((one, other))
    await tx.execute(
        "update voidbot.person_links set ended_at = voidbot.now()"
        " where one_id = $1 and other_id = $2 and ended_at is null",
        low,
        high,
    )


async def find_room(tx: Tx, person_id: PersonId) -> tuple[RoomId, str] | None:
    """Return where the person last spoke to us, with the front end: where a notice reaches them."""
    row = await tx.fetchrow(
        "select room_id, front_end from voidbot.turns where person_id = $1 order by id desc limit 1", person_id
    )
    return None if row is None else (RoomId(row["room_id"]), row["front_end"])


async def sweep(tx: Tx) -> int:
    """Forget codes whose time is over."""
    return await tx.execute("delete from voidbot.link_codes where expires_at < voidbot.now()")
