"""A card with choices on its way to a room, as the phase of speech would queue one."""

from datetime import timedelta

from core.chat.work import send_job
from core.domain.choices import Choice, ChoiceRef
from core.domain.ids import RoomId
from core.domain.speech import Draft, Receipt, SpeechKind
from core.store import choices, jobs, outbox, places, state
from core.store.engine import Database


async def put_up(database: Database, room_id: RoomId, name: str, *acts: Choice) -> ChoiceRef:
    """Queue a card that can be answered for a day; return its first choice."""
    async with database.transaction() as tx:
        room = await places.load_room(tx, room_id)
        front_end = room.key.platform
        draft = Draft(SpeechKind.CARD, room_id, front_end, None, f"May I, {name}?", frozenset({room_id}), name)
        added = await outbox.add(tx, draft, community_id=room.community_id, trace=name, asked_at=None)
        assert added is not None
        await choices.offer(tx, added, acts, await state.now(tx) + timedelta(days=1))
        job = send_job(
            added, front_end=front_end, community_id=room.community_id, room_id=room_id, person_id=None, trace=name
        )
        (job_id,) = await jobs.enqueue(tx, [job])
        receipt = Receipt(trigger="test", rule="card:approval", provider="code")
        await outbox.add_receipt(tx, added, receipt, room_id=room_id, person_id=None, job_id=job_id)
    return ChoiceRef(added, 1)


async def run_out(database: Database, ref: ChoiceRef) -> None:
    """Let the time of a card's choices be over."""
    async with database.transaction() as tx:
        past = "update voidbot.outbox set choices_until = voidbot.now() - interval '1 minute' where id = $1"
        assert await tx.execute(past, ref.outbox_id) == 1
