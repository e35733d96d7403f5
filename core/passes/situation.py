"""The moment in which something might be said unasked: what waits, what stands in its way, what was said before."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from operator import mul
from zoneinfo import ZoneInfo

from core.domain.audience import InRoom
from core.domain.candidates import Standing, answers_obligation, candidate_of
from core.domain.clustering import letters
from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.bodies import Case, Pressure
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Needs, speech_hash
from core.domain.mind.speech import Candidate, CandidateStatus, DeliveryMode
from core.domain.mind.values import EntryId
from core.domain.passes import Run, RunMode
from core.domain.rooms import RoomKind, RoomMode, RoomState
from core.domain.speaking import NEAR_LETTERS, Barrier, Method, Nearest, SpeechFacts
from core.domain.speech import speech_key
from core.domain.vectors import Vector
from core.passes.gate import Gate
from core.store import mind_facts, passes, places, speaking, state
from core.store.access import ReadableRooms
from core.store.engine import Tx
from core.store.places import Place
from core.store.speaking import Attempt, BasisFact, OwnText, Past, ReplyFact
from core.store.state import Mind

Vectors = Mapping[str, Vector]
"""Texts as vectors of one model; those that are not in it are compared by their letters."""
NO_VECTORS: Vectors = {}
_NEVER = Past()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known as candidates are judged; all of one transaction.

    `candidates`: the live ones whose sources every reader of the run's group may read, and whose people want to be
    remembered. `barrier`: why nothing can be
    posted anywhere. `rooms`: where they would be said. `owner`: the operator's direct room, if there is one.
    `own`: what was said, newest first. `said`: `speech_hash` of drafts that were said within 90 days.
    """

    run: Run
    now: datetime
    candidates: tuple[Entry, ...]
    obligations: frozenset[MessageId] = frozenset()
    need_to_speak: float = Pressure().need_to_speak
    barrier: Barrier | None = None
    rooms: Mapping[RoomId, Place]
    owner: tuple[RoomId, PersonId] | None = None
    replies: Mapping[MessageId, ReplyFact]
    basis: Mapping[EntryId, BasisFact]
    own: Sequence[OwnText]
    said: frozenset[str]
    past: Mapping[RoomId, Past]
    today: Mapping[RoomId, int]
    attempts: Mapping[str, Attempt]

    def place_of(self, body: Candidate) -> Place | None:
        """Return where it would be said; None if there is no such room."""
        venue = _venue(body, self.owner)
        return None if venue is None else self.rooms.get(venue)

    def reply_of(self, body: Candidate) -> ReplyFact | None:
        """Return the message that it would answer."""
        reply = _reply(body)
        return None if reply is None else self.replies.get(reply)

    def basis_of(self, body: Candidate) -> dict[EntryId, BasisFact]:
        """Return the memories and the pressure that it was made from, as far as they are there."""
        return {id_: self.basis[id_] for id_ in _basis(body) if id_ in self.basis}

    def attempt_of(self, entry: Entry, body: Candidate) -> Attempt | None:
        """Return what became of the present attempt to say it; None if there was none, or it was withdrawn."""
        return self.attempts.get(speech_key(self.run.mind_id, entry.id, body.attempts))

    def was_seen(self, entry: Entry, body: Candidate) -> bool:
        """Return whether people may have seen part of it in an earlier attempt."""
        earlier = (self.attempts.get(key) for key in _keys(self.run.mind_id, entry, body))
        return any(attempt is not None and attempt.shown for attempt in earlier)

    def standing(self, entry: Entry, body: Candidate) -> Standing:
        """Return what became of what a candidate rests on."""
        reply, named = self.reply_of(body), _reply(body)
        place = self.place_of(body)
        gone = set() if place is not None and place.room.state is not RoomState.DELETED else {_channel(body)}
        lost = {
            id_
            for id_, fact in self.basis_of(body).items()
            if fact.emptied or (fact.doubted_at is not None and fact.doubted_at > entry.created_at)
        }
        answered = {reply.id: reply.answered_at} if reply is not None and reply.answered_at is not None else {}
        return Standing(
            answered=answered,
            gone=frozenset(room for room in gone if room is not None),
            voided=frozenset(lost),
            deleted=frozenset() if named is None or (reply is not None and not reply.gone) else frozenset({named}),
        )

    def facts(self, entry: Entry, body: Candidate, *, readable: bool, vectors: Vectors) -> SpeechFacts:
        """Return what a candidate is judged by. `readable`: every reader of the place may read its sources now."""
        place, reply = self.place_of(body), self.reply_of(body)
        room = None if place is None else place.room
        past = _NEVER if room is None else self.past.get(room.id, _NEVER)
        owner = None if self.owner is None else self.owner[0]
        here = [each.text for each in self.own if room is not None and each.room_id == room.id]
        lately = [each.text for each in self.own if each.at > self.now - speaking.ANYWHERE]
        losing = any(fact.losing for fact in self.basis_of(body).values())
        return SpeechFacts(
            now=self.now,
            barrier=self.barrier or self._closed(entry, place, reply),
            mode=RoomMode.SILENT if room is None else room.mode,
            unattended=room is not None and room.unattended,
            dm=room is not None and room.kind is RoomKind.DM,
            # Who writes to the bot asks for its words; nobody else does.
            asked=reply is not None and reply.open and not reply.own,
            obligations=self.obligations,
            need_to_speak=self.need_to_speak,
            room_today=0 if room is None else self.today.get(room.id, 0),
            mind_today=sum(self.today.values()),
            since_last_s=self._since(past.last_at),
            since_unattended_s=self._since(past.unattended_at),
            human_since=past.unattended_at is None
            or (past.human_at is not None and past.human_at > past.unattended_at),
            here=nearest(body.draft, here, vectors),
            anywhere=nearest(body.draft, lately, vectors),
            said=speech_hash(body.draft) in self.said or body.draft in here,
            readable=readable and not losing,
            owner_linked=owner is not None,
            owner_today=0 if owner is None else self.today.get(owner, 0),
            approval_asked=False,
        )

    def _closed(self, entry: Entry, place: Place | None, reply: ReplyFact | None) -> Barrier | None:
        """Return why nothing can be posted in this place, or to this person."""
        if place is None or place.room.state is not RoomState.ACTIVE:
            return Barrier.ROOM_UNREACHABLE
        room = place.room
        if room.paused:
            return Barrier.PAUSED
        if room.quiet_hours is not None and room.quiet_hours.covers(
            self.now.astimezone(ZoneInfo(place.community.timezone))
        ):
            return Barrier.QUIET
        declined = reply is not None and not reply.open and not answers_obligation(entry, self.obligations)
        return Barrier.NOT_PERMITTED if declined else None

    def _since(self, at: datetime | None) -> float | None:
        return None if at is None else max(0.0, (self.now - at).total_seconds())


