"""THE prompt builder: what a model is asked is put together here and nowhere else.

Pure: no clock, no randomness, no I/O. The same arguments give the same bytes, whatever front end asked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from core.domain.images import NO_SIGHT, Image
from core.domain.operations.forms import forms_of
from core.domain.packets import PassContext
from core.domain.prompt import (
    LeftOutReason,
    ModelRequest,
    Prompt,
    PromptKind,
    PromptMessage,
    PromptTooLarge,
    RepairNote,
    RequestContext,
    Role,
    Section,
)
from core.domain.prompt_policy import PromptPolicy
from core.domain.relative import part_of_day, relative, weekday
from core.domain.rooms import RoomKind
from core.prompt.fences import Fence, Handles, clean_text, marker_of
from core.prompt.material import NOUNS, Workbench, chat_parts, check_audience
from core.prompt.packets import PASS_INPUTS, Piece, check_chronology, check_readable, fill, pieces_of, share_out
from core.prompt.sections import CAPS, FIXED_CAPS, Fitted, Item, Part, allot, fit, scale_of
from core.prompt.templates import Template, digest
from core.prompt.tokens import (
    FAMILIES,
    SAFETY,
    Meter,
    canonical_json,
    estimate,
    hard_bound,
    schema_json,
    tools_json,
    wrapping_bytes,
)

TEMPLATE_INPUTS: Mapping[str, frozenset[str]] = {
    "rules": frozenset({"rules", "text"}),
    "output": frozenset({"schema", "notes"}),
    "room": frozenset({"direct", "thread", "shared", "mode", "language"}),
    "fence": frozenset({"marker"}),
    "left_out": frozenset({"items", "count", "noun", "more"}),
    "now": frozenset({"weekday", "part", "asker", "when"}),
    "repair": frozenset({"path", "expected"}),
    "span": frozenset({"body"}),
    "proposals": frozenset({"schema", "forms"}),
    **PASS_INPUTS,
    **{name: frozenset({"body"}) for name in CAPS},
}
"""The templates of a chat prompt and what the builder gives to each; the catalog holds them to it."""
_GAP = "\n\n"
_COUNT_MOST = 9_999
_PATH_CHARS = 120
_EXPECTED_CHARS = 300
_MESSAGES = 2  # system and user
_PROBE, _PROBE_TOKENS = "ping", 16
_DIRECT = frozenset({RoomKind.DM})
_THREADS = frozenset({RoomKind.THREAD_PUBLIC, RoomKind.THREAD_PRIVATE, RoomKind.FORUM_POST, RoomKind.TOPIC})


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Builds prompts from the templates read at start; holds nothing else."""

    templates: Mapping[str, Template]

    def build(self, kind: PromptKind, role: Role, context: RequestContext, policy: PromptPolicy) -> Prompt:
        """Return the prompt that fits `policy`, with its account of what is in it and what is not.

        The sum of estimates, times 1.25, fits the input window, and the hard bound fits the hard cap.

        Raises:
            PromptTooLarge: What must stay does not fit; the turn ends with `error.too_long`.
            AudienceViolation: The context holds what the venue's readers may not read.
            MarkerInData: Untrusted text holds this request's marker.
        """
        check_audience(context)
        context, images = _with_images(context, policy)
        meter, budget = _measure(policy, len(images))
        fence = Fence(marker_of(context.nonce), context.now, Handles())
        fixed = self._system(role, context, policy) | self._user(kind, context, fence)
        costs = {name: meter.cost(text + _GAP) for name, text in fixed.items() if text}
        reserve = meter.cost(self._note(dict.fromkeys(NOUNS, _COUNT_MOST)) + _GAP)
        room = budget - sum(costs.values()) - reserve
        frames = {name: meter.cost(self._framed(kind, name, (), fence) + _GAP) for name in CAPS}
        parts = chat_parts(kind, context, Workbench(fence, meter, budget), frames)
        shares = allot(parts, room, scale_of(budget, room), meter)
        fitted = {part.name: fit(part, shares[part.name], meter) for part in parts}
        if note := self._note(_missing(context, fitted)):
            fixed["left_out"], costs["left_out"] = note, meter.cost(note + _GAP)
        texts = {
            name: self._framed(kind, name, section.items, fence) for name, section in fitted.items() if section.items
        }
        sections = _account(costs, parts, fitted, shares)
        if context.images:
            sections += (_image_section(context, images, policy),)
        request = _request(fixed | texts, policy, images)
        shown = frozenset(handle for section in fitted.values() for item in section.items for handle in item.handles)
        return Prompt(
            request=request,
            sections=sections,
            handles=fence.handles.resolve(shown),
            estimated_tokens=sum(section.tokens for section in sections) + _wrapping_tokens(policy),
            bound_tokens=hard_bound(request, policy.bound_factor),
        )

    def build_pass(self, role: Role, context: PassContext, policy: PromptPolicy) -> Prompt:
        """Return the prompt of a pass: what it may propose in the form of its operations, and its packet, cut to fit.

        Raises:
            PromptTooLarge, AudienceViolation, MarkerInData: As for `build`.
            ChronologyLeak: Code's own words tell an absolute time.
        """
        check_readable(context)
        meter, budget = _measure(policy, 0)
        fence = Fence(marker_of(context.nonce), context.now, Handles())
        system = {
            "role": role.body,
            "output": self.templates["proposals"].render(
                schema=policy.output_schema is not None, forms=forms_of(role.operations)
            ),
        }
        asked, given = self.templates[context.template], self._given(context, fence)
        pieces = pieces_of(context, Workbench(fence, meter, budget), meter.cost(fence.end() + _GAP))
        note = self._note(dict.fromkeys(context.names, _COUNT_MOST), context.names)
        empty = asked.render(**dict.fromkeys(asked.inputs, "") | given | {"left_out": note})
        costs = {name: meter.cost(text + _GAP) for name, text in system.items()} | {"turn": meter.cost(empty + _GAP)}
        shares = share_out(pieces, budget - sum(costs.values()))
        fitted = {each.part.name: fill(each, shares[each.part.name]) for each in pieces}
        missing = {name: section.dropped for name, section in fitted.items()}
        bodies = {
            name: "".join(item.text for item in section.items) + fence.end() if section.items else ""
            for name, section in fitted.items()
        }
        check_chronology([*system.values(), empty])
        user = asked.render(**bodies | given | {"left_out": self._note(missing, context.names)})
        request = _request(system | {"turn": user}, policy)
        sections = [Section(name, cost, cost, False, 1, 0, ()) for name, cost in costs.items()]
        sections += [_section_of(each, fitted[each.part.name], shares[each.part.name]) for each in pieces]
        shown = frozenset(handle for section in fitted.values() for item in section.items for handle in item.handles)
        return Prompt(
            request=request,
            sections=tuple(sections),
            handles=fence.handles.resolve(shown),
            estimated_tokens=sum(section.tokens for section in sections) + _wrapping_tokens(policy),
            bound_tokens=hard_bound(request, policy.bound_factor),
        )

    def _given(self, context: PassContext, fence: Fence) -> dict[str, str | bool]:
        """Return what a pass's template is given beside the pieces."""
        local = context.now.astimezone(context.tz)
        repair = "\n\n".join(self._repair_of(note) for note in context.repair)
        return {
            "fence": self.templates["fence"].render(marker=fence.marker),
            "now": f"{weekday(local)} {part_of_day(local)}",
            "repair": repair,
            **context.switches,
        }

    def _system(self, role: Role, context: RequestContext, policy: PromptPolicy) -> dict[str, str]:
        """Return the texts before the talk, by section; empty where there is nothing to say."""
        kind = context.room.kind
        return {
            "role": role.body,
            "rules": self._rules(context.rules),
            "persona": "" if context.sensitive else context.persona.body,
            "output": self.templates["output"].render(
                schema=policy.output_schema is not None, notes=bool(role.operations)
            ),
            "room": self.templates["room"].render(
                direct=kind in _DIRECT,
                thread=kind in _THREADS,
                shared=kind not in _DIRECT | _THREADS,
                mode=str(context.room.mode),
                language=context.room.language,
            ),
        }

    def _user(self, kind: PromptKind, context: RequestContext, fence: Fence) -> dict[str, str]:
        """Return the texts of the user's part that are never cut."""
        asker = context.turn.speaker.person
        local = context.now.astimezone(context.tz)
        return {
            "fence": self.templates["fence"].render(marker=fence.marker),
            "now": self.templates["now"].render(
                weekday=weekday(local),
                part=part_of_day(local),
                asker="" if asker is None else fence.person(asker),
                when=relative(context.turn.sent_at, context.now),
            ),
            "repair": self._repair(kind, context),
        }

    def _repair(self, kind: PromptKind, context: RequestContext) -> str:
        match kind:
            case PromptKind.REPLY:
                return ""
            case PromptKind.SUMMARIZE if context.repair is None:
                return ""
            case PromptKind.REPAIR | PromptKind.SUMMARIZE:
                if context.repair is None:
                    raise ValueError("a repair prompt needs a repair note")
                return self._repair_of(context.repair)
        assert_never(kind)

    def _repair_of(self, note: RepairNote) -> str:
        path = clean_text(note.path).replace("\n", " ")[:_PATH_CHARS]
        return self.templates["repair"].render(path=path, expected=clean_text(note.expected)[:_EXPECTED_CHARS])

    def _rules(self, rules: tuple[str, ...]) -> str:
        return self.templates["rules"].render(rules=[{"text": rule} for rule in rules]) if rules else ""

    def _note(self, missing: Mapping[str, int], nouns: Mapping[str, str] = NOUNS) -> str:
        """Return the note of what is missing, in counts; empty if nothing is."""
        counted = [(nouns[name], count) for name, count in missing.items() if count]
        items: list[dict[str, str | bool]] = [
            {"count": str(min(count, _COUNT_MOST)), "noun": noun, "more": place < len(counted)}
            for place, (noun, count) in enumerate(counted, start=1)
        ]
        return self.templates["left_out"].render(items=items) if items else ""

    def _framed(self, kind: PromptKind, name: str, items: tuple[Item, ...], fence: Fence) -> str:
        if kind is PromptKind.SUMMARIZE and name == "passages":
            name = "span"
        return self.templates[name].render(body="".join(item.text for item in items) + fence.end())


