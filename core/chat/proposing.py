"""What a reply proposes to the mind: read from the draft, applied with the reply, owned up to in code's own words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.chat.guards import Blocked, GuardContext, guard
from core.chat.voice import Voice
from core.domain.ids import PersonId
from core.domain.mind.codes import Accepted
from core.domain.mind.facts import Actor, Emitter, Packet, Similarity
from core.domain.operations.batch import Batch, BatchVerdict, Item, Recorded, Refused
from core.domain.operations.memories import RecordShortTermMemory
from core.domain.operations.obligations import UpsertOpenCase
from core.domain.prompt import Prompt, RequestContext, Role, SourceId, SourceKind
from core.domain.rooms import Room
from core.jobs.executor import JobContext
from core.prompt.stock import StockKey
from core.state.parser import Reading, read_pieces
from core.state.service import StateService
from core.store.engine import Tx

WHAT_CHARS = 120
"""How much of a note is said when it was noted."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What of the mind stood in the prompt: the version of each entry, and whose words are in them."""

    versions: Mapping[str, int] = field(default_factory=dict)
    people: frozenset[PersonId] = frozenset()


@dataclass(frozen=True, slots=True)
class Proposed:
    """What a reply proposes. `text`: the reply with its promises, which stands if something was accepted.

    `said`: what of each operation may be said, by its key.
    """

    items: tuple[Item | Refused, ...]
    packet: Packet
    text: str | None
    said: Mapping[str, str]
    similarity: Similarity = field(default_factory=Similarity)


def propose(
    pieces: Sequence[object],
    text: str | None,
    *,
    ctx: JobContext,
    role: Role,
    room: Room,
    context: RequestContext,
    prompt: Prompt,
    shown: Shown,
    guards: GuardContext,
) -> Proposed:
    """Return the operations among a draft's pieces, with all that the model had read."""
    reading = Reading(
        allowed=role.operations,
        key=f"job:{ctx.job.id}",
        handles=prompt.handles,
        here=room.id,
        expect=shown.versions,
    )
    items = read_pieces(list(pieces), reading)
    said = {item.key: what for item in items if isinstance(item, Item) and (what := _what(item, guards)) is not None}
    return Proposed(items, packet_of(room, context, prompt, shown), text, said)


def packet_of(room: Room, context: RequestContext, prompt: Prompt, shown: Shown) -> Packet:
    """Return what a model had read: rooms and people of all that was gathered, and the refs in the prompt."""
    rooms = {room.id} | {place for section in prompt.sections for item in section.provenance for place in item.audience}
    lines = (context.turn, *context.chain, *context.transcript)
    speakers = [line.speaker for line in lines] + [fact.about for fact in context.person]
    speakers += [passage.speaker for passage in context.passages if hasattr(passage, "speaker")]
    people = {speaker.person for speaker in speakers if speaker.person is not None}
    refs = {ref for source in prompt.handles.values() if (ref := _ref(source)) is not None}
    return Packet(frozenset(rooms), frozenset(people | shown.people), frozenset(refs))


async def apply_proposed(
    tx: Tx, service: StateService, mind_id: str, ctx: JobContext, role: Role, proposed: Proposed
) -> BatchVerdict:
    """Have the mind decide on what a reply proposes, in the reply's own transaction."""
    actor = Actor(Emitter.CHAT, f"{role.name}@{role.version}", job_id=ctx.job.id)
    batch = Batch(
        mind_id=mind_id, actor=actor, items=proposed.items, packet=proposed.packet, similarity=proposed.similarity
    )
    return await service.apply(tx, batch)


def final_text(text: str, proposed: Proposed, verdict: BatchVerdict, voice: Voice, room: Room) -> str:
    """Return the reply as it may be said: promises stand if something was noted, and what was noted is named."""
    accepted = [
        (item.key, recorded)
        for item, recorded in zip(proposed.items, verdict.items, strict=True)
        if isinstance(recorded.verdict, Accepted)
    ]
    if not accepted:
        return text
    lines = [
        voice.say(room.language, StockKey.MEMORY_KEPT, room.id, what=proposed.said[key], op=str(recorded.seq))
        for key, recorded in accepted
        if key in proposed.said
    ]
    return "\n\n".join([proposed.text or text, "\n".join(lines)]).rstrip()


def decided(verdict: BatchVerdict) -> dict[str, object]:
    """Return what a receipt keeps of a batch: rows of what stands, codes of what does not."""
    return {
        "operations": [each.seq for each in verdict.items if isinstance(each.verdict, Accepted)],
        "operations_refused": [_code(each) for each in verdict.items if not isinstance(each.verdict, Accepted)],
    }


def _code(recorded: Recorded) -> str:
    return "" if isinstance(recorded.verdict, Accepted) else recorded.verdict.code.value


def _what(item: Item, guards: GuardContext) -> str | None:
    """Return in one line what an operation notes, as far as it may be said; None: it notes nothing for people."""
    match item.operation:
        case RecordShortTermMemory() as operation:
            what = operation.memory.summary
        case UpsertOpenCase() as operation:
            what = operation.summary
        case _:
            return None
    line = " ".join(what.split())
    found = guard(line if len(line) <= WHAT_CHARS else f"{line[: WHAT_CHARS - 1].rstrip()}…", guards)
    return None if isinstance(found, Blocked) else found.text


def _ref(source: SourceId) -> str | None:
    match source.kind:
        case SourceKind.MESSAGE | SourceKind.PASSAGE if source.key.isdecimal():
            return f"message:{source.key}"
        case SourceKind.MEMORY:
            return f"memory:{source.key}"
    return None
