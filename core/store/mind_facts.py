"""What operations on the mind have to know from outside it, read in its transaction: ids and yes or no, never text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.domain.audience import InRoom, groups, readable_by_every, readable_rooms
from core.domain.clustering import LETTERS, letters
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.mind.facts import (
    REPEAT_DAYS,
    MessageFact,
    Needs,
    OutboxFact,
    message_of,
    person_of,
    quote_key,
    speech_hash,
)
from core.domain.mind.values import Anchor, AnchorKind, TargetKind
from core.store.access import load_world
from core.store.engine import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is there of all that was asked for."""

    messages: Mapping[MessageId, MessageFact] = field(default_factory=dict)
    refs: Mapping[str, frozenset[RoomId]] = field(default_factory=dict)
    lost_quotes: frozenset[str] = frozenset()
    people: frozenset[PersonId] = frozenset()
    opted_out: frozenset[PersonId] = frozenset()
    erased: frozenset[PersonId] = frozenset()
    rooms: frozenset[RoomId] = frozenset()
    repos: frozenset[str] = frozenset()
    outbox: Mapping[int, OutboxFact] = field(default_factory=dict)
    revisions: Mapping[tuple[MessageId, int], int] = field(default_factory=dict)
    said: frozenset[str] = frozenset()
    answered: frozenset[MessageId] = frozenset()
    spoke_at: datetime | None = None
    runs: frozenset[int] = frozenset()


_MESSAGES = """
select m.id, m.room_id, m.author_id, m.archived_seq, m.revision, m.sent_at,
       m.deleted_at is null and not exists (
         select from voidbot.people p where p.id in (m.author_id, m.proxy_of) and p.erasing) as alive,
       m.kind = 'bot_reply' as own
from voidbot.messages m join voidbot.communities c on c.id = m.community_id
where c.mind_id = $1 and m.id = any($2::bigint[])"""
# Held until what rests on them is written: a deletion beside it waits, and its index then finds what to take back.
_HELD_MESSAGES = f"{_MESSAGES} order by m.id for share of m"
_QUOTED = """
select m.id, m.revision, m.text from voidbot.messages m where m.id = any($1::bigint[])
union all
select r.message_id, r.revision, r.text from voidbot.message_revisions r where r.message_id = any($1::bigint[])"""
_PEOPLE = """
select p.id, p.opted_out or not p.learn_me as out, p.erasing or p.kind = 'erased' as gone from voidbot.people p
where p.id = any($2::bigint[]) and (p.kind = 'erased' or exists (
    select 1 from voidbot.memberships s join voidbot.communities c on c.id = s.community_id
    where s.person_id = p.id and c.mind_id = $1))"""
_ROOMS = """
select r.id from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
where c.mind_id = $1 and r.id = any($2::bigint[])"""
_REPOS = """
select distinct lower(s.name) as name from voidbot.sources s
join voidbot.source_communities k on k.source_id = s.id join voidbot.communities c on c.id = k.community_id
where c.mind_id = $1 and lower(s.name) = any($2::text[])"""
_FILES = """
select distinct s.name || '/' || f.path as place,
       array(select w.room_id from voidbot.source_rooms w where w.source_id = s.id) as rooms, s.all_rooms
from voidbot.sources s join voidbot.source_files f on f.source_id = s.id
join voidbot.source_communities k on k.source_id = s.id join voidbot.communities c on c.id = k.community_id
where c.mind_id = $1 and s.name || '/' || f.path = any($2::text[])
  and (s.all_rooms or exists (select 1 from voidbot.source_rooms w where w.source_id = s.id))"""
_OUTBOX = """
select x.id, x.room_id, encode(sha256(convert_to(coalesce(x.body, ''), 'UTF8')), 'hex') as hash, x.state
from voidbot.outbox x join voidbot.communities c on c.id = x.community_id
where c.mind_id = $1 and x.id = any($2::bigint[])"""
_REVISIONS = """
select r.message_id, r.revision, r.archived_seq from voidbot.message_revisions r
join unnest($1::bigint[], $2::bigint[]) w(id, revision) on r.message_id = w.id and r.revision = w.revision"""
_SAID = """
select e.body->>'contentHash' as hash, (e.body->>'replyToMessageId')::bigint as answered from voidbot.state_entries e
where e.mind_id = $1 and e.type = 'receipt' and e.retired_at is null
  and (e.created_at > voidbot.now() - $2::interval and e.body->>'contentHash' = any($3::text[])
    or (e.body->>'replyToMessageId')::bigint = any($4::bigint[]))"""
