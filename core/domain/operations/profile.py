"""The operation on how the mind presents itself: its profile, what matters to it, and its private notes."""

from collections import Counter
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from core.domain.mind.bodies import Note, Value
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Key
from core.domain.mind.facts import Emitter, Facts, Needs
from core.domain.mind.values import Blank40, Blank1000, Id, Score, Slug, Text64, Text120, Text1000, Text4000
from core.domain.mind.view import View, profile_of
from core.domain.operations.base import Operation, Origin, Stamped, cap_or, key, keys, live_or, origin, write

MOST_GIVEN = 24


class ValueGiven(Stamped):
    """A value: a new one, or the fields of one that is to change."""

    value_id: Id
    label: Text120 | None = None
    priority: Score | None = None
    summary: Text1000 | None = None
    support_memory_id: Id | None = None


class NoteGiven(Stamped):
    """A private note: a new one, or the fields of one that is to change."""

    note_id: Id
    text: Text4000 | None = None
    reason: Text1000 | None = None
    support_memory_id: Id | None = None


Given = ValueGiven | NoteGiven


class ConfigureProfile(Operation):
    """Set how the mind presents itself, what matters to it, and what it notes of itself; what is not given stays.

    An empty description or empty pronouns are taken away. Refused if nothing is given, or a list is full.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT, Emitter.OPERATOR})
    operation: Literal["configure_profile"] = "configure_profile"
    public_name: Text64 | None = None
    public_description: Blank1000 | None = None
    pronouns: Blank40 | None = None
    style_pack: Slug | None = None
    traits: Annotated[dict[Text64, Score], Field(max_length=24)] | None = None
    values: Annotated[tuple[ValueGiven, ...], Field(max_length=MOST_GIVEN)] = ()
    notes: Annotated[tuple[NoteGiven, ...], Field(max_length=MOST_GIVEN)] = ()

    def needs(self) -> Needs:
        """Return the profile, what is given of values and notes, what they rest on, and how many there are."""
        return Needs(entries=frozenset(self._written()) | keys("durable", self._supports()), counted=self._types())

    def rewrites(self) -> tuple[Key, ...]:
        """Return the profile if it changes, and the values and notes that are given."""
        return tuple(self._written())

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether ids are free or of the right sort, each given once, and what they rest on is there."""
        for path, type_, id_, given in self._entries():
            there = view.holder(type_, id_)
            if there is not None and (there.type != type_ or not there.live):
                return Rejected(RejectionCode.ID_TAKEN, path, "is the id of another entry, or was")
            supports = () if given.support_memory_id is None else (given.support_memory_id,)
            refusal = live_or(view, "durable", supports, f"{path}.supportMemoryId") or given.stamps_or(facts, path)
            if refusal is not None:
                return refusal
        ids = [id_ for _, _, id_, _ in self._entries()]
        if len(set(ids)) < len(ids):
            return Rejected(RejectionCode.CONTRADICTION, "values", "an id is given twice")
        return None

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether something is given, new ones are whole, and there is room for them."""
        if not self._profile() and not self._entries():
            return Rejected(RejectionCode.MISSING_FIELD, "operation", "nothing is given")
        new: Counter[tuple[str, frozenset[str]]] = Counter()
        for path, type_, id_, given in self._entries():
            if view.find(type_, id_) is not None:
                continue
            missing = _missing(given)
            if missing is not None:
                return Rejected(RejectionCode.MISSING_FIELD, f"{path}.{missing}", "is needed for a new one")
            sources, _ = self._origin(view, facts, given)
            group = (type_, facts.group(sources))
            new[group] += 1
            refusal = cap_or(view, type_, sources, facts, path, more=new[group])
            if refusal is not None:
                return refusal
        return None

    def apply(self, view: View, facts: Facts) -> str:
        """Replace what is given."""
        given = self._profile()
        if given:
            blank = {name: None for name, value in given.items() if value == ""}
            profile = profile_of(view).model_copy(update=given | blank)
            write(view, "profile", profile, facts, (frozenset(), frozenset()))
        for _, type_, id_, each in self._entries():
            there = view.find(type_, id_)
            fields = each.model_dump(exclude_none=True, by_alias=False, exclude=_NOT_KEPT)
            shape = Value if type_ == "value" else Note
            body = shape(**fields) if there is None else there.body.model_copy(update=fields)
            write(view, id_, body, facts, self._origin(view, facts, each))
        return "configured"

    def _profile(self) -> dict[str, Any]:
        names = ("public_name", "public_description", "pronouns", "style_pack", "traits")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _entries(self) -> list[tuple[str, str, Id, Given]]:
        values = [(f"values.{n}", "value", each.value_id, each) for n, each in enumerate(self.values)]
        notes = [(f"notes.{n}", "note", each.note_id, each) for n, each in enumerate(self.notes)]
        return [*values, *notes]

    def _written(self) -> list[Key]:
        profile = [key("profile", "profile")] if self._profile() else []
        return [*profile, *(key(type_, id_) for _, type_, id_, _ in self._entries())]

    def _supports(self) -> list[Id]:
        return [each.support_memory_id for _, _, _, each in self._entries() if each.support_memory_id is not None]

    def _types(self) -> frozenset[str]:
        return frozenset(type_ for _, type_, _, _ in self._entries())

    def _origin(self, view: View, facts: Facts, given: Given) -> Origin:
        support = None if given.support_memory_id is None else view.find("durable", given.support_memory_id)
        return origin(facts, entries=() if support is None else (support,))


_NOT_KEPT = {"value_id", "note_id", "created_at", "updated_at"}


def _missing(given: Given) -> str | None:
    match given:
        case ValueGiven():
            return "label" if given.label is None else None
        case NoteGiven():
            return "text" if given.text is None else "reason" if given.reason is None else None
