"""The choices below what is said: which there are, until when, and which was taken. Their columns are the outbox's."""

from dataclasses import dataclass
from datetime import datetime

from core.domain.choices import Choice, ChoiceRef
from core.domain.ids import CommunityId, OutboxId, RoomId
from core.store.engine import Tx

SWEPT = 500
"""How many offers that have run out one sweep takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What may be chosen below a message. `choices`: empty once they were taken off. `chosen`: which one was taken.

    `expired`: as of the transaction that read it.
    """

    outbox_id: OutboxId
    room_id: RoomId
    community_id: CommunityId
    front_end: str
    choices: tuple[Choice, ...]
    until: datetime
    chosen: int | None
    expired: bool

    def command(self, n: int) -> str:
        """Return the command of the `n`th choice; empty if there is none any more."""
        return self.choices[n - 1].command if n <= len(self.choices) else ""


async def offer(tx: Tx, outbox_id: OutboxId, choices: tuple[Choice, ...], until: datetime) -> None:
    """Put choices below a message: with what queues it, or anew once what was chosen has left it undecided."""
    await tx.execute(
        "update voidbot.outbox set choices = $2, choices_until = $3, chosen = null where id = $1",
        outbox_id,
        [[choice.label, choice.command] for choice in choices],
        until,
    )


_FIND = """
select id, room_id, community_id, front_end, coalesce(choices, '[]') as choices, choices_until, chosen,
       choices_until <= voidbot.now() as expired
from voidbot.outbox where id = $1 and choices_until is not null"""


async def find(tx: Tx, outbox_id: int) -> Offer | None:
    """Return what may be chosen below a message; None if nothing ever could."""
    row = await tx.fetchrow(_FIND, outbox_id)
    if row is None:
        return None
    return Offer(
        outbox_id=OutboxId(row["id"]),
        room_id=RoomId(row["room_id"]),
        community_id=CommunityId(row["community_id"]),
        front_end=row["front_end"],
        choices=tuple(Choice(label, command) for label, command in row["choices"]),
        until=row["choices_until"],
        chosen=row["chosen"],
        expired=row["expired"],
    )


async def is_shown_as(tx: Tx, outbox_id: OutboxId, external_id: str) -> bool:
    """Return whether it was sent as this message of the platform, or may have been: its receipt is not in yet."""
    return bool(
        await tx.fetchval(
            "select exists (select 1 from voidbot.outbox_parts where outbox_id = $1"
            " and (external_id = $2 or external_id is null and state in ('sending', 'unknown')))",
            outbox_id,
            external_id,
        )
    )


async def shown_as(tx: Tx, outbox_id: OutboxId) -> str | None:
    """Return the platform's id of the message that carries the choices: the last part; None if it is not known."""
    found: str | None = await tx.fetchval(
        "select external_id from voidbot.outbox_parts where outbox_id = $1 and state <> 'dropped'"
        " order by n desc limit 1",
        outbox_id,
    )
    return found


async def hold(tx: Tx, ref: ChoiceRef) -> None:
    """Let one press after the other decide: the next one waits until this transaction ends.

    The row itself is locked only after that: whoever tells the mind of a delivery locks the mind first.
    """
    await tx.execute(
        "select pg_advisory_xact_lock(hashtextextended('voidbot.choice:' || $1::bigint, 0))", ref.outbox_id
    )


async def decide(tx: Tx, ref: ChoiceRef) -> bool:
    """Note which choice was taken; False if one was already."""
    changed = await tx.execute(
        "update voidbot.outbox set chosen = $2 where id = $1 and chosen is null", ref.outbox_id, ref.n
    )
    return changed == 1


async def close(tx: Tx, outbox_id: OutboxId, *, over: bool = False) -> None:
    """Forget the commands: they are taken off the message, or nothing can take them off any more.

    `over`: only if one was chosen or their time is over; they may have been offered anew meanwhile.
    """
    await tx.execute(
        "update voidbot.outbox set choices = null"
        " where id = $1 and not ($2 and chosen is null and choices_until > voidbot.now())",
        outbox_id,
        over,
    )


async def list_expired(tx: Tx) -> list[OutboxId]:
    """Return messages whose choices have run out and still stand there, oldest first."""
    rows = await tx.fetch(
        "select id from voidbot.outbox where choices is not null and choices_until <= voidbot.now()"
        " order by choices_until limit $1",
        SWEPT,
    )
    return [OutboxId(row["id"]) for row in rows]
