"""Images in a prompt: counted, hashed, and where a model cannot see them a note in their place."""

from dataclasses import replace

import pytest

from core.domain.images import Image, image_of
from core.domain.messages import Attachment
from core.domain.prompt import Prompt, PromptKind
from core.domain.prompt_policy import PromptPolicy
from core.prompt.tokens import SAFETY
from tests.domain.chat_context import BUILDER, VOICE, context, everything_huge
from tests.doubles.images import png

RATE = 1_000
SEES = PromptPolicy(image_tokens=RATE)


def image(n: int) -> Image:
    made = image_of(Attachment("image", f"cat{n}.png", "image/png", 70_000), png(rest=bytes([n])))
    assert isinstance(made, Image)
    return made


def reply(*images: Image, policy: PromptPolicy = SEES, text: str = "What is this?") -> Prompt:
    return BUILDER.build(PromptKind.REPLY, VOICE, context(text, images=images), policy)


def test_a_model_with_sight_is_given_the_images_and_told_which_is_which() -> None:
    prompt = reply(image(1), image(2))
    (message,) = prompt.request.messages
    assert message.images == (image(1), image(2))
    assert (
        "What is this?\n[image: cat1.png, 0.1 MB, image 1 here]\n[image: cat2.png, 0.1 MB, image 2 here]"
        in message.text
    )


def test_a_model_without_sight_is_given_a_note_and_no_image() -> None:
    prompt = reply(image(1), policy=PromptPolicy())
    (message,) = prompt.request.messages
    assert message.images == () and prompt.request.image_tokens == 0
    assert "[image: cat1.png, 0.1 MB, not shown: this model reads no images]" in message.text


def test_the_hash_of_a_prompt_changes_with_the_picture() -> None:
    renamed = replace(image(2), source=image(1).source)
    assert reply(image(1)).sha256 != reply(renamed).sha256
    assert reply(image(1)).sha256 == reply(image(1)).sha256


def test_a_prompt_without_images_has_the_hash_it_always_had() -> None:
    assert reply().sha256 == reply(policy=PromptPolicy()).sha256


def test_images_count_by_the_declared_rate_in_size_and_bound() -> None:
    none, two = reply(), reply(image(1), image(2))
    assert two.request.image_tokens == 2 * RATE
    assert two.bound_tokens - none.bound_tokens == 2 * RATE + size(two) - size(none)
    assert two.estimated_tokens - none.estimated_tokens > 2 * RATE


def size(prompt: Prompt) -> int:
    return sum(len(message.text.encode()) for message in prompt.request.messages)


@pytest.mark.parametrize("window", [6_000, 11_000, 40_000])
@pytest.mark.parametrize("rate", [85, 1_600, 9_000])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_the_largest_context_with_images_fits_window_and_cap(window: int, rate: int, count: int) -> None:
    policy = PromptPolicy(window_tokens=window, image_tokens=rate)
    made = context(**everything_huge(), images=tuple(image(n) for n in range(count)))
    prompt = BUILDER.build(PromptKind.REPLY, VOICE, made, policy)
    words = prompt.estimated_tokens - prompt.request.image_tokens
    assert words * SAFETY + prompt.request.image_tokens <= policy.input_tokens
    assert prompt.bound_tokens <= policy.hard_cap


def test_images_leave_half_of_the_window_to_words() -> None:
    policy = PromptPolicy(window_tokens=5_000, max_output_tokens=1_000, image_tokens=900)
    prompt = reply(image(1), image(2), image(3), policy=policy)
    assert len(prompt.request.images) == 2
    assert "[image: cat3.png, 0.1 MB, not shown: there was no room for it]" in prompt.request.messages[0].text


def test_the_account_says_how_many_images_were_shown() -> None:
    section = next(each for each in reply(image(1), policy=PromptPolicy()).sections if each.name == "images")
    assert (section.items_kept, section.items_dropped, section.tokens) == (0, 1, 0)


def test_no_byte_of_an_image_stands_in_the_text_of_a_prompt() -> None:
    assert "IHDR" not in repr(reply(image(1)))