def _section_of(piece: Piece, fitted: Fitted, share: int) -> Section:
    return Section(
        name=piece.part.name,
        tokens=piece.frame + sum(item.cost for item in fitted.items) if fitted.items else 0,
        budget=share,
        trimmed=fitted.trimmed,
        items_kept=len(fitted.items),
        items_dropped=fitted.dropped,
        provenance=tuple(item.provenance for item in fitted.items),
    )


_NO_ROOM = "not shown: there was no room for it"


def _with_images(context: RequestContext, policy: PromptPolicy) -> tuple[RequestContext, tuple[Image, ...]]:
    """Return the images that this model is shown, and the context with a note on each that the turn has."""
    shown = context.images[: policy.images_most]
    notes = []
    for n, image in enumerate(context.images, start=1):
        absent = _NO_ROOM if policy.image_tokens else NO_SIGHT
        notes.append(replace(image.source, note=f"image {n} here" if n <= len(shown) else absent).line())
    turn = replace(context.turn, notes=(*context.turn.notes, *notes))
    return replace(context, turn=turn), shown


def _image_section(context: RequestContext, shown: tuple[Image, ...], policy: PromptPolicy) -> Section:
    return Section(
        name="images",
        tokens=len(shown) * policy.image_tokens,
        budget=policy.images_most * policy.image_tokens,
        trimmed=len(shown) < len(context.images),
        items_kept=len(shown),
        items_dropped=len(context.images) - len(shown),
        provenance=(),
    )