_SPOKE = """
select max((e.body->>'sentAt')::timestamptz) from voidbot.state_entries e
where e.mind_id = $1 and e.type = 'receipt' and e.retired_at is null"""
_RUNS = "select id from voidbot.pass_runs where mind_id = $1 and id = any($2::bigint[])"
_RECALLED = """
select s.ref as id, max(coalesce(r.delivered_at, r.at)) as at from voidbot.receipt_sources s
join voidbot.receipts r on r.outbox_id = s.outbox_id join voidbot.rooms o on o.id = r.room_id
join voidbot.communities c on c.id = o.community_id
where s.kind = 'memory' and s.ref = any($2::text[]) and c.mind_id = $1 group by s.ref"""
_HOME = "select min(id) from voidbot.communities where mind_id = $1"
_EPOCH = "select coalesce(sum(access_epoch), 0)::bigint from voidbot.communities where mind_id = $1"


async def read(tx: Tx, mind_id: str, needs: Needs, venues: Iterable[RoomId] = ()) -> Found:
    """Return what is there of what operations need; asks only for what is asked."""
    anchored = {id_ for anchor in needs.anchors if (id_ := message_of(anchor.ref)) is not None}
    messages = await _messages(tx, mind_id, needs.messages | anchored)
    about = {person for target in needs.targets if (person := person_of(target)) is not None}
    rooms = set(needs.venues) | set(venues)
    rooms |= {RoomId(int(t.id)) for t in needs.targets if t.kind is TargetKind.ROOM and _is_id(t.id)}
    repos = {name.casefold() for name in needs.repos}
    repos |= {target.id.casefold() for target in needs.targets if target.kind is TargetKind.REPO}
    people, out, gone = await _people(tx, mind_id, about)
    said, answered = await _said(tx, mind_id, needs)
    return Found(
        revisions=await _revisions(tx, needs),
        said=said,
        answered=answered,
        spoke_at=await tx.fetchval(_SPOKE, mind_id) if needs.spoke else None,
        runs=frozenset(row["id"] for row in await tx.fetch(_RUNS, mind_id, sorted(needs.runs)))
        if needs.runs
        else frozenset(),
        messages=messages,
        refs=await _files(tx, mind_id, needs.anchors),
        lost_quotes=await _lost_quotes(tx, needs.anchors, messages),
        people=people,
        opted_out=out,
        erased=gone,
        rooms=frozenset(RoomId(row["id"]) for row in await tx.fetch(_ROOMS, mind_id, sorted(rooms)))
        if rooms
        else frozenset(),
        repos=frozenset(row["name"] for row in await tx.fetch(_REPOS, mind_id, sorted(repos)))
        if repos
        else frozenset(),
        outbox={
            row["id"]: OutboxFact(RoomId(row["room_id"]), row["hash"], row["state"])
            for row in (await tx.fetch(_OUTBOX, mind_id, sorted(needs.outbox)) if needs.outbox else ())
        },
    )


MOST_REMEMBERED = 1024
"""For how many sets of rooms it is remembered what their readers may read."""


