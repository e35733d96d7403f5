"""The card by which the staff is asked whether something may be said unasked: its words, its choices, its job."""

from dataclasses import dataclass

from core.chat.answers import queue_unasked
from core.chat.voice import Voice
from core.domain.candidates import APPROVAL_LASTS
from core.domain.choices import Choice
from core.domain.ids import OutboxId, RoomId
from core.domain.mind.values import EntryId
from core.domain.passes import Run
from core.domain.rooms import Room
from core.domain.speech import Draft, Receipt, SpeechKind, card_key
from core.passes.saying import Saying, rests_on
from core.passes.situation import Situation
from core.prompt.fences import shown_name
from core.prompt.stock import StockKey
from core.store import places
from core.store.access import ReadableRooms
from core.store.engine import Tx

RULE = "card:approval"
"""The rule by which a card is sent, as its receipt names it."""


@dataclass(frozen=True, slots=True)
class Cards:
    """What asking the staff needs."""

    readable: ReadableRooms
    voice: Voice

    async def ask(self, tx: Tx, run: Run, waiting: Saying, situation: Situation) -> OutboxId | None:
        """Queue the card for what waits for a yes; None if no room is the staff's, or it was asked before.

        It shows the words only where every reader of the staff's room may read what they were made from, and the
        room in which they would be said. Else it says that something waits, and nothing of what it is.
        """
        staff = await places.find_staff(tx, waiting.place.room.community_id)
        if staff is None:
            return None
        here = await places.load_place(tx, staff.id)
        sources = waiting.entry.sources | {waiting.place.room.id}
        shown = await self.readable.allow(tx, staff.community_id, staff.id, None, sources, epoch=here.mind_epoch)
        text = self._asking(staff, waiting, situation) if shown else self._say(staff, StockKey.CARD_HIDDEN)
        told = sources if shown else frozenset[RoomId]()
        draft = Draft(
            kind=SpeechKind.CARD,
            room_id=staff.id,
            front_end=staff.key.platform,
            reply_to=None,
            text=text,
            audience=told | {staff.id},
            dedupe=card_key(run.mind_id, waiting.entry.id, waiting.body.attempts),
        )
        trace = f"run:{run.id}"
        made_of = rests_on(waiting, situation) if shown else ()
        return await queue_unasked(
            tx,
            draft,
            Receipt(trigger=trace, rule=RULE, provider="code", sources=made_of),
            community_id=staff.community_id,
            trace=trace,
            choices=self._choices(staff, waiting.entry.id) if shown else (),
            until=min(situation.now + APPROVAL_LASTS, waiting.body.expires_at),
        )

    def _asking(self, staff: Room, waiting: Saying, situation: Situation) -> str:
        left = min(APPROVAL_LASTS, waiting.body.expires_at - situation.now)
        return self._say(
            staff,
            StockKey.CARD_ASK,
            kind=waiting.body.kind.value.replace("_", " "),
            room=f"#{shown_name(waiting.place.room.name)}",
            draft="\n".join(f"> {line}" for line in waiting.text.splitlines()),
            hours=str(max(1, round(left.total_seconds() / 3600))),
        )

    def _choices(self, staff: Room, candidate: EntryId) -> tuple[Choice, ...]:
        acts = {"approve": StockKey.CARD_APPROVE, "deny": StockKey.CARD_DENY}
        return tuple(
            Choice(self._say(staff, label), f"/void candidates {act} id:{candidate}") for act, label in acts.items()
        )

    def _say(self, staff: Room, key: StockKey, **values: str) -> str:
        return self.voice.say(staff.language, key, staff.id, **values)