def _measure(policy: PromptPolicy, images: int) -> tuple[Meter, int]:
    """Return the meter of a policy and the tokens that its texts may cost beside so many images."""
    budget = int(policy.input_tokens / SAFETY) - _wrapping_tokens(policy) - images * policy.image_tokens
    size = (policy.hard_cap - policy.max_output_tokens - images * policy.image_tokens) / policy.bound_factor
    size -= wrapping_bytes(policy.tools, policy.output_schema, _MESSAGES)
    if budget <= 0 or size <= 0:
        raise PromptTooLarge("window does not hold the tools", window_tokens=policy.window_tokens)
    return Meter(FAMILIES[policy.family], size / budget), budget


def _wrapping_tokens(policy: PromptPolicy) -> int:
    """Return the estimate of what is sent beside the texts: tools and schema, taken off first."""
    rates = FAMILIES[policy.family]
    return estimate(tools_json(policy.tools), rates) + estimate(schema_json(policy.output_schema), rates)


def _missing(context: RequestContext, fitted: Mapping[str, Fitted]) -> dict[str, int]:
    """Return how many items each section lacks for space or age; what the audience hides is not told."""
    missing = {name: fitted[name].dropped for name in NOUNS}
    for entry in context.left_out:
        if entry.section in missing and entry.reason in (LeftOutReason.AGE, LeftOutReason.SPACE):
            missing[entry.section] += entry.count
    return missing


