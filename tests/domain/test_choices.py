"""Choices as they travel: short, told apart, and believed in one form only."""

import pytest

from core.domain.choices import COMMAND_CHARS, LABEL_CHARS, Choice, ChoiceRef, pressed_of, read_ref


def test_a_choice_travels_within_the_narrowest_platform_s_limit_and_back() -> None:
    ref = ChoiceRef(10**18 - 1, 9)
    assert len(ref.text().encode()) <= 64
    assert read_ref(ref.text()) == ref
    assert pressed_of(ref.pressed("discord:12:34")) == ref


@pytest.mark.parametrize("text", ["", "yes:7", "void:7", "void:7:0", "void:7:1 ", "void:-7:1", f"void:{10**18}:1"])
def test_what_has_another_form_is_no_choice_of_ours(text: str) -> None:
    assert read_ref(text) is None


@pytest.mark.parametrize("message_id", ["m1", "button:void:7:1", "press:7:1:", "press:7", "void:7:1"])
def test_what_somebody_wrote_is_no_press(message_id: str) -> None:
    assert pressed_of(message_id) is None


@pytest.mark.parametrize(
    ("label", "command"),
    [("", "/help"), ("x" * (LABEL_CHARS + 1), "/help"), ("Go", "help"), ("Go", "/" + "x" * COMMAND_CHARS)],
)
def test_a_choice_has_a_short_label_and_a_command(label: str, command: str) -> None:
    with pytest.raises(ValueError, match="choice: "):
        Choice(label, command)
