"""Notes of the day by matter, and which of them sleep takes at once: a matter stays together if it fits. Pure."""

from collections.abc import Iterable, Sequence

from core.domain.mind.entries import Entry
from core.domain.mind.values import TargetKind, Thought

MOST_NOTES = 24
"""How many notes one call is given."""

Cluster = tuple[Entry, ...]


def clusters(notes: Iterable[Entry]) -> list[Cluster]:
    """Return the notes in groups that share a target, a topic or a repository, by one step or several.

    The group with the oldest note comes first, and within each the oldest note.
    """
    found: list[tuple[set[str], list[Entry]]] = []
    for entry in sorted(notes, key=lambda each: (each.created_at, each.id)):
        marks, members = _marks(entry), [entry]
        joined = [each for each in found if each[0] & marks]
        for each in joined:
            marks |= each[0]
            members += each[1]
        found = [each for each in found if each not in joined]
        found.append((marks, sorted(members, key=_age)))
    return [tuple(members) for _, members in sorted(found, key=lambda each: _age(each[1][0]))]


def packed(every: Sequence[Cluster], most: int = MOST_NOTES) -> list[Cluster]:
    """Return the clusters that one call takes: whole ones while they fit; of one that fits in no call, a part."""
    taken: list[Cluster] = []
    left = most
    for cluster in every:
        if len(cluster) <= left:
            taken.append(cluster)
            left -= len(cluster)
        elif not taken:
            return [cluster[:most]]
    return taken


def _age(entry: Entry) -> tuple[float, str]:
    return (entry.created_at.timestamp(), entry.id)


def _marks(entry: Entry) -> set[str]:
    body = entry.body
    if not isinstance(body, Thought):
        return {f"id:{entry.id}"}
    repo = body.target.id if body.target.kind is TargetKind.REPO else body.repo
    marks = {"target:" + ":".join(body.target.key), *(f"topic:{topic}" for topic in body.topics)}
    return marks | ({f"repo:{repo.casefold()}"} if repo is not None else set())
