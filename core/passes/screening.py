"""What of an answer goes before the mind: within a run's limits, not about its own workings, nothing unspeakable."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from core.chat.guards import Blocked, Guard, GuardContext, guard, word_runs
from core.domain.ids import MessageId
from core.domain.mind.codes import Accepted, Rejected, RejectionCode
from core.domain.mind.entries import Entry
from core.domain.mind.values import EntryId, Thought
from core.domain.operations.base import Operation
from core.domain.operations.batch import BatchVerdict, Item, Refused
from core.domain.operations.memories import RecordShortTermMemory
from core.domain.operations.speech import QueueCandidateIntervention
from core.domain.orbiting import LAST, Orbit, orbit_refusals, self_directed
from core.domain.prompt import Role

Piece = Item | Refused
MOST_OPERATIONS, MOST_MEMORIES, MOST_CANDIDATES = 12, 4, 3
MACHINERY = frozenset(
    {"anchor", "candidate", "crystallization", "cursor", "distillation", "fixture", "handle", "heartbeat", "incubation"}
    | {"intervention", "journal", "maintenance", "memory", "memories", "nap", "obligation", "operation", "packet"}
    | {"pass", "projection", "prompt", "readiness", "rumination", "scheduler", "voidbot"}
)
"""Words for the mind's own workings. A thought whose names are all of these is about itself."""


def within_limits(items: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return the pieces; those beyond what one run may propose are refused, the first ones stand."""
    memories = candidates = 0
    kept: list[Piece] = []
    for n, item in enumerate(items):
        operation = item.operation if isinstance(item, Item) else None
        memories += isinstance(operation, RecordShortTermMemory)
        candidates += isinstance(operation, QueueCandidateIntervention)
        refused = Rejected(RejectionCode.TOO_MANY, f"[{n}]", "one answer holds fewer of these")
        over = (
            n >= MOST_OPERATIONS
            or (isinstance(operation, RecordShortTermMemory) and memories > MOST_MEMORIES)
            or (isinstance(operation, QueueCandidateIntervention) and candidates > MOST_CANDIDATES)
        )
        kept.append(refuse(item, refused) if over else item)
    return tuple(kept)


def speakable(items: Sequence[Piece], role: Role) -> tuple[Piece, ...]:
    """Return the pieces; speech whose words may not be said in any room is refused."""
    context = GuardContext(system_runs=word_runs(role.body))
    return tuple(
        refuse(item, _unspeakable(found, n))
        if isinstance(item, Item)
        and isinstance(item.operation, QueueCandidateIntervention)
        and isinstance(found := guard(item.operation.intervention.draft, context), Blocked)
        else item
        for n, item in enumerate(items)
    )


def outward(items: Sequence[Piece], orbit: Orbit) -> tuple[Piece, ...]:
    """Return the pieces; thoughts about the mind's own workings are refused, as far as they are too many."""
    places = [n for n, item in enumerate(items) if isinstance(item, Item)]
    operations = [item.operation for item in items if isinstance(item, Item)]
    found = {places[n]: refused for n, refused in orbit_refusals(operations, orbit).items()}
    return tuple(
        refuse(item, replace(found[n], path=f"[{n}].{found[n].path}")) if n in found else item
        for n, item in enumerate(items)
    )


def orbit_of(
    own_repo: str, window: Iterable[MessageId], named: Iterable[Entry], owed: Sequence[Entry], notes: Iterable[Entry]
) -> Orbit:
    """Return what is known of the mind's circling. `notes`: its live notes of the day."""
    last = sorted(notes, key=lambda entry: (entry.created_at, entry.id))[-(LAST - 1) :]
    thoughts = [entry.body for entry in last if isinstance(entry.body, Thought)]
    there: dict[EntryId, Thought] = {
        entry.id: entry.body for entry in named if entry.live and isinstance(entry.body, Thought)
    }
    return Orbit(
        own_repo=own_repo,
        machinery=MACHINERY,
        window=frozenset(window),
        there=there,
        owed=owed,
        recent=[self_directed(each, own_repo, MACHINERY) for each in thoughts],
    )


def refuse(item: Piece, verdict: Rejected) -> Refused:
    """Return the piece as one that was refused before it came before the mind."""
    name = item.operation.operation if isinstance(item, Item) else item.name
    return Refused(verdict, item.key, name)


def accepted(items: Sequence[Piece], verdict: BatchVerdict) -> list[Operation]:
    """Return the operations that stand."""
    return [
        item.operation
        for item, recorded in zip(items, verdict.items, strict=True)
        if isinstance(item, Item) and isinstance(recorded.verdict, Accepted)
    ]


def told(items: Sequence[Piece], verdict: BatchVerdict) -> list[dict[str, str]]:
    """Return what became of each piece, for the record: its name, effect or code, and place; no words of it."""
    rows = []
    for item, recorded in zip(items, verdict.items, strict=True):
        name = item.operation.operation if isinstance(item, Item) else item.name
        match recorded.verdict:
            case Accepted(effect):
                rows.append({"name": name, "verdict": "accepted", "effect": effect, "code": "", "path": ""})
            case Rejected(code, path):
                rows.append({"name": name, "verdict": "rejected", "effect": "", "code": code.value, "path": path})
    return rows


def counted(rows: Sequence[dict[str, str]]) -> dict[str, int]:
    """Return the counts of a phase that applied this: proposed, accepted, merged, refused, and each code."""
    counts = {"proposed": len(rows)}
    for row in rows:
        names = [row["verdict"]] if row["verdict"] == "accepted" else ["refused", f"refused_{row['code']}"]
        names += ["merged"] if row["effect"].partition(":")[0] in ("repeated", "deepened") else []
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    return counts


def _unspeakable(found: Blocked, n: int) -> Rejected:
    path = f"[{n}].intervention.draft"
    if found.guard is Guard.PROMPT_ECHO:
        return Rejected(RejectionCode.PROMPT_ECHO, path, "reads its instructions out")
    return Rejected(RejectionCode.OUT_OF_RANGE, path, "says nothing that could be said in a room")
