"""The private self for one prompt: what every reader of a venue may hear, ranked, in words, within a budget."""

from collections.abc import Sequence
from datetime import datetime

from core.domain.mind.bodies import Thread
from core.domain.mind.entries import Entry
from core.domain.mind.projecting import Cost, Material, Ranked, SelfStateSection, ViewWanted, fit
from core.store import mind_views
from core.store.engine import Tx
from core.store.mind_views import Found


async def project(
    tx: Tx, mind_id: str, view: ViewWanted, now: datetime, budget_tokens: int, cost: Cost
) -> SelfStateSection:
    """Return what the mind may show in a venue about something. Nothing is written.

    `cost`: how many tokens a text takes, as the prompt's builder counts them.
    """
    wanted = mind_views.Wanted(
        types=view.types,
        room=view.room,
        readable=view.readable,
        private=view.private_to is not None,
        public=view.public,
        speaker=view.speaker,
        about=view.about,
        targets=view.targets,
        topics=view.topics,
        near=view.near,
        pool=view.pool,
    )
    found = await mind_views.find(tx, mind_id, wanted, now)
    material = Material(
        found={type_: [Ranked(each.entry, each.score) for each in every] for type_, every in found.items()},
        there={type_: every[0].there for type_, every in found.items()},
        sleep=await mind_views.find_sleep(tx, mind_id),
        supports={each.id: each for each in await _supports(tx, mind_id, found.get("thread", ()))},
    )
    return fit(material, view, now, budget_tokens, cost)


async def _supports(tx: Tx, mind_id: str, threads: Sequence[Found]) -> list[Entry]:
    """Return the notes of the day that threads rest on, as far as the threads' own rooms reach."""
    bodies = [each.entry.body for each in threads]
    ids = {id_ for body in bodies if isinstance(body, Thread) for id_ in body.support_memory_ids}
    rooms = {room for each in threads for room in each.entry.sources}
    return await mind_views.find_notes(tx, mind_id, ids, rooms) if ids else []