_PREFIX = ("role", "rules", "persona", "output")
_USER_ORDER = (
    *("fence", "topic", "self", "memories", "person", "passages", "chain", "transcript", "read"),
    *("left_out", "turn", "now", "repair"),
)


def _request(texts: Mapping[str, str], policy: PromptPolicy, images: tuple[Image, ...] = ()) -> ModelRequest:
    def joined(names: Iterable[str]) -> str:
        return _GAP.join(texts[name] for name in names if texts.get(name))

    prefix = joined(_PREFIX)
    system = joined((*_PREFIX, "room"))
    messages = (PromptMessage("user", joined(_USER_ORDER), images),)
    content = {
        "system": system,
        "messages": [
            [message.role, message.text, *(f"{image.mime}:{image.sha256}" for image in message.images)]
            for message in messages
        ],
        "tools": [[tool.name, tool.description, tool.parameters] for tool in policy.tools],
        "output_schema": policy.output_schema,
    }
    return ModelRequest(
        system=system,
        messages=messages,
        tools=policy.tools,
        output_schema=policy.output_schema,
        cache_breakpoints=(len(prefix), len(system)),
        max_output_tokens=policy.max_output_tokens,
        sha256=digest(canonical_json(content)),
        image_tokens=len(images) * policy.image_tokens,
    )


def build_probe() -> ModelRequest:
    """Return the smallest request there is, for asking whether a model answers at all."""
    return _request({"turn": _PROBE}, PromptPolicy(max_output_tokens=_PROBE_TOKENS))


def _account(
    costs: Mapping[str, int], parts: Iterable[Part], fitted: Mapping[str, Fitted], shares: Mapping[str, int]
) -> tuple[Section, ...]:
    """Return what became of each section that was asked for, in the order of the prompt."""
    sections = {name: Section(name, cost, FIXED_CAPS[name], False, 1, 0, ()) for name, cost in costs.items()}
    for part in parts:
        if part.items:
            result = fitted[part.name]
            sections[part.name] = Section(
                name=part.name,
                tokens=part.frame + sum(item.cost for item in result.items) if result.items else 0,
                budget=shares[part.name],
                trimmed=result.trimmed,
                items_kept=len(result.items),
                items_dropped=result.dropped,
                provenance=tuple(item.provenance for item in result.items),
            )
    return tuple(sections[name] for name in (*_PREFIX, "room", *_USER_ORDER) if name in sections)
