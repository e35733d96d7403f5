"""What platforms tell of joins and of acts that are not ours: kept as it is, so that histories are whole.

An act of others is no strike. Where it has dealt with what a case is about, the case says so and asks for nothing.
"""

from dataclasses import dataclass

from core.domain.ids import CommunityId, PersonId
from core.domain.moderation.acts import Joined, NativeAct, NativeKind
from core.domain.moderation.cases import CaseStatus, Outcome
from core.moderation.work import case_job
from core.store import acts, cases, jobs, people, places
from core.store.engine import Database, Tx

ENDS = frozenset({NativeKind.BLOCKED, NativeKind.DELETED, NativeKind.TIMED_OUT, NativeKind.KICKED, NativeKind.BANNED})
"""What deals with a breach; the others take something back."""


@dataclass(frozen=True, slots=True)
class Natives:
    """What hearing of others needs."""

    database: Database

    async def joined(self, event: Joined) -> None:
        """Somebody has joined, or asks to; they are known from their first word on."""

    async def acted(self, event: NativeAct) -> None:
        """Note what others did; close what waits about the same person and message as dealt with.

        Raises:
            Unavailable: The store is down; nothing was stored.
        """
        async with self.database.transaction() as tx:
            community_id = await places.find_community(tx, event.platform, event.community_ref)
            if community_id is not None:
                await self._note(tx, community_id, event)

    async def _note(self, tx: Tx, community_id: CommunityId, event: NativeAct) -> None:
        person = await people.find_person(tx, event.platform, event.account_ref, community_id)
        person_id = None if person is None or person.erasing else person.id
        place = None if event.room is None else await places.find_place(tx, event.room)
        room_id = None if place is None else place.room.id
        if not await acts.add_native(tx, community_id, event, person_id, room_id):
            return
        if person_id is not None and event.kind in ENDS:
            await self._close(tx, community_id, person_id, event)

    async def _close(self, tx: Tx, community_id: CommunityId, person_id: PersonId, event: NativeAct) -> None:
        """Close cases that began within the last minute about what was dealt with."""
        for case in await cases.list_fresh(tx, community_id, person_id):
            evidence = await cases.list_evidence(tx, case.id)
            if event.message_ref and all(each.ref != event.message_ref for each in evidence):
                continue
            await cases.add_event(tx, case.id, None, "handled_natively", {"kind": event.kind})
            done = await cases.change(tx, case, CaseStatus.CLOSED, outcome=Outcome.NATIVE, reason="handled natively")
            if done is not None:  # the job brings its card to how it stands
                await jobs.enqueue(tx, [case_job(done.id, community_id)])