class AudienceGroups:
    """Which rooms of a mind have the same readers, remembered until any access of the mind changes."""

    __slots__ = ("_known", "_readable")

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[RoomId, str]]] = {}
        self._readable: dict[tuple[str, frozenset[RoomId]], tuple[int, frozenset[RoomId]]] = {}

    async def load(self, tx: Tx, mind_id: str) -> Mapping[RoomId, str]:
        """Return the group of each room whose readers are known."""
        epoch = await tx.fetchval(_EPOCH, mind_id)
        known = self._known.get(mind_id)
        if known is not None and known[0] == epoch:
            return known[1]
        home = await tx.fetchval(_HOME, mind_id)
        found = {} if home is None else groups(await load_world(tx, CommunityId(home), ()))
        self._known[mind_id] = (epoch, found)
        return found

    async def list_readable(self, tx: Tx, mind_id: str, venues: Iterable[RoomId]) -> frozenset[RoomId]:
        """Return the rooms that every reader of each of some rooms may read now; none if there are no such rooms."""
        asked = frozenset(venues)
        epoch = await tx.fetchval(_EPOCH, mind_id)
        known = self._readable.get((mind_id, asked))
        if known is not None and known[0] == epoch:
            return known[1]
        home = await tx.fetchval(_HOME, mind_id)
        world = None if home is None else await load_world(tx, CommunityId(home), ())
        found = frozenset[RoomId]() if world is None else readable_by_every(asked, world)
        if len(self._readable) >= MOST_REMEMBERED:
            self._readable.clear()
        self._readable[mind_id, asked] = (epoch, found)
        return found


async def list_readable_in(tx: Tx, mind_id: str, venue: RoomId) -> frozenset[RoomId]:
    """Return the rooms that every reader of a room may read now."""
    home = await tx.fetchval(_HOME, mind_id)
    if home is None:
        return frozenset()
    return readable_rooms(InRoom(venue), None, await load_world(tx, CommunityId(home), ()))


async def list_recalled(tx: Tx, mind_id: str, ids: Iterable[str]) -> dict[str, datetime]:
    """Return when each of these entries was last part of the prompt of something that was said; if it ever was."""
    wanted = sorted(ids)
    rows = await tx.fetch(_RECALLED, mind_id, wanted) if wanted else []
    return {row["id"]: row["at"] for row in rows}


async def list_changed(tx: Tx, mind_id: str, messages: Iterable[int]) -> list[MessageFact]:
    """Return those of these messages that are the mind's, as they stand now."""
    return list((await _messages(tx, mind_id, map(MessageId, messages))).values())


async def list_erased(tx: Tx, people: Iterable[PersonId]) -> list[PersonId]:
    """Return those of these people who were erased, are being erased, or are nobody here."""
    wanted = sorted(people)
    rows = await tx.fetch(
        "select g.id from unnest($1::bigint[]) g(id) left join voidbot.people p on p.id = g.id"
        " where p.id is null or p.erasing or p.kind = 'erased' order by 1",
        wanted,
    )
    return [PersonId(row["id"]) for row in rows]


async def list_nobody(tx: Tx, people: Iterable[PersonId]) -> list[PersonId]:
    """Return those of these ids under which there is no person."""
    rows = await tx.fetch(
        "select g.id from unnest($1::bigint[]) g(id) left join voidbot.people p on p.id = g.id where p.id is null",
        sorted(people),
    )
    return [PersonId(row["id"]) for row in rows]


async def list_withdrawn(tx: Tx, mind_id: str) -> frozenset[PersonId]:
    """Return who is in entries of a mind and does not want to be remembered, or is being erased."""
    rows = await tx.fetch(
        "select p.id from voidbot.people p where (p.opted_out or p.erasing) and exists ("
        " select from voidbot.state_entries e where e.mind_id = $1 and e.people @> array[p.id])",
        mind_id,
    )
    return frozenset(PersonId(row["id"]) for row in rows)


async def list_surviving(tx: Tx, anchors: Iterable[Anchor]) -> frozenset[str]:
    """Return the `quote_key` of anchors on messages that were edited and still say what they proved.

    With a quote: it stands in the last revision. Without: the text is nearly the one of the revision that was meant.
    """
    meant = [(id_, anchor) for anchor in anchors if (id_ := message_of(anchor.ref)) is not None]
    texts: dict[int, dict[int, str]] = {}
    for row in await tx.fetch(_QUOTED, sorted({id_ for id_, _ in meant})) if meant else ():
        texts.setdefault(row["id"], {}).setdefault(row["revision"], row["text"] or "")
    kept = set()
    for id_, anchor in meant:
        revisions = texts.get(id_, {})
        last = revisions.get(max(revisions, default=0), "")
        if anchor.quote is not None:
            stands = anchor.quote in last
        else:
            before = revisions.get(anchor.revision if anchor.revision is not None else min(revisions, default=0), "")
            stands = bool(before) and letters(before, last) >= LETTERS.near
        kept |= {quote_key(anchor)} if stands else set()
    return frozenset(kept)


