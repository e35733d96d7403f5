"""The same arguments give the same bytes, for every front end; the audience is checked once more."""

import ast
import os
from dataclasses import fields, replace

import pytest

from core.domain.ids import MessageId, RoomId
from core.domain.prompt import (
    AudienceViolation,
    Fact,
    ModelRequest,
    Passage,
    Prompt,
    PromptKind,
    Provenance,
    Recollection,
    RepairNote,
    RequestContext,
    RoomCard,
    ToolSpec,
)
from core.domain.prompt_policy import PromptPolicy
from core.domain.rooms import RoomKind, RoomMode
from tests.domain.chat_context import (
    ANA,
    BO,
    BUILDER,
    CATALOG,
    HERE,
    NOW,
    ROOT,
    VOICE,
    context,
    full_context,
    line,
    talk,
)

ELSEWHERE = Provenance(audience=frozenset({HERE, RoomId(8)}))
WRITE_GOLDENS = os.environ.get("VOIDBOT_WRITE_GOLDENS") == "1"  # noqa: TID251  # the suite's own switch


def build(made: RequestContext, kind: PromptKind = PromptKind.REPLY, policy: PromptPolicy | None = None) -> Prompt:
    return BUILDER.build(kind, VOICE, made, policy or PromptPolicy())


def golden_text(prompt: Prompt) -> str:
    """A prompt as a file for reviewers: everything sent, then the account."""
    request = prompt.request
    first, second = request.cache_breakpoints
    rows = [
        "==== system",
        f"{request.system[:first]}⟨cache⟩{request.system[first:second]}⟨cache⟩{request.system[second:]}",
        *(f"==== {message.role}\n{message.text}" for message in request.messages),
        "==== account",
        *(
            f"{section.name}: {section.tokens} of {section.budget}, kept {section.items_kept}, "
            f"dropped {section.items_dropped}"
            for section in prompt.sections
        ),
        *(f"{handle} = {source.kind} {source.key}" for handle, source in prompt.handles.items()),
        f"estimate {prompt.estimated_tokens}, bound {prompt.bound_tokens}, {prompt.sha256}",
    ]
    return "\n".join(rows) + "\n"


def direct_context() -> RequestContext:
    """A sensitive direct talk with nothing around it."""
    card = RoomCard(HERE, RoomKind.DM, RoomMode.OPEN, "de", "", "")
    return context("Mir geht es nicht gut.", room=card, sensitive=True)


