"""Which questions of a gap are answered."""

from dataclasses import replace
from datetime import timedelta

from core.domain.catchup import answered_of
from core.domain.messages import Address, InboundMessage
from tests.domain.test_archiving import AT, SAID


def asked(n: int, who: str, minutes_ago: float = 1, *, addressed: bool = True) -> InboundMessage:
    by = frozenset({Address.MENTION}) if addressed else frozenset()
    return replace(
        SAID, message_id=str(n), person_ref=who, sent_at=AT - timedelta(minutes=minutes_ago), addressed_by=by
    )


def test_everybodys_newest_question_comes_first_and_five_are_answered() -> None:
    gap = [
        asked(0, "old", 16),
        asked(1, "ana"),
        asked(2, "ben"),
        asked(3, "cem", addressed=False),
        *(asked(n, "ana") for n in range(4, 9)),
        asked(9, "eve"),
    ]
    assert answered_of(gap, AT) == {"2", "9", "8", "7", "6"}
    assert answered_of(gap[:3], AT) == {"1", "2"}
