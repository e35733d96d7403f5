"""Operations on what was said: receipts, and what they settle."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from core.domain.ids import MessageId, RoomId
from core.domain.mind.bodies import CaseStatus
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Key
from core.domain.mind.facts import Emitter, Facts, Needs
from core.domain.mind.speech import Candidate, CandidateStatus, Cause, DeliveryTarget, Outcome, Receipt
from core.domain.mind.values import Id, Text1000
from core.domain.mind.view import View
from core.domain.operations.base import (
    Operation,
    ahead_or,
    free_or,
    key,
    keys,
    live_or,
    new_entry,
    retire,
)
from core.domain.operations.obligations import end_case
from core.domain.operations.speech import end_candidate


class RecordDeliveryReceipt(Operation):
    """Keep proof that something was said, as the outbox shows it; an open obligation that it answers is closed.

    Refused if the outbox does not show it: another room, other words, or not out yet.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT})
    undoable: ClassVar[bool] = False
    operation: Literal["record_delivery_receipt"] = "record_delivery_receipt"
    receipt: Receipt

    @property
    def _id(self) -> str:
        return f"receipt:{self.receipt.outbox_id}"

    def needs(self) -> Needs:
        """Return the row of the outbox, and what it would settle."""
        said = self.receipt
        candidates = () if said.intervention_id is None else (said.intervention_id,)
        replies = () if said.reply_to_message_id is None else (said.reply_to_message_id,)
        return Needs(
            entries=keys("receipt", (self._id,))
            | keys("candidate", candidates)
            | keys("case", (f"case:{each}" for each in replies)),
            messages=frozenset(map(MessageId, replies)),
            outbox=frozenset({said.outbox_id}),
        )

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the outbox shows it."""
        said = self.receipt
        row = facts.outbox.get(said.outbox_id)
        shown = row is not None and (row.room_id, row.content_hash, row.state) == (
            said.room_id,
            said.content_hash,
            said.outcome.value,
        )
        if not shown:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "receipt.outboxId", "the outbox does not show it")
        if said.intervention_id is not None and view.find("candidate", said.intervention_id) is None:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "receipt.interventionId", "candidate is not there")
        return free_or(view, "receipt", self._id, "receipt.outboxId") or ahead_or(facts, "receipt.sentAt", said.sent_at)

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it proves anything."""
        said = self.receipt
        if said.outcome is Outcome.SENT and not said.sent_message_ids:
            return Rejected(RejectionCode.MISSING_FIELD, "receipt.sentMessageIds", "what was sent has ids")
        if (said.cause is Cause.CANDIDATE) != (said.intervention_id is not None):
            return Rejected(RejectionCode.CONTRADICTION, "receipt.cause", "a candidate's speech names the candidate")
        return None

    def apply(self, view: View, facts: Facts) -> str:
        """Keep it, and close what it answers."""
        said = self.receipt
        candidate = None if said.intervention_id is None else view.find("candidate", said.intervention_id)
        people = frozenset() if candidate is None else candidate.people
        reply = said.reply_to_message_id
        if reply is not None:
            message = facts.messages.get(MessageId(reply))
            people |= {message.author_id} if message is not None and message.author_id is not None else set()
            end_case(view, reply, CaseStatus.ANSWERED, facts, resolved_at=said.sent_at)
        # What was said in a room may be read by whoever reads the room, whatever it was made from.
        view.put(new_entry(self._id, said, facts, (frozenset({RoomId(said.room_id)}), people)))
        return "recorded"


class MarkCandidateSpoken(Operation):
    """Note that a candidate was said, with its receipt; others that would answer the same message are given up.

    Refused if the receipt is of something else, or the candidate was not being sent.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT})
    undoable: ClassVar[bool] = False
    operation: Literal["mark_candidate_spoken"] = "mark_candidate_spoken"
    intervention_id: Id
    receipt_id: Id

    def needs(self) -> Needs:
        """Return the candidate, its receipt, and all other candidates."""
        return Needs(
            entries=keys("candidate", (self.intervention_id,)) | keys("receipt", (self.receipt_id,)),
            live=frozenset({"candidate"}),
        )

    def rewrites(self) -> tuple[Key, ...]:
        """Return the candidate."""
        return (key("candidate", self.intervention_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether both are there."""
        return live_or(view, "candidate", (self.intervention_id,), "interventionId") or live_or(
            view, "receipt", (self.receipt_id,), "receiptId"
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether they belong together, and whether it was being sent."""
        candidate = view.body(view.find("candidate", self.intervention_id), Candidate)
        receipt = view.body(view.find("receipt", self.receipt_id), Receipt)
        if receipt is None or receipt.intervention_id != self.intervention_id:
            return Rejected(RejectionCode.CONTRADICTION, "receiptId", "is the receipt of something else")
        if candidate is None or candidate.status is not CandidateStatus.SENDING:
            return Rejected(RejectionCode.BAD_TRANSITION, "interventionId", "was not being sent")
        return None

    def apply(self, view: View, facts: Facts) -> str:
        """Let it be over as spoken, and give up what would answer once more."""
        entry = view.find("candidate", self.intervention_id)
        candidate = view.body(entry, Candidate)
        receipt = view.body(view.find("receipt", self.receipt_id), Receipt)
        if entry is None or candidate is None or receipt is None:
            raise LookupError("candidate is not open")
        spoken = {"status": CandidateStatus.SPOKEN, "receipt_id": self.receipt_id, "spoken_at": receipt.sent_at}
        retire(view, entry, facts, "spoken", body=candidate.model_copy(update=spoken))
        for other in list(view.live("candidate")):
            body = view.body(other, Candidate)
            if body is not None and _same_question(body.delivery_target, candidate.delivery_target):
                end_candidate(view, other, facts, "answered_elsewhere")
        return "spoken"


class RetireDeliveryReceipts(Operation):
    """Let receipts count no more for how much was said, and whether it was said before. They can still be read.

    Refused if one of them is not there, or is over.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.OPERATOR, Emitter.UPKEEP, Emitter.PARENT})
    operation: Literal["retire_delivery_receipts"] = "retire_delivery_receipts"
    receipt_ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=100)]
    reason: Text1000

    def needs(self) -> Needs:
        """Return the receipts."""
        return Needs(entries=keys("receipt", self.receipt_ids))

    def rewrites(self) -> tuple[Key, ...]:
        """Return the receipts."""
        return tuple(key("receipt", each) for each in self.receipt_ids)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether all are there, each named once."""
        if len(set(self.receipt_ids)) < len(self.receipt_ids):
            return Rejected(RejectionCode.CONTRADICTION, "receiptIds", "names one twice")
        return live_or(view, "receipt", self.receipt_ids, "receiptIds")

    def apply(self, view: View, facts: Facts) -> str:
        """Make tombstones of them."""
        for id_ in self.receipt_ids:
            entry = view.find("receipt", id_)
            if entry is not None:
                retire(view, entry, facts, self.reason)
        return "retired"


def _same_question(one: DeliveryTarget | None, other: DeliveryTarget | None) -> bool:
    if one is None or other is None or one.reply_to_message_id is None:
        return False
    return (one.channel_id, one.reply_to_message_id) == (other.channel_id, other.reply_to_message_id)