async def _messages(tx: Tx, mind_id: str, ids: Iterable[MessageId]) -> dict[MessageId, MessageFact]:
    wanted = sorted(ids)
    rows = await tx.fetch(_HELD_MESSAGES, mind_id, wanted) if wanted else []
    return {
        MessageId(row["id"]): MessageFact(
            MessageId(row["id"]),
            RoomId(row["room_id"]),
            None if row["author_id"] is None else PersonId(row["author_id"]),
            row["archived_seq"],
            row["revision"],
            row["sent_at"],
            row["alive"],
            row["own"],
        )
        for row in rows
    }


async def _lost_quotes(tx: Tx, anchors: Iterable[Anchor], messages: Mapping[MessageId, MessageFact]) -> frozenset[str]:
    """Return the quotes that do not stand word for word in the revision that they name, or else in the last one."""
    quoting = [(id_, a) for a in anchors if a.quote is not None and (id_ := message_of(a.ref)) in messages]
    if not quoting:
        return frozenset()
    texts: dict[tuple[int, int], str] = {}
    for row in await tx.fetch(_QUOTED, sorted({id_ for id_, _ in quoting if id_ is not None})):
        texts.setdefault((row["id"], row["revision"]), row["text"] or "")
    lost = set()
    for id_, anchor in quoting:
        if id_ is None or anchor.quote is None:
            continue
        revision = messages[id_].revision if anchor.revision is None else anchor.revision
        if anchor.quote not in texts.get((id_, revision), ""):
            lost.add(quote_key(anchor))
    return frozenset(lost)


async def _said(tx: Tx, mind_id: str, needs: Needs) -> tuple[frozenset[str], frozenset[MessageId]]:
    """Return which drafts were said before, by their hash, and which messages have been answered."""
    hashes = {speech_hash(draft) for draft in needs.drafts}
    if not hashes and not needs.answered:
        return frozenset(), frozenset()
    rows = await tx.fetch(_SAID, mind_id, timedelta(days=REPEAT_DAYS), sorted(hashes), sorted(needs.answered))
    answered = {MessageId(row["answered"]) for row in rows if row["answered"] is not None}
    return frozenset({row["hash"] for row in rows} & hashes), frozenset(answered & needs.answered)


async def _revisions(tx: Tx, needs: Needs) -> dict[tuple[MessageId, int], int]:
    wanted = sorted(needs.revisions)
    rows = await tx.fetch(_REVISIONS, [id_ for id_, _ in wanted], [n for _, n in wanted]) if wanted else []
    return {(MessageId(row["message_id"]), row["revision"]): row["archived_seq"] for row in rows}


async def _people(
    tx: Tx, mind_id: str, ids: Iterable[PersonId]
) -> tuple[frozenset[PersonId], frozenset[PersonId], frozenset[PersonId]]:
    wanted = sorted(ids)
    rows = await tx.fetch(_PEOPLE, mind_id, wanted) if wanted else []
    return (
        frozenset(PersonId(row["id"]) for row in rows),
        frozenset(PersonId(row["id"]) for row in rows if row["out"]),
        frozenset(PersonId(row["id"]) for row in rows if row["gone"]),
    )


async def _files(tx: Tx, mind_id: str, anchors: Iterable[Anchor]) -> dict[str, frozenset[RoomId]]:
    places = {a.ref: a.place.removeprefix("source:") for a in anchors if a.kind is AnchorKind.SOURCE}
    if not places:
        return {}
    found = {
        row["place"]: frozenset[RoomId]() if row["all_rooms"] else frozenset(map(RoomId, row["rooms"]))
        for row in await tx.fetch(_FILES, mind_id, sorted(set(places.values())))
    }
    return {ref: found[place] for ref, place in places.items() if place in found}


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) < 19
