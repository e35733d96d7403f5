"""What of a chat context goes into which section: each item labelled by code and fenced, none cut yet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.domain.prompt import (
    AudienceViolation,
    Excerpt,
    Fact,
    Handle,
    Line,
    Passage,
    PromptKind,
    Provenance,
    Recollection,
    RequestContext,
    SourceKind,
    Trust,
)
from core.domain.rooms import RoomKind
from core.prompt.fences import FLAGGED_CHARS, NAME_GRAPHEMES, Fence
from core.prompt.sections import PASSAGE_LEAST_TOKENS, TURN_LEAST_TOKENS, Cut, Item, Part, item_of
from core.prompt.tokens import Meter

NOUNS: Mapping[str, str] = {
    "self": "thoughts",
    "memories": "memories",
    "person": "facts",
    "passages": "passages",
    "chain": "messages of the reply chain",
    "transcript": "older messages",
}
"""How the note of what was left out calls the items of a section; others are not worth a word."""
_LINES_THAT_STAY = 4
_SPAN_SHARES = 40
"""So many messages of a span have room in a summary's prompt, however long each is."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """What making items needs: the fence, the meter, the size above which nothing is measured exactly."""

    fence: Fence
    meter: Meter
    ceiling: int

    def item(self, header: str, body: str, handles: Sequence[Handle | None], provenance: Provenance) -> Item:
        """Return a measured item; the body is cleaned here."""
        used = (handle for handle in handles if handle is not None)
        return item_of(self.meter, header, self.fence.guard(body), used, provenance, self.ceiling)


def check_audience(context: RequestContext) -> None:
    """Refuse a context with anything in it that not every reader of the venue may read.

    Raises:
        AudienceViolation: A bug of whoever gathered it; never caught to go on without the item.
    """
    for section, provenance in _provenances(context):
        if not provenance.audience <= context.readable:
            raise AudienceViolation("prompt item outside its audience", section=section)


def _provenances(context: RequestContext) -> Iterator[tuple[str, Provenance]]:
    yield "turn", context.turn.provenance
    groups: Mapping[str, Sequence[Line | Passage | Excerpt | Fact | Recollection]] = {
        "self": context.self_view,
        "memories": context.memories,
        "person": context.person,
        "passages": context.passages,
        "chain": context.chain,
        "transcript": context.transcript,
    }
    for section, items in groups.items():
        for item in items:
            yield section, item.provenance


def chat_parts(
    kind: PromptKind, context: RequestContext, bench: Workbench, frames: Mapping[str, int]
) -> tuple[Part, ...]:
    """Return the sections that share the room left by the fixed texts, in the order of the prompt.

    `frames` is the cost of each section's template around its items.
    """
    if context.turn.speaker.person is not None:
        bench.fence.person(context.turn.speaker.person)  # the asker is p1, wherever else they occur
    topic = _topic(context, bench)
    own = tuple(_recollection(entry, bench) for entry in context.self_view)
    memories = tuple(_recollection(entry, bench) for entry in context.memories)
    facts = tuple(_fact(fact, bench) for fact in context.person)
    passages = tuple(
        _excerpt(found, bench) if isinstance(found, Excerpt) else _passage(found, bench) for found in context.passages
    )
    chain = tuple(_line(line, bench) for line in context.chain)
    transcript = tuple(_line(line, bench) for line in context.transcript)
    read = (bench.item(bench.fence.header(), context.read, (), _OWN),) if context.read else ()
    turn = _line(context.turn, bench)
    return (
        Part("topic", topic, tuple(range(len(topic))), frames["topic"], Cut.MIDDLE, floor=1),
        Part("self", own, _by_weight(context.self_view), frames["self"]),
        Part("memories", memories, _by_weight(context.memories), frames["memories"]),
        Part("person", facts, _newest_first(context.person), frames["person"]),
        Part(
            "passages",
            passages,
            _by_weight(context.passages) if kind is PromptKind.SUMMARIZE else tuple(range(len(passages))),
            frames["passages"],
            Cut.SENTENCES,
            shares=max(1, min(_SPAN_SHARES, len(passages))) if kind is PromptKind.SUMMARIZE else 1,
            least_body=PASSAGE_LEAST_TOKENS,
        ),
        Part("chain", chain, ends_first(len(chain)), frames["chain"], Cut.MIDDLE, 1, min(2, len(chain))),
        Part(
            "transcript",
            transcript,
            tuple(reversed(range(len(transcript)))),
            frames["transcript"],
            Cut.MIDDLE,
            _LINES_THAT_STAY,
            min(_LINES_THAT_STAY, len(transcript)),
        ),
        Part("read", read, tuple(range(len(read))), frames["read"]),
        Part("turn", (turn,), (0,), frames["turn"], Cut.MIDDLE, 1, least_body=TURN_LEAST_TOKENS),
    )


