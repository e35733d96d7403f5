"""What becomes of entries when their proof goes: anchors are dropped, what has none left is voided, and so on. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from core.domain.ids import PersonId
from core.domain.mind.bodies import (
    Body,
    Case,
    Durable,
    Note,
    PressureItem,
    Proposal,
    Scrubbed,
    ShortTerm,
    Thoughtful,
    Thread,
    Value,
)
from core.domain.mind.citing import ref_of
from core.domain.mind.codes import worded
from core.domain.mind.entries import Entry, Retired
from core.domain.mind.facts import Facts, person_of, quote_key
from core.domain.mind.speech import Candidate, Receipt
from core.domain.mind.values import Anchor
from core.domain.mind.view import View

VOIDED = "source_voided"
ERASED = "erased"


def void(view: View, facts: Facts, refs: frozenset[str], *, edited: bool = False, reason: str = VOIDED) -> str:
    """Take back what rests on `refs`, and what rests on that; return in a word how far it went.

    `edited`: an anchor whose quote still stands, or whose message says nearly the same, stays.
    """
    gone = set(refs)
    kept = facts.surviving if edited else frozenset[str]()
    changed = True
    while changed:
        changed = False
        for entry in list(view.all()):
            after = _after_loss(entry, gone, kept, edited)
            if after is entry.body:
                continue
            changed = True
            if after is None:
                bury(view, entry, facts, reason)
                gone.add(ref_of(entry))
            else:
                view.put(entry.changed(facts.now, after))
    return "voided"


def erase(view: View, facts: Facts, person: PersonId, refs: frozenset[str], named: frozenset[str]) -> str:
    """Take a person out: void what rested on their words or is about them, and their id from all the rest.

    `named`: entries in whose text a name of theirs stands.
    """
    for entry in list(view.all()):
        if isinstance(entry.body, Scrubbed):
            continue
        if entry.id in named or _about(entry.body, person) or _unproven(entry, person):
            bury(view, entry, facts, ERASED)
            refs |= {ref_of(entry)}
    void(view, facts, refs, reason=ERASED)
    for entry in list(view.all()):
        if person not in entry.people:
            continue
        body: Body = entry.body
        if isinstance(body, Receipt):
            body = body.model_copy(update={"preview": ""})
        elif isinstance(body, Thoughtful):
            body = body.model_copy(update={"needs_review": True})
        view.put(entry.changed(facts.now, body).without(person))
    return "erased"


def bury(view: View, entry: Entry, facts: Facts, reason: str) -> None:
    """Take the words of an entry; a live one becomes a tombstone, an older one keeps a reason of code's making."""
    why = "dropped" if isinstance(entry.body, Case) and entry.live else reason
    retired = Retired(facts.now, why) if entry.live else None
    if entry.retired is not None and worded(entry.retired.reason):
        retired = replace(entry.retired, reason=reason)
    view.put(entry.changed(facts.now, Scrubbed(type=entry.type), retired=retired))


def _after_loss(entry: Entry, gone: set[str], kept: frozenset[str], edited: bool) -> Body | None:
    """Return the body that is left when `gone` proves nothing any more: the same one, a smaller one, or None."""
    body = entry.body
    match body:
        case ShortTerm() | Durable() | Thread() | PressureItem():
            return _thought_after(body, gone, kept)
        case Proposal():
            lost = any(f"memory:{id_}" in gone for id_ in body.sources)
            return None if lost or _lost(body.candidate.proof, gone, kept) else body
        case Value() | Note():
            return None if f"memory:{body.support_memory_id}" in gone else body
        case Candidate():
            memories = (*body.source_memory_ids, *((body.source_pressure_id,) if body.source_pressure_id else ()))
            return None if any(f"memory:{id_}" in gone for id_ in memories) else body
        case Case():
            lost = f"message:{body.source_message_id}" in gone
            return None if lost and not edited else body
    return body


def _thought_after(
    body: ShortTerm | Durable | Thread | PressureItem, gone: set[str], kept: frozenset[str]
) -> Body | None:
    update: dict[str, object] = {}
    if _lost(body.anchor_refs, gone, kept):
        update["anchor_refs"] = _left(body.anchor_refs, gone, kept)
    if _lost(body.evidence_refs, gone, kept):
        update["evidence_refs"] = _left(body.evidence_refs, gone, kept)
    supports = "support_memory_ids" if isinstance(body, Thread) else "source_memory_ids"
    before = () if isinstance(body, ShortTerm) else getattr(body, supports)
    after = tuple(id_ for id_ in before if f"memory:{id_}" not in gone)
    if after != before:
        update[supports] = after
    if isinstance(body, ShortTerm):
        earlier = tuple(r for r in body.revisions if not _lost(r.anchor_refs, gone, kept))
        if earlier != body.revisions:
            update["revisions"] = earlier
    if not update:
        return body
    smaller = body.model_copy(update=update | {"needs_review": True})
    # A durable memory's sources are tombstones: what proves it is its anchors alone.
    rests = smaller.proof or (after and not isinstance(body, Durable)) or (body.anchors_missing and not before)
    return smaller if rests else None


def _lost(anchors: Iterable[Anchor], gone: set[str], kept: frozenset[str]) -> bool:
    return any(anchor.place in gone and quote_key(anchor) not in kept for anchor in anchors)


def _left(anchors: Iterable[Anchor], gone: set[str], kept: frozenset[str]) -> tuple[Anchor, ...]:
    return tuple(a for a in anchors if a.place not in gone or quote_key(a) in kept)


def _about(body: Body, person: PersonId) -> bool:
    match body:
        case ShortTerm() | Durable() | Thread() | PressureItem():
            return person_of(body.target) == person
        case Candidate():
            return body.target is not None and person_of(body.target) == person
        case Case():
            return body.author_id == person
        case Proposal():
            return person_of(body.candidate.target) == person
    return False


def _unproven(entry: Entry, person: PersonId) -> bool:
    """Return whether nothing but what its author had read, this person's words among it, can have led to an entry."""
    body = entry.body
    return person in entry.people and isinstance(body, Thoughtful) and body.anchors_missing
