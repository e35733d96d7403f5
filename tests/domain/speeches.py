"""Operations as the wire would bring them, and what became of a mind that refused or took one."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from core.domain.mind.bodies import Mood, Pressure, Sleep
from core.domain.mind.codes import Accepted, Rejected, RejectionCode
from core.domain.mind.entries import Entry, image_of
from core.domain.mind.facts import Facts, facts_image, facts_of
from core.domain.mind.view import View
from core.domain.operations.base import Operation
from core.domain.operations.catalog import read_operation
from tests.domain.minds import applied, make_entry, make_view, read

_JSON = TypeAdapter(dict[str, Any])
Case = tuple[Operation, tuple[Entry, ...], Facts, RejectionCode, str]
"""An operation, what the mind holds, what is known, the code expected and where in the payload."""


def images(view: View) -> list[dict[str, Any]]:
    """Every entry of a view as the journal would keep it."""
    return [image_of(entry) for entry in view.all()]


def refusal(operation: Operation, entries: tuple[Entry, ...], facts: Facts) -> tuple[str, str]:
    """The code and path of a refusal, which left the mind as it was; ("", effect) if it was taken.

    The operation as it stands on the wire, with the facts that the journal would keep, has to come to the same.
    """
    view = make_view(*entries)
    before = images(view)
    verdict = applied(operation, view, facts)
    again = read_operation(_JSON.dump_json(operation.model_dump(mode="json", exclude_none=True)))
    kept = facts_image(facts, operation.needs(), [room for entry in entries for room in entry.sources])
    assert applied(again, make_view(*entries), facts_of(kept, facts.actor, facts.seq)) == verdict
    if isinstance(verdict, Accepted):
        return "", verdict.effect
    assert images(view) == before, "a refused operation changed the mind"
    return verdict.code.value, verdict.path


def taken(
    operation: Operation, view: View, facts: Facts, expect: Mapping[str, int] | None = None
) -> tuple[str, tuple[str, ...]]:
    """The effect of an operation that stands, and the entries that it touched."""
    verdict = applied(operation, view, facts, expect)
    assert not isinstance(verdict, Rejected), verdict
    return verdict.effect, verdict.entries


def make_sleep(**more: Any) -> Entry:
    """How the mind sleeps; made from no room."""
    return make_entry("sleep", read(Sleep, **more), sources=(), people=())


def make_pressure(**more: Any) -> Entry:
    """How much it is drawn to speak."""
    return make_entry("pressure", read(Pressure, **more), sources=(), people=())


def make_mood(**more: Any) -> Entry:
    """A mood of two dimensions."""
    fields: dict[str, Any] = {
        "dimensions": {"irritation": 0.8, "calm": 0.5},
        "baselines": {"irritation": 0.2, "calm": 0.2},
    }
    return make_entry("mood", read(Mood, **(fields | more)), sources=(), people=())
