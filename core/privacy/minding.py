"""What of an erasure reaches the mind: one operation for each mind, so that its journal still adds up."""

import re
from collections.abc import Sequence
from functools import partial

from core.domain.erasure import Reach
from core.domain.ids import MessageId, PersonId
from core.domain.mind.codes import Rejected
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.values import EntryId
from core.domain.operations.batch import Batch, Item, Mode
from core.domain.operations.keeping import ErasePerson, VoidCause, VoidSource
from core.privacy.hand import Hand
from core.state.service import StateService
from core.store import mind_traces, owned, people, state
from core.store.engine import Tx
from core.store.erasures import Erasure

LEAST_NAME_CHARS = 3
"""A shorter name stands in too many words to be anybody's."""


async def erase_from_minds(hand: Hand, service: StateService, what: Erasure) -> None:
    """Take a person out of every mind that they, or words of theirs, are in; may run any number of times.

    Of some messages alone nothing is to be done here: `take_back` follows when they are buried.
    """
    if what.person_id is None or what.scope.reach is not Reach.PERSON:
        return
    for mind_id in await hand.do(partial(state.list_minds_of, person_id=what.person_id)):
        await hand.do(
            partial(erase_from_mind, service=service, mind_id=mind_id, person_id=what.person_id, plan=what.ledger_id)
        )


async def take_back(hand: Hand, service: StateService, buried: Sequence[MessageId], plan: int) -> None:
    """Have every mind void what rests on messages that were just buried. `plan`: the erasure that this is a part of.

    The index never looks at them again, so nothing else would.
    """
    resting = partial(state.list_resting, messages=buried, wordless=mind_traces.WORDLESS)
    by_mind: dict[str, list[MessageId]] = {}
    for mind_id, message in await hand.do(resting):
        by_mind.setdefault(mind_id, []).append(message)
    for mind_id, messages in by_mind.items():  # one mind in a transaction
        await hand.do(partial(_void, service=service, mind_id=mind_id, messages=messages, plan=plan))


async def _void(tx: Tx, service: StateService, mind_id: str, messages: Sequence[MessageId], plan: int) -> None:
    mind = await state.lock_mind(tx, mind_id)
    operation = VoidSource(refs=tuple(f"message:{id_}" for id_ in messages), cause=VoidCause.DELETED)
    item = Item(operation, f"buried:{plan}:{mind.last_seq}")
    actor = Actor(Emitter.PARENT, "erasure")
    verdict = await service.apply(tx, Batch(mind_id=mind_id, actor=actor, items=(item,), mode=Mode.ALL))
    refused = [each.verdict for each in verdict.items if isinstance(each.verdict, Rejected)]
    if refused:
        raise AssertionError(f"what was buried is taken back: {refused[0].code.value}")


async def erase_from_mind(tx: Tx, service: StateService, mind_id: str, person_id: PersonId, plan: int) -> None:
    """Take a person out of one mind and its journal. `plan`: the erasure that this is a part of."""
    mind = await state.lock_mind(tx, mind_id)
    if mind.last_seq == 0:  # nobody was noted there, not even by a reply that was under way
        return
    names = [*await owned.list_names(tx, [person_id]), await people.account_of(tx, person_id)]
    names = [name for name in names if len(name) >= LEAST_NAME_CHARS]
    named = await state.list_naming(tx, mind_id, names)
    rows = await mind_traces.list_naming(tx, mind_id, names)
    operation = ErasePerson(
        person_id=person_id,
        plan_id=str(plan),
        refs=tuple(await state.list_cited_of(tx, mind_id, person_id)),
        entry_ids=tuple(sorted({EntryId(id_) for id_, body in named if _stands_in(body, names)})),
        rows=tuple(seq for seq, words in rows if _stands_in(words, names)),
    )
    batch = Batch(
        mind_id=mind_id,
        actor=Actor(Emitter.PARENT, "erasure"),
        items=(Item(operation, f"erase:{plan}:{mind.last_seq}"),),
        mode=Mode.ALL,
    )
    verdict = await service.apply(tx, batch)
    refused = [item.verdict for item in verdict.items if isinstance(item.verdict, Rejected)]
    if refused:
        raise AssertionError(f"an erasure is never refused: {refused[0].code.value}")


def _stands_in(text: str, names: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) for name in names)
