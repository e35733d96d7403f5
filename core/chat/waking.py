"""A mention wakes: whoever asks while the mind naps is answered at once, and the nap waits for a while."""

from core.domain.mind.bodies import KIND_OF, Sleep
from core.domain.mind.entries import Key
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.values import EntryId
from core.domain.operations.batch import Batch, Item
from core.domain.operations.runtime import UpdateSleepCycle
from core.domain.sleeping import woken
from core.jobs.executor import JobContext
from core.state.service import StateService
from core.store import mind_views, state
from core.store.engine import Tx

SLEEP = Key(KIND_OF["sleep"], EntryId("sleep"))


async def wake(tx: Tx, minds: StateService, mind_id: str, ctx: JobContext) -> None:
    """Wake the mind if it naps; call it before the transaction locks anything else."""
    if not (await mind_views.find_sleep(tx, mind_id)).is_napping:
        return
    mind = await state.lock_mind(tx, mind_id)
    (held,) = await state.load_entries(tx, mind_id, {SLEEP})
    awake = woken(held.entry.body, mind.now) if isinstance(held.entry.body, Sleep) else None
    if awake is not None:
        item = Item(UpdateSleepCycle(sleep=awake), f"job:{ctx.job.id}:{ctx.attempt}:wake")
        actor = Actor(Emitter.PARENT, "mention", job_id=ctx.job.id)
        await minds.apply(tx, Batch(mind_id=mind_id, actor=actor, items=(item,)))
