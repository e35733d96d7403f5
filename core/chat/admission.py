"""Who and what comes in: an event with what the store knows of it, and whom intake turns away without a trace."""

from collections.abc import Callable
from dataclasses import dataclass

from core.chat.answers import Asked
from core.domain.archiving import ROOMS_ALONE, ArchivePolicy, Keep, Skip, SkipReason, archive_decision
from core.domain.budgets import Draw, PersonLimits
from core.domain.ids import InboxId, PersonId
from core.domain.messages import InboundMessage, MessageKind
from core.domain.rooms import Community, Room
from core.store import erasures, people
from core.store.engine import Tx
from core.store.people import PersonStanding


class Unwelcome(Exception):
    """Nothing of this event may be stored, not even that its person exists; what was written of it is rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One event with what the store knows of its room and person. `first`: the person was never heard before."""

    message: InboundMessage
    room: Room
    community: Community
    person_id: PersonId
    opted_out: bool
    dm_memory: bool
    limits: PersonLimits
    trace: str
    policy: ArchivePolicy = ROOMS_ALONE
    first: bool = False

    @property
    def decision(self) -> Keep | Skip:
        """Whether what is said is archived, as the operator, the room and the person have chosen."""
        decision = archive_decision(self.room, self.policy, agrees=self.dm_memory)
        return Skip(SkipReason.OPTED_OUT) if self.opted_out and isinstance(decision, Keep) else decision

    @property
    def keeps(self) -> bool:
        """Whether what is said is archived."""
        return isinstance(self.decision, Keep)

    @property
    def draw(self) -> Draw:
        """What one answer would draw on the purses of its asker, room and community."""
        return Draw(
            person_id=self.person_id,
            room_id=self.room.id,
            community_id=self.room.community_id,
            limits=self.limits,
            answers=1,
        )

    def asked(self, inbox_id: InboxId) -> Asked:
        """Return what an answer carries along."""
        return Asked(
            community_id=self.room.community_id,
            room_id=self.room.id,
            person_id=self.person_id,
            front_end=self.message.front_end,
            reply_to=self.message.message_id,
            language=self.room.language,
            trace=self.trace,
            at=self.message.sent_at,
            inbox_id=inbox_id,
        )


async def admit(
    tx: Tx, message: InboundMessage, person: PersonStanding, account_hash: Callable[[str, str], str]
) -> None:
    """Let an event in, or not; asks nothing where a known person says something new.

    Raises:
        Unwelcome: The person is being erased, wants nothing kept and does not ask, or an erasure has reached this.
    """
    if person.erasing:
        raise Unwelcome
    if not person.met and message.live and message.kind is not MessageKind.EDIT:
        return
    account = account_hash(message.room.platform, message.person_ref)
    if person.met and await erasures.is_blocked(tx, account):
        raise Unwelcome
    until = await erasures.erased_until(tx, account)
    if until is not None and message.sent_at <= until:
        raise Unwelcome
    if person.met and await erasures.has_opted_out(tx, account):
        if not message.addressed_by:
            raise Unwelcome
        await people.save_choices(tx, person.id, dict.fromkeys(people.CHOICES, False))
