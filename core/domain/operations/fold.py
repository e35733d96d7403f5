"""One operation after another over a working view: authority, references, versions, meaning, effect. Pure."""

from collections.abc import Mapping

from core.domain.ids import PersonId
from core.domain.mind.codes import Accepted, Rejected, RejectionCode, Verdict
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Emitter, Facts
from core.domain.mind.view import View
from core.domain.operations.base import Operation

Change = tuple[Entry | None, Entry]


def fold(
    operation: Operation, view: View, facts: Facts, expect: Mapping[str, int] | None
) -> tuple[Verdict, list[Change]]:
    """Apply one operation to the view; a refused one leaves it untouched.

    `expect`: the versions that the author saw; None: they were looked at when it was first applied. Returns the
    verdict, and each changed entry as it was and as it is.
    """
    refusal = _refusal(operation, view, facts, expect)
    if refusal is not None:
        return refusal, []
    mark = view.mark()
    effect = operation.apply(view, facts)
    changes = view.changes(mark)
    return Accepted(effect, tuple(after.id for _, after in changes)), changes


def _refusal(operation: Operation, view: View, facts: Facts, expect: Mapping[str, int] | None) -> Rejected | None:
    kind = facts.actor.kind
    if kind not in operation.emitters:
        return Rejected(RejectionCode.OPERATION_NOT_ALLOWED, "operation", f"not by {kind.value}")
    if facts.paused and kind not in (Emitter.PARENT, Emitter.OPERATOR):
        return Rejected(RejectionCode.MIND_PAUSED, "operation", "the mind is paused")
    if kind.model and (facts.packet is None or not facts.packet.rooms):
        return Rejected(RejectionCode.OPERATION_NOT_ALLOWED, "operation", "a model's words come from some room")
    return (
        operation.refer(view, facts)
        or _stale(operation, view, facts, expect)
        or operation.check(view, facts)
        or _erased(facts)
    )


def _erased(facts: Facts) -> Rejected | None:
    read = facts.packet.people if facts.packet is not None and facts.actor.kind.model else frozenset[PersonId]()
    if read & facts.erased:
        return Rejected(RejectionCode.PERSON_ERASED, "operation", "words of somebody who is being erased were read")
    return None


def _stale(operation: Operation, view: View, facts: Facts, expect: Mapping[str, int] | None) -> Rejected | None:
    if expect is None or operation.union or facts.actor.kind is Emitter.PARENT:
        return None
    for key in operation.rewrites():
        entry = view.at(key)
        if entry is not None and expect.get(key.id) != entry.version:
            return Rejected(RejectionCode.STALE_VERSION, key.id, f"is at version {entry.version}")
    return None
