"""Whether the mind circles around itself: thoughts of its own workings are few, and begin with what people said. Pure.

Left alone, a model that is shown its own notes writes notes about writing notes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from core.domain.distilling import concrete_tokens
from core.domain.ids import MessageId
from core.domain.mind.bodies import PressureStatus, ThreadStatus
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry
from core.domain.mind.facts import message_of
from core.domain.mind.values import Anchor, EntryId, Target, TargetKind, Thought
from core.domain.operations.agency import UpsertAgencyPressure
from core.domain.operations.base import Operation
from core.domain.operations.memories import RecordShortTermMemory
from core.domain.operations.speech import Intervention, QueueCandidateIntervention
from core.domain.operations.threads import MergeIncubationSupport, ThreadPayload
from core.domain.owing import matches

MOST_IN_RUN = 1
"""How many thoughts of its own workings one run may add, of whatever sort."""
LAST, ONE_IN = 50, 5
"""Of the last 50 notes at most one in five is about its own workings."""
LEAST_LETTERS, LEAST_NAMES = 4, 2
"""Of how many letters a word is that says something; how many words of machinery make a claim one of machinery."""

_WORD = re.compile(r"[^\W\d_]+")
_NOTHING = Target(kind=TargetKind.ARCHIVE, id="none")
"""What speech without a target is about."""
_LET_GO = frozenset({PressureStatus.COOLING, PressureStatus.RESOLVED, PressureStatus.RETIRED})
_LAID_DOWN = frozenset({ThreadStatus.COOLING, ThreadStatus.RETIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Orbit:
    """What is known when a batch is held against the mind's circling around itself.

    `own_repo`: the bot's own repository; empty: none. `machinery`: words for its workings, small letters, singular.
    `window`: messages of people that this run reads for the first time. `there`: live memories, threads and pressures
    that the batch names. `owed`: pressures that the run has to answer. `recent`: for each of the last notes that were
    taken in, oldest first, whether it is self-directed. `added`: how many such thoughts the run added before.
    """

    own_repo: str
    machinery: frozenset[str]
    window: frozenset[MessageId]
    there: Mapping[EntryId, Thought] = field(default_factory=dict)
    owed: Sequence[Entry] = ()
    recent: Sequence[bool] = ()
    added: int = 0


def self_directed(thought: Thought, own_repo: str, machinery: frozenset[str]) -> bool:
    """Return whether a thought is about the mind itself: by its target, or because its claim names nothing else.

    Names are what is concrete in a claim: quoted words, code, paths, @names. A claim without any is one of machinery
    if most of its longer words are. What is said of another repository is about that one, whatever words it takes.
    """
    about = thought.target
    if about.kind in (TargetKind.SELF, TargetKind.SYSTEM):
        return True
    if about.kind is TargetKind.REPO:
        return about.id.casefold() == own_repo.casefold()
    names = [token for token in concrete_tokens(thought) if _WORD.search(token)]
    if names:
        return all(_named(token, machinery) for token in names)
    words = set(_WORD.findall(f"{thought.claim or ''}\n{thought.question or ''}".casefold()))
    named = {word for word in words if _is_machinery(word, machinery)}
    telling = named | {word for word in words if len(word) >= LEAST_LETTERS}
    return len(named) >= LEAST_NAMES and 2 * len(named) > len(telling)


def orbit_refusals(operations: Sequence[Operation], orbit: Orbit) -> dict[int, Rejected]:
    """Return which of the proposed operations are to be refused before any is applied, by their place.

    To let a pressure or a thread go is never circling, nor is speech about a pressure that had to be answered.
    """
    refused: dict[int, Rejected] = {}
    added = orbit.added
    for place, operation in enumerate(operations):
        found = _thought_of(operation, orbit)
        if found is None or not self_directed(found.thought, orbit.own_repo, orbit.machinery):
            continue
        why = _refusal(found, orbit, added)
        if why is None:
            added += 1
        else:
            refused[place] = Rejected(RejectionCode.SELF_ORBIT, found.path, why)
    return refused


@dataclass(frozen=True, slots=True)
class _Found:
    """A thought that a batch would add. `proof`: what can show that people began it. `note`: a note of the day."""

    thought: Thought
    path: str
    proof: tuple[Anchor, ...]
    note: bool = False


def _refusal(found: _Found, orbit: Orbit, added: int) -> str | None:
    if not any(message_of(anchor.ref) in orbit.window for anchor in found.proof):
        return "is about your own workings, and rests on nothing that somebody said since the last time"
    if added >= MOST_IN_RUN:
        return f"{MOST_IN_RUN} about your own workings is all that one answer may hold"
    last = orbit.recent[-(LAST - 1) :]
    if found.note and (sum(last) + 1) * ONE_IN > len(last) + 1:
        return "too many of the last notes are about your own workings"
    return None


def _thought_of(operation: Operation, orbit: Orbit) -> _Found | None:
    """Return the thought that an operation adds to the mind; None if it adds none, or only lets one go."""
    match operation:
        case RecordShortTermMemory(memory=memory):
            return _Found(memory, "memory", memory.proof, note=True)
        case MergeIncubationSupport(thread=thread):
            let_go = thread.thread_id in orbit.there and thread.status in _LAID_DOWN
            thought = None if let_go else _thread(thread, orbit.there.get(thread.thread_id))
            proof = (*thread.anchor_refs, *thread.evidence_refs)
            return None if thought is None else _Found(thought, "thread", proof)
        case UpsertAgencyPressure(pressure=pressure):
            let_go = pressure.pressure_id in orbit.there and pressure.status in _LET_GO
            return None if let_go else _Found(pressure, "pressure", pressure.proof)
        case QueueCandidateIntervention(intervention=speech):
            if any(matches(speech, pressure) for pressure in orbit.owed):
                return None
            thought = Thought(target=speech.target or _NOTHING, summary=speech.summary, claim=speech.draft)
            return _Found(thought, "intervention", tuple(_grounds(speech, orbit.there)))
    return None


def _thread(new: ThreadPayload, there: Thought | None) -> Thought | None:
    """Return what a thread would say; None for a new one that says too little to be taken in at all."""
    target = new.target or (there.target if there is not None else None)
    summary = new.summary or (there.summary if there is not None else None)
    if target is None or summary is None:
        return None
    old_claim, old_question = (None, None) if there is None else (there.claim, there.question)
    return Thought(
        target=target, summary=summary, claim=new.claim or old_claim, question=new.question or old_question
    )  # fmt: skip


def _grounds(speech: Intervention, there: Mapping[EntryId, Thought]) -> Iterable[Anchor]:
    """Yield what speech rests on: the message that it answers, and the proof of what it was made from."""
    if speech.answers is not None:
        yield speech.answers
    pressure = () if speech.source_pressure_id is None else (speech.source_pressure_id,)
    for id_ in (*speech.source_memory_ids, *pressure):
        if id_ in there:
            yield from there[id_].proof


def _named(token: str, machinery: frozenset[str]) -> bool:
    return any(_is_machinery(word, machinery) for word in _WORD.findall(token))


def _is_machinery(word: str, machinery: frozenset[str]) -> bool:
    return not machinery.isdisjoint({word, word.removesuffix("s"), word.removesuffix("es")})