_OWN = Provenance(trust=Trust.OWN)


def _topic(context: RequestContext, bench: Workbench) -> tuple[Item, ...]:
    # A direct talk is named after who asks, differently on each platform.
    name = "" if context.room.kind is RoomKind.DM else bench.fence.name(context.room.name)
    if not name and not context.room.topic.strip():
        return ()
    header = bench.fence.header("room", name)
    return (bench.item(header, context.room.topic, (), Provenance(audience=frozenset({context.room.room}))),)


def _line(line: Line, bench: Workbench) -> Item:
    handle = bench.fence.handles.of(SourceKind.MESSAGE, line.message)
    person = None if line.speaker.person is None else bench.fence.person(line.speaker.person)
    to = None if line.to is None else bench.fence.person(line.to)
    header = bench.fence.header(
        handle,
        bench.fence.speaker(line.speaker),
        "" if to is None else f"to {to}",
        "[flagged]" if line.flagged else "",
        at=line.sent_at,
    )
    text = line.text[:FLAGGED_CHARS] if line.flagged else line.text
    body = "\n".join(filter(None, (text, *line.notes)))
    return bench.item(header, body, (handle, person, to), line.provenance)


def _passage(passage: Passage, bench: Workbench) -> Item:
    handle = bench.fence.handles.of(SourceKind.PASSAGE, passage.key)
    person = None if passage.speaker.person is None else bench.fence.person(passage.speaker.person)
    room = bench.fence.name(passage.room_name)
    header = bench.fence.header(
        handle, bench.fence.speaker(passage.speaker), f"in {room}" if room else "", at=passage.sent_at
    )
    return bench.item(header, passage.text, (handle, person), passage.provenance)


def _excerpt(excerpt: Excerpt, bench: Workbench) -> Item:
    handle = bench.fence.handles.of(SourceKind.FILE, excerpt.key)
    path = excerpt.path  # of a long one the end says more
    if len(path) > NAME_GRAPHEMES:
        path = "…" + path[1 - NAME_GRAPHEMES :]
    lines = f"lines {excerpt.line_start}-{excerpt.line_end}"
    names = bench.fence.name(path), "of", bench.fence.name(excerpt.source)
    header = bench.fence.header(handle, "file", *names, lines, f"[{excerpt.provenance.trust}]")
    return bench.item(header, excerpt.text, (handle,), excerpt.provenance)


def _fact(fact: Fact, bench: Workbench) -> Item:
    handle = bench.fence.handles.of(SourceKind.MESSAGE, fact.anchor)
    person = None if fact.about.person is None else bench.fence.person(fact.about.person)
    header = bench.fence.header(handle, "about", bench.fence.speaker(fact.about), at=fact.noted_at)
    return bench.item(header, fact.text, (handle, person), fact.provenance)


def _recollection(entry: Recollection, bench: Workbench) -> Item:
    handle = bench.fence.handles.of(SourceKind.MEMORY, entry.key) if entry.key else None
    header = bench.fence.header(handle or "", entry.label)
    return bench.item(header, entry.text, (handle,), entry.provenance)


def _by_weight(entries: Sequence[Recollection | Passage | Excerpt]) -> tuple[int, ...]:
    return tuple(sorted(range(len(entries)), key=lambda index: -entries[index].weight))


def _newest_first(facts: Sequence[Fact]) -> tuple[int, ...]:
    return tuple(sorted(range(len(facts)), key=lambda index: facts[index].noted_at, reverse=True))


def ends_first(count: int) -> tuple[int, ...]:
    """Return indexes from both ends inward, the last one first: the middle goes first of all."""
    order: list[int] = []
    for step in range((count + 1) // 2):
        order.append(count - 1 - step)
        if step < count - 1 - step:
            order.append(step)
    return tuple(order)