async def look(
    tx: Tx, run: Run, mind: Mind, gate: Gate, readable: ReadableRooms, operators: Sequence[str]
) -> Situation | None:
    """Return the moment as a run finds it; None if the readers of its group are not known, or nothing waits."""
    place = await passes.find_place(tx, run.mind_id, run.group)
    of_group = [room for room, group in (await gate.groups.load(tx, run.mind_id)).items() if group == run.group]
    if place is None or not of_group:
        return None
    seen = await readable.load(tx, place.home, InRoom(min(of_group)), None)
    entries = [held.entry for held in await state.list_live(tx, run.mind_id, ("candidate", "pressure"))]
    withdrawn = await mind_facts.list_withdrawn(tx, run.mind_id)
    found = [
        (entry, body)
        for entry in entries
        if entry.sources <= seen and (body := candidate_of(entry)) is not None and _may_be_said(entry, body, withdrawn)
    ]
    if not found:
        return None
    cases = [held.entry.body for held in await state.list_live(tx, run.mind_id, ("case",))]
    bodies = [body for _, body in found]
    to_owner = any(_mode(body) is DeliveryMode.OWNER_DM for body in bodies)
    owner = await speaking.find_owner(tx, run.mind_id, operators) if to_owner else None
    rooms = await _places(tx, run.mind_id, {venue for body in bodies if (venue := _venue(body, owner)) is not None})
    drafts = frozenset(body.draft for body in bodies)
    pressure = next((entry.body for entry in entries if isinstance(entry.body, Pressure)), Pressure())
    zone = ZoneInfo(place.zone)
    midnight = datetime.combine(mind.now.astimezone(zone).date(), time(), tzinfo=zone)
    return Situation(
        run=run,
        now=mind.now,
        candidates=tuple(entry for entry, _ in found),
        obligations=frozenset(
            MessageId(case.source_message_id) for case in cases if isinstance(case, Case) and case.status.live
        ),
        need_to_speak=pressure.need_to_speak,
        barrier=await _barrier(tx, run, gate, mind.now, zone),
        rooms=rooms,
        owner=owner,
        replies=await speaking.load_replies(tx, run.mind_id, {r for body in bodies if (r := _reply(body)) is not None}),
        basis=await speaking.load_basis(tx, run.mind_id, {id_ for body in bodies for id_ in _basis(body)}),
        own=await speaking.list_own(tx, run.mind_id, rooms),
        said=(await mind_facts.read(tx, run.mind_id, Needs(drafts=drafts))).said,
        past=await speaking.load_past(tx, rooms),
        today=await speaking.count_today(tx, run.mind_id, midnight),
        attempts=await speaking.find_attempts(
            tx, {key for entry, body in found for key in _keys(run.mind_id, entry, body)}
        ),
    )


