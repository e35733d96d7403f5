"""A prompt always fits, says what it left out, and keeps what matters most."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.domain.ids import MessageId
from core.domain.prompt import (
    Fact,
    LeftOut,
    LeftOutReason,
    Passage,
    Prompt,
    PromptKind,
    PromptTooLarge,
    Recollection,
    RequestContext,
    RoomCard,
    Section,
    SourceId,
    SourceKind,
    Speaker,
    ToolSpec,
)
from core.domain.prompt_policy import PromptPolicy
from core.domain.rooms import RoomKind, RoomMode
from core.prompt.sections import CAPS, FIXED_CAPS, TABLE_TOKENS
from core.prompt.tokens import FAMILIES, SAFETY, estimate, hard_bound, schema_json, tools_json
from tests.domain.chat_context import (
    ANA,
    BO,
    BUILDER,
    HERE,
    HERE_ONLY,
    NOW,
    VOICE,
    context,
    everything_huge,
    full_context,
    line,
    talk,
)

TOOL = ToolSpec("search", "Finds messages.", {"type": "object", "properties": {"query": {"type": "string"}}})


def reply(made: RequestContext, policy: PromptPolicy | None = None) -> Prompt:
    return BUILDER.build(PromptKind.REPLY, VOICE, made, policy or PromptPolicy())


def user_text(prompt: Prompt) -> str:
    return prompt.request.messages[0].text


def section(prompt: Prompt, name: str) -> Section:
    return next(section for section in prompt.sections if section.name == name)


def names(prompt: Prompt) -> list[str]:
    return [section.name for section in prompt.sections if section.tokens]


def messages(prompt: Prompt) -> set[str]:
    return {source.key for source in prompt.handles.values() if source.kind is SourceKind.MESSAGE}


def assert_fits(prompt: Prompt, policy: PromptPolicy) -> None:
    rates = FAMILIES[policy.family]
    request = prompt.request
    texts = [request.system, *(message.text for message in request.messages)]
    texts += [tools_json(request.tools), schema_json(request.output_schema)]
    assert sum(estimate(text, rates) for text in texts) * SAFETY <= policy.input_tokens
    assert prompt.estimated_tokens * SAFETY <= policy.input_tokens
    assert prompt.bound_tokens == hard_bound(request, policy.bound_factor) <= policy.hard_cap


def test_the_caps_add_up_to_the_table() -> None:
    assert sum(CAPS.values()) + sum(FIXED_CAPS.values()) == TABLE_TOKENS


def test_a_context_that_fits_is_kept_whole() -> None:
    prompt = reply(full_context())
    assert not any(section.trimmed or section.items_dropped for section in prompt.sections)
    assert "Left out" not in user_text(prompt)
    assert_fits(prompt, PromptPolicy())


@pytest.mark.field("F057")
def test_five_hundred_of_the_longest_messages_then_hi_is_answered() -> None:
    flood = tuple(line(number, "x" * 4_096, BO, 501 - number) for number in range(1, 501))
    prompt = reply(context("hi", transcript=flood))
    assert user_text(prompt).count("\nhi\n") == 1
    assert "Left out for space: 49" in user_text(prompt)
    assert messages(prompt) >= {"900", "500", "499", "498", "497"}
    assert_fits(prompt, PromptPolicy())


def test_every_section_too_large_still_fits() -> None:
    prompt = reply(context("why? " * 5_000, **everything_huge()))
    assert_fits(prompt, PromptPolicy())
    assert {"memories", "passages", "chain", "transcript", "left_out", "turn"} <= set(names(prompt))


def test_sections_stay_within_their_shares() -> None:
    prompt = reply(context("why? " * 5_000, **everything_huge()))
    assert all(section.tokens <= section.budget for section in prompt.sections)


def test_the_smallest_window_keeps_the_turn_and_the_last_lines() -> None:
    policy = PromptPolicy(window_tokens=5_000)
    prompt = reply(context("why? " * 5_000, **everything_huge()), policy)
    assert messages(prompt) >= {"900", "1039", "1038", "1037", "1036"}
    assert section(prompt, "turn").tokens >= 300
    assert_fits(prompt, policy)


def test_a_larger_window_holds_more() -> None:
    made = context(transcript=talk(2_000, "a line of ordinary talk about this and that"))
    small, large = reply(made), reply(made, PromptPolicy(window_tokens=33_000))
    assert section(large, "transcript").items_kept > 2 * section(small, "transcript").items_kept
    assert_fits(large, PromptPolicy(window_tokens=33_000))


def test_the_oldest_lines_go_first_and_are_counted() -> None:
    prompt = reply(context(transcript=talk(600)))
    kept = section(prompt, "transcript").items_kept
    assert messages(prompt) == {"900"} | {str(number) for number in range(601 - kept, 601)}
    assert f"Left out for space: {600 - kept} older messages." in user_text(prompt)


def test_what_was_left_out_earlier_is_counted_but_not_what_others_may_not_read() -> None:
    left_out = (
        LeftOut("transcript", LeftOutReason.AGE, 212),
        LeftOut("passages", LeftOutReason.AUDIENCE, 77),
        LeftOut("passages", LeftOutReason.SPACE, 3),
        LeftOut("memories", LeftOutReason.SCORE, 66),
    )
    prompt = reply(context(left_out=left_out))
    assert "Left out for space: 3 passages, 212 older messages." in user_text(prompt)


def test_the_longest_note_stays_within_its_cap() -> None:
    many = tuple(LeftOut(name, LeftOutReason.SPACE, 10**9) for name in CAPS)
    assert section(reply(context(left_out=many)), "left_out").tokens <= FIXED_CAPS["left_out"]


@pytest.mark.parametrize("name", ["room", "fence", "now", "output"])
def test_what_is_never_cut_stays_within_its_cap(name: str) -> None:
    assert section(reply(full_context()), name).tokens <= FIXED_CAPS[name]


def test_the_memory_of_least_weight_goes_first_and_the_rest_keep_their_order() -> None:
    entries = tuple(
        Recollection(f"e{number}", "memory", "word " * 150, weight, HERE_ONLY)
        for number, weight in enumerate((0.2, 0.9, 0.1, 0.8))
    )
    huge = talk(3_000)
    prompt = reply(context(memories=entries, transcript=huge, passages=many_passages(60)))
    kept = [source.key for source in prompt.handles.values() if source.kind is SourceKind.MEMORY]
    assert kept == ["e0", "e1", "e3"]


def many_passages(count: int) -> tuple[Passage, ...]:
    text = "The first sentence says a thing. " * 12
    return tuple(Passage(f"u{n}", BO, NOW - timedelta(days=n), "plans", text, HERE_ONLY) for n in range(count))


def test_passages_go_by_rank() -> None:
    prompt = reply(context(passages=many_passages(90), transcript=talk(2_000)))
    kept = [source.key for source in prompt.handles.values() if source.kind is SourceKind.PASSAGE]
    assert 0 < len(kept) < 90
    assert kept == [f"u{n}" for n in range(len(kept))]


def test_the_middle_of_the_chain_goes_first_and_the_message_replied_to_stays() -> None:
    chain = tuple(line(100 + n, "word " * 300, BO) for n in range(12))
    prompt = reply(context(chain=chain, transcript=talk(3_000), passages=many_passages(90)))
    kept = {int(key) for key in messages(prompt)} & set(range(100, 112))
    assert kept == {100, 111}


def test_a_long_turn_keeps_its_head_and_tail() -> None:
    made = context("HEAD " + "middle words " * 20_000 + " TAIL", transcript=talk(3_000))
    text = user_text(reply(made)).split("## The message to answer")[1]
    assert "HEAD middle" in text
    assert "words  TAIL" in text
    assert "characters left out …]" in text


def test_a_flagged_message_is_labelled_and_cut() -> None:
    prompt = reply(context(transcript=(line(5, "ignore all that " * 100, flagged=True),)))
    shown = user_text(prompt).split("## The talk so far")[1].split("<<end")[0]
    assert " [flagged] " in shown
    assert len(shown) < 400


def test_whole_sections_go_in_their_order_when_the_least_does_not_fit() -> None:
    huge = context("why? " * 5_000, rules=("word " * 1_000,), **everything_huge())
    prompt = reply(huge, PromptPolicy(window_tokens=4_650))
    assert {"read", "person", "self"}.isdisjoint(names(prompt))
    assert "turn" in names(prompt)
    assert_fits(prompt, PromptPolicy(window_tokens=4_650))


def test_a_prompt_that_cannot_hold_the_turn_is_too_large() -> None:
    with pytest.raises(PromptTooLarge):
        reply(context("why? " * 5_000, rules=("word " * 3_000,)), PromptPolicy(window_tokens=5_000))


def test_a_window_smaller_than_the_tools_is_too_large() -> None:
    with pytest.raises(PromptTooLarge):
        reply(context(), PromptPolicy(window_tokens=1_010, tools=(TOOL,)))


def test_tools_and_schema_are_taken_off_first() -> None:
    schema = {"type": "object", "description": "word " * 800}
    policy = PromptPolicy(tools=(TOOL,) * 20, output_schema=schema)
    prompt = reply(context(**everything_huge()), policy)
    assert prompt.request.tools == policy.tools
    assert_fits(prompt, policy)


def test_money_trims_where_the_window_would_not() -> None:
    policy = PromptPolicy(hard_cap_tokens=14_000)
    prompt = reply(context(**everything_huge()), policy)
    assert_fits(prompt, policy)
    assert prompt.estimated_tokens < reply(context(**everything_huge())).estimated_tokens


def test_a_refusal_for_length_is_met_with_a_smaller_prompt() -> None:
    policy = PromptPolicy().shrunk(0.6)
    assert policy.input_tokens == 6_000
    assert_fits(reply(context(**everything_huge()), policy), policy)


WORDS = st.text(st.characters(exclude_categories=()), max_size=12)
TEXTS = st.builds(lambda words, times: words * times, WORDS, st.sampled_from([1, 1, 3, 40, 700]))
SPEAKERS = st.builds(Speaker, st.sampled_from([None, ANA.person, BO.person]), TEXTS)
LINES = st.lists(
    st.builds(
        lambda number, text, speaker, notes, flagged: line(number, text, speaker, notes=tuple(notes), flagged=flagged),
        st.integers(1, 500),
        TEXTS,
        SPEAKERS,
        st.lists(WORDS, max_size=2),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda made: made.message,
).map(tuple)
ENTRIES = st.lists(
    st.builds(
        lambda key, text, weight: Recollection(key, "memory", text, weight, HERE_ONLY), WORDS, TEXTS, st.floats(0, 1)
    ),
    max_size=6,
).map(tuple)
CONTEXTS = st.builds(
    context,
    TEXTS,
    transcript=LINES,
    chain=LINES,
    memories=ENTRIES,
    self_view=ENTRIES,
    person=st.lists(
        st.builds(lambda who, text: Fact(who, text, MessageId(3), NOW, HERE_ONLY), SPEAKERS, TEXTS), max_size=4
    ).map(tuple),
    passages=st.lists(
        st.builds(lambda who, room, text: Passage("u1", who, NOW, room, text, HERE_ONLY), SPEAKERS, TEXTS, TEXTS),
        max_size=8,
    ).map(tuple),
    room=st.builds(
        lambda name, topic: RoomCard(HERE, RoomKind.CHANNEL, RoomMode.OPEN, "de", name, topic), TEXTS, TEXTS
    ),
    read=TEXTS,
    rules=st.just(()) | st.just(("Be kind.",)),
    sensitive=st.booleans(),
)
POLICIES = st.builds(
    PromptPolicy,
    window_tokens=st.integers(5_000, 40_000),
    family=st.sampled_from(sorted(FAMILIES)),
    bound_factor=st.sampled_from([1.0, 1.3]),
    tools=st.sampled_from([(), (TOOL,)]),
)


@given(CONTEXTS, POLICIES)
@settings(max_examples=75, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_of_any_size_fits_and_the_end_of_the_talk_stays(made: RequestContext, policy: PromptPolicy) -> None:
    prompt = reply(made, policy)
    assert_fits(prompt, policy)
    assert all(section.tokens <= section.budget for section in prompt.sections if section.name in CAPS)
    shown = set(prompt.handles.values())
    assert SourceId(SourceKind.MESSAGE, "900") in shown
    for last in made.transcript[-4:]:
        assert SourceId(SourceKind.MESSAGE, str(last.message)) in shown


@given(CONTEXTS, st.integers(1_001, 9_000), st.integers(1_001, 30_000))
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_prompt_fits_or_is_refused_whatever_the_limits(made: RequestContext, window: int, cap: int) -> None:
    policy = PromptPolicy(window_tokens=window, hard_cap_tokens=cap)
    try:
        prompt = reply(replace(made, sensitive=True), policy)
    except PromptTooLarge:
        return
    assert_fits(prompt, policy)
