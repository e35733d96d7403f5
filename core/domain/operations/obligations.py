"""Operations on what the mind owes: how far rooms and repositories were read, and obligations opened and closed."""

import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from core.domain.ids import MessageId, RoomId
from core.domain.mind.bodies import Case, CaseStatus, Consumer, Cursor, RepoCursor
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import Emitter, Facts, MessageFact, Needs, message_of
from core.domain.mind.values import Anchor, AnchorKind, Anchors, Count, Moment, RowId, Tags, Text128, Text2000
from core.domain.mind.view import View
from core.domain.operations.base import (
    Operation,
    ahead_or,
    anchors_or,
    cap_or,
    key,
    live_or,
    new_entry,
    origin,
    retire,
    write,
)

OpenStatus = Literal[CaseStatus.PENDING, CaseStatus.WATCHING]
EndStatus = Literal[
    CaseStatus.ANSWERED, CaseStatus.RESOLVED, CaseStatus.CLOSED, CaseStatus.RETIRED, CaseStatus.DROPPED
]  # fmt: skip


class RecordReviewedMessages(Operation):
    """Note how far a consumer has read a room, in the order of the archive, and how many messages that were.

    Refused if the message or revision is not in that room, or stands before what was already read.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT})
    undoable: ClassVar[bool] = False
    operation: Literal["record_reviewed_messages"] = "record_reviewed_messages"
    consumer: Consumer
    room_id: RowId
    last_reviewed_message_id: RowId
    last_reviewed_timestamp: Moment
    last_reviewed_revision: Count | None = None
    reviewed: Count = 1
    quarantined: Annotated[tuple[RowId, ...], Field(max_length=200)] = ()

    @property
    def _id(self) -> str:
        return f"cursor:{self.consumer.value}:{self.room_id}"

    @property
    def _message(self) -> MessageId:
        return MessageId(self.last_reviewed_message_id)

    def needs(self) -> Needs:
        """Return the cursor, and the message in the revision that was read."""
        revision = self.last_reviewed_revision
        return Needs(
            entries=frozenset({key("cursor", self._id)}),
            messages=frozenset({self._message}),
            revisions=frozenset() if revision is None else frozenset({(self._message, revision)}),
        )

    def rewrites(self) -> tuple[Key, ...]:
        """Return the cursor."""
        return (key("cursor", self._id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the message stands in the room, in that revision."""
        message = facts.messages.get(self._message)
        if message is None or message.room_id != self.room_id:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "lastReviewedMessageId", "is no message of the room")
        if self._place(message, facts) is None:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "lastReviewedRevision", "is no revision of the message")
        return ahead_or(facts, "lastReviewedTimestamp", self.last_reviewed_timestamp)

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it goes back."""
        there = view.body(view.find("cursor", self._id), Cursor)
        if there is not None and self._seq(facts) < there.last_seq:
            return Rejected(RejectionCode.CURSOR_REGRESSION, "lastReviewedMessageId", "stands before what was read")
        return None

    def apply(self, view: View, facts: Facts) -> str:
        """Set the cursor; the same place once more changes nothing."""
        entry = view.find("cursor", self._id)
        there = view.body(entry, Cursor)
        seq = self._seq(facts)
        if there is not None and there.last_seq == seq and set(self.quarantined) <= set(there.quarantined):
            return "unchanged"
        message = facts.messages[self._message]
        revision = message.revision if self.last_reviewed_revision is None else self.last_reviewed_revision
        cursor = Cursor(
            consumer=self.consumer,
            room_id=self.room_id,
            last_reviewed_message_id=self.last_reviewed_message_id,
            last_reviewed_revision=revision,
            last_reviewed_timestamp=self.last_reviewed_timestamp,
            last_seq=seq,
            reviewed=self._reviewed(there, seq),
            quarantined=_newest((*(there.quarantined if there else ()), *self.quarantined), 200),
        )
        # Nobody's words are in a cursor, so nobody is.
        return write(view, self._id, cursor, facts, (frozenset({RoomId(self.room_id)}), frozenset()))

    def _place(self, message: MessageFact, facts: Facts) -> int | None:
        revision = self.last_reviewed_revision
        if revision is None:
            return message.seq
        # An edit has a place of its own, behind what was said meanwhile.
        placed = facts.revisions.get((message.id, revision))
        return message.seq if placed is None and revision == message.revision else placed

    def _seq(self, facts: Facts) -> int:
        return self._place(facts.messages[self._message], facts) or 0

    def _reviewed(self, there: Cursor | None, seq: int) -> int:
        if there is None:
            return self.reviewed
        return there.reviewed + (self.reviewed if seq > there.last_seq else 0)


class UpsertOpenCase(Operation):
    """Open an obligation: something that is owed to a room for one message, or write an open one anew.

    Refused if the message was not shown, or the obligation is over: one that is over opens again only if a newer
    message of the same person is given as anchor.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset(
        {Emitter.CHAT, Emitter.RUMINATION, Emitter.PARENT, Emitter.OPERATOR}
    )
    operation: Literal["upsert_open_case"] = "upsert_open_case"
    source_message_id: RowId
    status: OpenStatus
    summary: Text2000
    last_touched_at: Moment | None = None
    why_it_matters: Text2000 | None = None
    anchor_refs: Anchors = ()
    tags: Tags | None = None

    @property
    def _anchors(self) -> tuple[Anchor, ...]:
        return (_on_message(self.source_message_id), *self.anchor_refs)

    def needs(self) -> Needs:
        """Return the obligation, its message, and how many there are."""
        return Needs(
            entries=frozenset({_case_key(self.source_message_id)}),
            counted=frozenset({"case"}),
            messages=frozenset({MessageId(self.source_message_id)}),
            anchors=self._anchors,
        )

    def rewrites(self) -> tuple[Key, ...]:
        """Return the obligation."""
        return (_case_key(self.source_message_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the message is there and was shown."""
        return (
            anchors_or(view, self._anchors[:1], facts, "sourceMessageId")
            or anchors_or(view, self.anchor_refs, facts, "anchorRefs")
            or ahead_or(facts, "lastTouchedAt", self.last_touched_at)
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it may be open, and whether there is room for it."""
        entry = self._entry(view)
        if entry is not None and entry.live:
            return None
        if entry is not None and facts.actor.kind is not Emitter.OPERATOR and not self._newer(facts):
            message = "is over; a newer message of the same person would open it again"
            return Rejected(RejectionCode.CASE_CLOSED, "sourceMessageId", message)
        sources, _ = origin(facts, self._anchors, () if entry is None else (entry,))
        return cap_or(view, "case", sources, facts, "sourceMessageId")

    def apply(self, view: View, facts: Facts) -> str:
        """Open it, open it again, or write what is said of it anew."""
        entry = self._entry(view)
        made_of = origin(facts, self._anchors)
        message = facts.messages[MessageId(self.source_message_id)]
        said: dict[str, Any] = {"status": self.status, "summary": self.summary, "last_touched_at": self._touched(facts)}
        said |= {} if self.why_it_matters is None else {"why_it_matters": self.why_it_matters}
        said |= {} if self.tags is None else {"tags": self.tags}
        if entry is None or not isinstance(entry.body, Case):
            case = Case(source_message_id=message.id, room_id=message.room_id, author_id=message.author_id, **said)
            if entry is None:
                view.put(new_entry(f"case:{message.id}", case, facts, made_of))
                return "opened"
        elif entry.live:
            case = entry.body.model_copy(update=said)
        else:
            again = {"reopened": entry.body.reopened + 1, "resolved_at": None, "resolution_summary": None}
            case = entry.body.model_copy(update=said | again)
        view.put(replace(entry.changed(facts.now, case, sources=made_of[0], people=made_of[1]), retired=None))
        return "changed" if entry.live else "reopened"

    def _entry(self, view: View) -> Entry | None:
        return view.at(_case_key(self.source_message_id))

    def _touched(self, facts: Facts) -> datetime:
        # A model sees no clock, so its times are guesses.
        return facts.now if self.last_touched_at is None or facts.actor.kind.model else self.last_touched_at

    def _newer(self, facts: Facts) -> bool:
        about = facts.messages[MessageId(self.source_message_id)]
        named = (facts.messages.get(id_) for a in self.anchor_refs if (id_ := message_of(a.ref)) is not None)
        return any(each is not None and each.author_id is not None and _follows(each, about) for each in named)


class CloseOpenCase(Operation):
    """Close an obligation: it was answered, resolved, or is not owed any more.

    Refused if it is not open. A resolved one says in `resolutionSummary` how.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset(
        {Emitter.CHAT, Emitter.RUMINATION, Emitter.UPKEEP, Emitter.PARENT, Emitter.OPERATOR}
    )
    operation: Literal["close_open_case"] = "close_open_case"
    source_message_id: RowId
    status: EndStatus
    resolved_at: Moment | None = None
    resolution_summary: Text2000 | None = None

    def needs(self) -> Needs:
        """Return the obligation."""
        return Needs(entries=frozenset({_case_key(self.source_message_id)}))

    def rewrites(self) -> tuple[Key, ...]:
        """Return the obligation."""
        return (_case_key(self.source_message_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it is open."""
        return live_or(view, "case", (f"case:{self.source_message_id}",), "sourceMessageId") or ahead_or(
            facts, "resolvedAt", self.resolved_at
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it says how."""
        if self.status is CaseStatus.RESOLVED and self.resolution_summary is None:
            return Rejected(RejectionCode.MISSING_FIELD, "resolutionSummary", "say how it was resolved")
        return None

    def apply(self, view: View, facts: Facts) -> str:
        """Make a tombstone that says how it ended."""
        when = facts.now if self.resolved_at is None or facts.actor.kind.model else self.resolved_at
        end_case(view, self.source_message_id, self.status, facts, resolved_at=when, how=self.resolution_summary)
        return self.status.value


class UpdateRepoActivityCursor(Operation):
    """Note which commit of a repository was reviewed last, and how many have come since.

    Refused if the repository is not indexed, or the commit is older than the one noted.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT})
    undoable: ClassVar[bool] = False
    operation: Literal["update_repo_activity_cursor"] = "update_repo_activity_cursor"
    repo: Text128
    last_commit_sha: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
    last_commit_at: Moment
    backlog: Count

    @property
    def _id(self) -> str:
        name = self.repo.casefold().encode()
        return f"repo:{hashlib.sha1(name, usedforsecurity=False).hexdigest()}"

    def needs(self) -> Needs:
        """Return the cursor and the repository."""
        return Needs(entries=frozenset({key("repo_cursor", self._id)}), repos=frozenset({self.repo.casefold()}))

    def rewrites(self) -> tuple[Key, ...]:
        """Return the cursor."""
        return (key("repo_cursor", self._id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether there is such a repository."""
        if self.repo.casefold() not in facts.repos:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "repo", "is no repository here")
        return ahead_or(facts, "lastCommitAt", self.last_commit_at)

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it goes back."""
        there = view.body(view.find("repo_cursor", self._id), RepoCursor)
        if there is not None and there.last_commit_at is not None and self.last_commit_at < there.last_commit_at:
            return Rejected(RejectionCode.CURSOR_REGRESSION, "lastCommitAt", "is older than the commit noted")
        return None

    def apply(self, view: View, facts: Facts) -> str:
        """Set the cursor."""
        cursor = RepoCursor(
            repo=self.repo,
            last_commit_sha=self.last_commit_sha,
            last_commit_at=self.last_commit_at,
            backlog=self.backlog,
        )
        return write(view, self._id, cursor, facts, origin(facts))


def end_case(
    view: View, message_id: int, status: CaseStatus, facts: Facts, *, resolved_at: datetime, how: str | None = None
) -> None:
    """Make a tombstone of the open obligation for a message; nothing happens if none is open."""
    entry = view.at(_case_key(message_id))
    case = view.body(entry, Case)
    if entry is None or case is None:
        return
    ended: dict[str, Any] = {"status": status, "resolved_at": resolved_at, "last_touched_at": facts.now}
    ended |= {} if how is None else {"resolution_summary": how}
    retire(view, entry, facts, status.value, body=case.model_copy(update=ended))


def _case_key(message_id: int) -> Key:
    return key("case", f"case:{message_id}")


def _on_message(message_id: int) -> Anchor:
    return Anchor(ref=f"message:{message_id}", kind=AnchorKind.MESSAGE)


def _follows(one: MessageFact, other: MessageFact) -> bool:
    return one.author_id == other.author_id and (one.sent_at, one.id) > (other.sent_at, other.id)


def _newest(ids: tuple[int, ...], most: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ids))[-most:]