def _may_be_said(entry: Entry, body: Candidate, withdrawn: frozenset[PersonId]) -> bool:
    """Return whether it may be judged: not what is of people who do not want to be remembered, as in projections."""
    return body.status is CandidateStatus.SENDING or not entry.people & withdrawn


def nearest(draft: str, texts: Iterable[str], vectors: Vectors) -> Nearest | None:
    """Return how like the most similar of these texts is; None if there is none.

    A text that came after the vectors were made is compared by its letters, and counts if they say that it is the same.
    """
    own = vectors.get(draft)
    cosines: list[float] = []
    shares: list[float] = []
    for text in texts:
        other = vectors.get(text)
        if own is not None and other is not None:
            cosines.append(sum(map(mul, own, other)))
        else:
            shares.append(letters(draft, text))
    by_letters = Nearest(max(shares), Method.LETTERS) if shares else None
    if not cosines or (by_letters is not None and by_letters.score >= NEAR_LETTERS):
        return by_letters
    return Nearest(max(cosines), Method.EMBEDDER)


async def _places(tx: Tx, mind_id: str, rooms: Iterable[RoomId]) -> dict[RoomId, Place]:
    known = {room.id for room in await places.list_mind_rooms(tx, mind_id)}
    return {room: await places.load_place(tx, room) for room in sorted(known.intersection(rooms))}


async def _barrier(tx: Tx, run: Run, gate: Gate, now: datetime, zone: ZoneInfo) -> Barrier | None:
    match run.mode:
        case RunMode.DRY_RUN:
            return Barrier.DRY_RUN
        case RunMode.NO_POST:
            return Barrier.NO_POST
    if await gate.held_back(tx, run, now) is not None:
        return Barrier.PAUSED
    quiet = gate.policy.quiet
    return Barrier.QUIET if quiet is not None and quiet.covers(now.astimezone(zone)) else None


def _keys(mind_id: str, entry: Entry, body: Candidate) -> tuple[str, ...]:
    return tuple(speech_key(mind_id, entry.id, n) for n in range(body.attempts + 1))


def _venue(body: Candidate, owner: tuple[RoomId, PersonId] | None) -> RoomId | None:
    if _mode(body) is DeliveryMode.OWNER_DM:
        return None if owner is None else owner[0]
    return _channel(body)


def _mode(body: Candidate) -> DeliveryMode | None:
    return None if body.delivery_target is None else body.delivery_target.mode


def _channel(body: Candidate) -> RoomId | None:
    target = body.delivery_target
    return None if target is None or target.channel_id is None else RoomId(target.channel_id)


def _reply(body: Candidate) -> MessageId | None:
    target = body.delivery_target
    return None if target is None or target.reply_to_message_id is None else MessageId(target.reply_to_message_id)


def _basis(body: Candidate) -> tuple[EntryId, ...]:
    pressure = () if body.source_pressure_id is None else (body.source_pressure_id,)
    return tuple(map(EntryId, (*body.source_memory_ids, *pressure)))