GOLDENS = {
    "reply_full": (PromptKind.REPLY, full_context(), PromptPolicy()),
    "reply_trimmed": (
        PromptKind.REPLY,
        context(transcript=talk(300, "so it goes on")),
        PromptPolicy(window_tokens=5_000),
    ),
    "reply_direct": (PromptKind.REPLY, direct_context(), PromptPolicy()),
    "repair": (
        PromptKind.REPAIR,
        replace(full_context(), repair=RepairNote("text", "every handle in brackets to stand in the prompt")),
        PromptPolicy(output_schema={"type": "object"}),
    ),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_a_built_prompt_equals_its_reviewed_file(name: str) -> None:
    """Set VOIDBOT_WRITE_GOLDENS=1 to write the files anew, then review the difference."""
    path = ROOT / "tests" / "goldens" / f"{name}.txt"
    kind, made, policy = GOLDENS[name]
    built = golden_text(build(made, kind, policy))
    if WRITE_GOLDENS:
        path.write_text(built, encoding="utf-8")
    assert built == path.read_text(encoding="utf-8")


def test_one_prompt_builder() -> None:
    """Nothing else builds a model request."""
    makers = {
        path.relative_to(ROOT).as_posix()
        for folder in ("bot", "core")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == ModelRequest.__name__
    }
    assert makers == {"core/prompt/builder.py"}


def test_the_same_arguments_give_the_same_bytes() -> None:
    assert build(full_context()) == build(full_context())


def test_same_bytes_on_every_front_end() -> None:
    shared = (RoomKind.CHANNEL, RoomKind.GROUP, RoomKind.TERMINAL)
    card = full_context().room
    built = [build(replace(full_context(), room=replace(card, kind=kind))).request for kind in shared]
    assert built[0] == built[1] == built[2]
    assert not {"platform", "front_end"} & {field.name for field in fields(RequestContext)}


def test_each_thing_sent_changes_the_hash() -> None:
    tool = ToolSpec("search", "Finds messages.", {"type": "object"})
    hashes = {
        build(made, policy=policy).sha256
        for made, policy in (
            (full_context(), PromptPolicy()),
            (replace(full_context(), rules=()), PromptPolicy()),
            (replace(full_context(), read=""), PromptPolicy()),
            (full_context(), PromptPolicy(tools=(tool,))),
            (full_context(), PromptPolicy(output_schema={"type": "object"})),
        )
    }
    assert len(hashes) == 5


def test_the_prefix_before_the_first_breakpoint_is_shared_by_rooms() -> None:
    here = build(full_context()).request
    other_card = RoomCard(RoomId(9), RoomKind.THREAD_PUBLIC, RoomMode.LURK, "de", "other", "else")
    there = build(context(rules=full_context().rules, room=other_card, readable=frozenset({HERE, RoomId(9)}))).request
    cut = here.cache_breakpoints[0]
    assert there.cache_breakpoints[0] == cut
    assert here.system[:cut] == there.system[:cut]
    assert here.system[cut:] != there.system[cut:]
    assert here.cache_breakpoints[1] == len(here.system)


def test_the_room_s_name_and_topic_are_not_in_the_system_part() -> None:
    card = RoomCard(HERE, RoomKind.CHANNEL, RoomMode.OPEN, "en", "NAME-OF-ROOM", "TOPIC-OF-ROOM")
    request = build(context(room=card)).request
    assert "OF-ROOM" not in request.system
    assert '"NAME-OF-ROOM">>\nTOPIC-OF-ROOM' in request.messages[0].text


@pytest.mark.parametrize(
    "foreign",
    [
        {"turn": replace(line(900, "hi"), provenance=ELSEWHERE)},
        {"transcript": (replace(line(1, "a"), provenance=ELSEWHERE),)},
        {"chain": (replace(line(1, "a"), provenance=ELSEWHERE),)},
        {"passages": (Passage("u", BO, NOW, "plans", "a", ELSEWHERE),)},
        {"person": (Fact(ANA, "a", MessageId(1), NOW, ELSEWHERE),)},
        {"memories": (Recollection("e", "memory", "a", 1.0, ELSEWHERE),)},
        {"self_view": (Recollection("e", "thread", "a", 1.0, ELSEWHERE),)},
    ],
    ids=lambda foreign: next(iter(foreign)),
)
def test_an_item_outside_the_venue_s_rooms_stops_the_prompt(foreign: dict[str, object]) -> None:
    with pytest.raises(AudienceViolation) as caught:
        build(context("hi", **foreign))
    assert caught.value.attributes["section"] == next(iter(foreign)).replace("self_view", "self")
    build(context("hi", **foreign, readable=frozenset({HERE, RoomId(8)})))


def test_an_item_that_would_be_trimmed_is_checked_too() -> None:
    lines = (replace(line(1, "a"), provenance=ELSEWHERE), *talk(2_000))
    with pytest.raises(AudienceViolation):
        build(context(transcript=lines))


def test_sections_carry_what_they_rest_on() -> None:
    sections = {section.name: section for section in build(full_context()).sections}
    assert sections["passages"].provenance == tuple(passage.provenance for passage in full_context().passages)


def test_only_handles_that_stand_in_the_prompt_can_be_resolved() -> None:
    prompt = build(context(transcript=talk(600)))
    text = prompt.request.messages[0].text
    assert all(f" {handle} " in text for handle in prompt.handles)


def test_a_sensitive_turn_has_no_style_pack() -> None:
    assert CATALOG.personas["warm"].body in build(context()).request.system
    assert CATALOG.personas["warm"].body not in build(context(sensitive=True)).request.system


def test_the_form_of_the_answer_follows_the_schema() -> None:
    assert "plain text" in build(context()).request.system
    assert "one JSON value" in build(context(), policy=PromptPolicy(output_schema={})).request.system


def test_a_repair_adds_where_and_what_and_nothing_else() -> None:
    note = RepairNote("operations[0].kind", "one of the known kinds")
    first = build(full_context()).request
    second = build(replace(full_context(), repair=note), PromptKind.REPAIR).request
    assert second.system == first.system
    assert second.messages[0].text.startswith(first.messages[0].text)
    added = second.messages[0].text.removeprefix(first.messages[0].text)
    assert "`operations[0].kind`: expected one of the known kinds." in added


def test_a_repair_cannot_be_stuffed_by_the_output_it_mends() -> None:
    note = RepairNote("x\n" * 5_000, "y " * 5_000)
    plain, stuffed = build(context()), build(context(repair=note), PromptKind.REPAIR)
    assert stuffed.estimated_tokens < plain.estimated_tokens + 400


def test_a_repair_without_a_note_is_a_bug() -> None:
    with pytest.raises(ValueError, match="repair note"):
        build(context(), PromptKind.REPAIR)
