"""How alike a reply's notes are to those that the mind holds, asked of the embedder before the mind is locked."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import mul

from core.domain.mind.bodies import ShortTerm
from core.domain.mind.facts import Packet, Similarity
from core.domain.operations.batch import Item, Refused
from core.domain.operations.memories import RecordShortTermMemory
from core.domain.vectors import Vector
from core.retrieval.service import Likeness
from core.store import state
from core.store.engine import Database

KNOWN_TEXTS = 512


@dataclass(frozen=True, slots=True)
class Likening:
    """Compares notes; remembers vectors of texts by model. `likeness` None: notes are compared by their letters."""

    database: Database
    likeness: Likeness | None
    _known: OrderedDict[tuple[str, str], Vector] = field(default_factory=OrderedDict)

    async def compare(self, mind_id: str, items: Sequence[Item | Refused], packet: Packet) -> Similarity:
        """Return how alike the notes among these operations are to live ones of the rooms that they come from."""
        new: dict[str, str] = {
            item.operation.memory.memory_id: item.operation.memory.point
            for item in items
            if isinstance(item, Item) and isinstance(item.operation, RecordShortTermMemory)
        }
        if self.likeness is None or not new:
            return Similarity()
        async with self.database.transaction(durable=False) as tx:
            held = await state.load_entries(tx, mind_id, (), ["short_term"], packet.rooms)
        old: dict[str, str] = {
            each.entry.id: each.entry.body.point for each in held if isinstance(each.entry.body, ShortTerm)
        }
        if not old:
            return Similarity()
        found = await self.vectors({*new.values(), *old.values()})
        if found is None:
            return Similarity()
        model, vectors = found
        scores = {
            (one, other): sum(map(mul, vectors[text], vectors[said]))
            for one, text in new.items()
            for other, said in old.items()
        }
        return Similarity(model, scores)

    async def vectors(self, texts: Collection[str]) -> tuple[str, dict[str, Vector]] | None:
        """Return the vectors of texts, asking only for those that are not known of the model that is read now."""
        if self.likeness is None:
            return None
        model = await self.likeness.model_name()
        wanted = sorted(text for text in texts if (model, text) not in self._known)
        if model is None:
            return None
        if wanted:
            vectors = await self.likeness.embed(wanted)
            if vectors is None:
                return None
            self._known.update({(model, text): vector for text, vector in zip(wanted, vectors, strict=True)})
        found = {text: self._known[model, text] for text in texts}
        while len(self._known) > KNOWN_TEXTS:
            self._known.popitem(last=False)
        return model, found
