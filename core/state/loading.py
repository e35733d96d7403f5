"""What a batch is judged by: the entries that its operations need, and the facts from outside, read in one place."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import KIND_OF, Kind
from core.domain.mind.citing import anchors_of, ref_of
from core.domain.mind.entries import Key
from core.domain.mind.facts import Facts, Needs, message_of
from core.domain.mind.values import Anchor, EntryId
from core.domain.mind.view import View
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch
from core.state.undoing import undo_facts
from core.store import journal, mind_facts, state
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups
from core.store.state import Held, Mind

LONGEST_RUN = 5000
"""How many rows of the journal one run of a pass can lie apart."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A view and facts for one batch; which row touched each entry last; the rooms of everything beside it."""

    view: View
    facts: Facts
    last_seqs: dict[Key, int]
    rooms: frozenset[RoomId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """What loading remembers between batches: which rooms have the same readers."""

    groups: AudienceGroups

    async def load(self, tx: Tx, mind: Mind, batch: Batch, operations: Sequence[Operation]) -> Loaded:
        """Return what these operations are to be judged by."""
        needs = reduce(Needs.joined, (operation.needs() for operation in operations), Needs())
        found = await mind_facts.read(tx, mind.id, needs)
        grouped = await self.groups.load(tx, mind.id) if needs.counted or "short_term" in needs.live else {}
        held = await self._entries(tx, mind.id, needs, _Near(batch, found, grouped))
        # Of what is all here, what is here can be counted.
        counted = needs.counted - needs.live
        counts = await state.count_live(tx, mind.id, counted) if counted else []
        undo = {seq: await undo_facts(tx, mind.id, seq) for seq in sorted(needs.undo)}
        if undo:
            keys = {key for each in undo.values() for key in each.before} - {each.entry.key for each in held}
            held += await state.load_entries(tx, mind.id, keys)
        facts = Facts(
            now=mind.now,
            actor=batch.actor,
            packet=batch.packet,
            messages=found.messages,
            refs=found.refs,
            lost_quotes=found.lost_quotes,
            groups=grouped,
            similarity=batch.similarity,
            people=found.people,
            opted_out=found.opted_out,
            erased=found.erased | await self._erased(tx, batch),
            rooms=found.rooms,
            repos=found.repos,
            outbox=found.outbox,
            readable={venue: await mind_facts.list_readable_in(tx, mind.id, venue) for venue in sorted(needs.venues)},
            surviving=await mind_facts.list_surviving(tx, _edited(needs, held)) if needs.citing else frozenset(),
            undo=undo,
            paused=mind.paused,
            revisions=found.revisions,
            echoed=batch.echoed,
            said=found.said,
            answered=found.answered,
            spoke_at=found.spoke_at,
            runs=found.runs,
            spent=await self._spent(tx, mind, batch) if needs.limits else {},
            recalled=await _recalled(tx, mind.id, needs, held) if needs.recalled else {},
        )
        entries = [each.entry for each in held]
        rooms = frozenset(room for entry in entries for room in entry.sources)
        rooms |= frozenset(room for _, sources, _ in counts for room in sources)
        return Loaded(View(entries, counts), facts, {each.entry.key: each.last_seq for each in held}, rooms)

    async def _erased(self, tx: Tx, batch: Batch) -> frozenset[PersonId]:
        """Return whose words a model had read that are being erased; the mind is held, so none is missed."""
        people = batch.packet.people if batch.actor.kind.model and batch.packet is not None else ()
        return frozenset(await mind_facts.list_erased(tx, people)) if people else frozenset()

    async def _spent(self, tx: Tx, mind: Mind, batch: Batch) -> dict[str, float]:
        """Return what the batch's run has used of its limits in earlier batches."""
        if batch.actor.run_id is None:
            return {}
        return await journal.sum_spent(tx, mind.id, batch.actor.run_id, mind.last_seq - LONGEST_RUN)

    async def _entries(self, tx: Tx, mind_id: str, needs: Needs, near: "_Near") -> list[Held]:
        resting = {key for anchor in needs.anchors for key in keys_of_anchor(anchor)}
        named = await state.load_entries(tx, mind_id, resting) if resting and needs.live else []
        rooms = near.rooms(named)
        loaded = await state.load_entries(tx, mind_id, needs.entries | resting, needs.live, rooms)
        held = {each.entry.key: each for each in loaded}
        for person in sorted(needs.of_people):
            held |= {each.entry.key: each for each in await state.list_of_person(tx, mind_id, person)}
        refs = set(needs.citing) | ({ref_of(each.entry) for each in held.values()} if needs.of_people else set())
        asked: set[str] = set()
        while refs - asked:
            new = refs - asked
            asked |= new
            for each in await state.list_citing(tx, mind_id, new):
                held[each.entry.key] = each
                refs.add(ref_of(each.entry))
        return list(held.values())


@dataclass(frozen=True, slots=True)
class _Near:
    """The rooms that notes can have been made from which a batch's own notes are compared with."""

    batch: Batch
    found: mind_facts.Found
    grouped: Mapping[RoomId, str]

    def rooms(self, named: Iterable[Held]) -> frozenset[RoomId]:
        """Return the rooms that the batch's notes will be made from, and all with the same readers."""
        own = set(self.batch.packet.rooms if self.batch.packet is not None else ())
        own |= {fact.room_id for fact in self.found.messages.values()}
        own |= {room for rooms in self.found.refs.values() for room in rooms}
        own |= {room for each in named for room in each.entry.sources}
        names = {self.grouped[room] for room in own if room in self.grouped}
        return frozenset(own | {room for room, name in self.grouped.items() if name in names})


def keys_of_anchor(anchor: Anchor) -> tuple[Key, ...]:
    """Return the entries that an anchor can mean."""
    kind, _, id_ = anchor.ref.partition(":")
    match kind:
        case "memory":
            return (Key(Kind.MEMORY, EntryId(id_)), Key(Kind.PRESSURE, EntryId(id_)))
        case "receipt":
            return (Key(KIND_OF["receipt"], EntryId(id_)),)
    return ()


async def _recalled(tx: Tx, mind_id: str, needs: Needs, held: Iterable[Held]) -> Mapping[str, datetime]:
    """Return when the entries that are weighed were last part of a prompt."""
    return await mind_facts.list_recalled(tx, mind_id, [e.entry.id for e in held if e.entry.type in needs.recalled])


def _edited(needs: Needs, held: Iterable[Held]) -> list[Anchor]:
    """Return the anchors on messages that are to be looked at again."""
    return [
        anchor
        for each in held
        for anchor in anchors_of(each.entry.body)
        if anchor.ref in needs.citing and message_of(anchor.ref) is not None
    ]
