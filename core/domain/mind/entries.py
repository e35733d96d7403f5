"""One entry of the mind: its typed body, where it was made from, its version, its hash. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import KIND_OF, Body, Kind, Scrubbed, WholeBody, read_body
from core.domain.mind.values import EntryId, wire_time

WHOLE = 1 << 256
"""Hashes are added modulo this."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What names an entry within a mind."""

    kind: Kind
    id: EntryId


@dataclass(frozen=True, slots=True)
class Retired:
    """That an entry is a tombstone: since when, why, and what stands in its place."""

    at: datetime
    reason: str
    superseded_by: EntryId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry as it stands. `sources`: rooms it was made from; `people`: whose words or person are in it.

    Empty `sources`: made from no room, usable anywhere.
    """

    id: EntryId
    version: int
    body: Body
    sources: frozenset[RoomId]
    people: frozenset[PersonId]
    created_at: datetime
    updated_at: datetime
    retired: Retired | None = None

    @property
    def type(self) -> str:
        """The type of the body."""
        return self.body.type

    @property
    def kind(self) -> Kind:
        """The kind of document it belongs to."""
        return KIND_OF[self.body.type]

    @property
    def key(self) -> Key:
        """What names it."""
        return Key(self.kind, self.id)

    @property
    def live(self) -> bool:
        """Whether it is no tombstone."""
        return self.retired is None

    def changed(
        self,
        now: datetime,
        body: Body | None = None,
        *,
        sources: Iterable[RoomId] = (),
        people: Iterable[PersonId] = (),
        retired: Retired | None = None,
    ) -> "Entry":
        """Return the next version; rooms and people are added to those it has."""
        return replace(
            self,
            version=self.version + 1,
            body=self.body if body is None else body,
            sources=self.sources.union(sources),
            people=self.people.union(people),
            updated_at=now,
            retired=self.retired if retired is None else retired,
        )

    def as_version(self, version: int) -> "Entry":
        """Return the same entry under another version."""
        return replace(self, version=version)

    def without(self, person: PersonId) -> "Entry":
        """Return the entry without this person among its people, version and all else as they are."""
        return replace(self, people=self.people - {person})


def image_of(entry: Entry) -> dict[str, Any]:
    """Return the whole entry as the journal keeps it: JSON values, equal for equal entries."""
    retired = entry.retired
    image: dict[str, Any] = {
        "kind": entry.kind.value,
        "id": entry.id,
        "version": entry.version,
        "body": entry.body.model_dump(mode="json", exclude_none=True),
        "sources": sorted(entry.sources),
        "people": sorted(entry.people),
        "createdAt": wire_time(entry.created_at),
        "updatedAt": wire_time(entry.updated_at),
    }
    if retired is not None:
        image["retired"] = {"at": wire_time(retired.at), "reason": retired.reason}
        if retired.superseded_by is not None:
            image["retired"]["supersededBy"] = retired.superseded_by
    return image


def entry_of(image: Mapping[str, Any]) -> Entry:
    """Return the entry that an image shows.

    Raises:
        KeyError, ValueError, pydantic.ValidationError: It shows none.
    """
    retired = image.get("retired")
    return Entry(
        id=EntryId(image["id"]),
        version=image["version"],
        body=body_of(image["body"]),
        sources=frozenset(map(RoomId, image["sources"])),
        people=frozenset(map(PersonId, image["people"])),
        created_at=datetime.fromisoformat(image["createdAt"]),
        updated_at=datetime.fromisoformat(image["updatedAt"]),
        retired=None
        if retired is None
        else Retired(datetime.fromisoformat(retired["at"]), retired["reason"], retired.get("supersededBy")),
    )


def body_of(value: Mapping[str, Any]) -> Body:
    """Return the body that a JSON value shows, scrubbed ones too."""
    if value.get("scrubbed"):
        return Scrubbed.model_validate(value)
    body: WholeBody = read_body(json.dumps(value))
    return body


def canonical(value: object) -> bytes:
    """Return JSON in the one form that is hashed: sorted names, no spaces, UTF-8."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def hash_of(image: Mapping[str, Any]) -> int:
    """Return the hash of an entry's image as a number below 2^256."""
    return int.from_bytes(hashlib.sha256(canonical(image)).digest())


def entry_hash(entry: Entry) -> int:
    """Return the hash of an entry."""
    return hash_of(image_of(entry))
