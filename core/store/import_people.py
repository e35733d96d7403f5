"""People that a history brings along: their accounts, their names as of then, when they came and went.

What is live stands above it: an import renames nobody who was met here, and makes nobody a present member.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import CommunityId, PersonId
from core.domain.imports import Account
from core.store.engine import Tx

UNNAMED = "deleted account"
"""The name of an account of which only its number is left."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person's row. `opted_out`: nothing of theirs is to be kept."""

    id: PersonId
    opted_out: bool


_MEET = """
insert into voidbot.people (platform, account_ref, is_bot, kind)
select $1, u.* from unnest($2::text[], $3::boolean[], $4::text[]) u(ref, is_bot, kind)
where not exists (select 1 from voidbot.people p where p.platform = $1 and p.account_ref = u.ref)
on conflict (platform, account_ref) do nothing"""
_FIND = """
select account_ref, id, opted_out from voidbot.people where platform = $1 and account_ref = any($2::text[])"""
# The one name of somebody never renamed is as old as its oldest use.
_OLDER = """
update voidbot.person_names n set valid_from = g.at
from unnest($1::bigint[], $2::text[], $3::timestamptz[]) g(person, name, at)
where n.person_id = g.person and n.kind = 'display' and n.valid_to is null and n.name = g.name and n.valid_from > g.at
  and not exists (select 1 from voidbot.person_names h
                  where h.person_id = g.person and h.kind = 'display' and h.id <> n.id)"""
_FORMER = """
insert into voidbot.person_names (person_id, name, valid_from, valid_to)
select g.person, g.name, g.at, o.valid_from
from unnest($1::bigint[], $2::text[], $3::timestamptz[]) g(person, name, at)
join voidbot.person_names o on o.person_id = g.person and o.kind = 'display' and o.valid_to is null
where o.name <> g.name and o.valid_from > g.at and not exists (
  select 1 from voidbot.person_names h where h.person_id = g.person and h.kind = 'display' and h.name = g.name)"""
_OVER = """
update voidbot.person_names n set valid_to = g.at
from unnest($1::bigint[], $2::text[], $3::timestamptz[]) g(person, name, at)
where n.person_id = g.person and n.kind = 'display' and n.valid_to is null and n.name <> g.name
  and n.valid_from <= g.at
  and not exists (select 1 from voidbot.memberships m where m.person_id = g.person and m.left_at is null)"""
_NEWER = """
insert into voidbot.person_names (person_id, name, valid_from)
select g.person, g.name, g.at from unnest($1::bigint[], $2::text[], $3::timestamptz[]) g(person, name, at)
where not exists (select 1 from voidbot.person_names o
                  where o.person_id = g.person and o.kind = 'display' and o.valid_to is null)"""
_JOINED = """
update voidbot.memberships m set joined_at = g.at
from unnest($2::bigint[], $3::timestamptz[]) g(person, at)
where m.community_id = $1 and m.person_id = g.person and m.left_at is null and m.joined_at > g.at"""
_LEFT = """
insert into voidbot.memberships (community_id, person_id, joined_at, left_at)
select $1, g.person, g.since, g.until
from unnest($2::bigint[], $3::timestamptz[], $4::timestamptz[]) g(person, since, until)
where not exists (select 1 from voidbot.memberships m
                  where m.community_id = $1 and m.person_id = g.person and m.left_at = g.until)"""


async def meet(tx: Tx, platform: str, accounts: Iterable[Account]) -> Mapping[str, Person]:
    """Make the rows that are missing; return all by the platform's id."""
    by_ref = {account.ref: account for account in accounts}
    if not by_ref:
        return {}
    given = sorted(by_ref.values(), key=lambda account: account.ref)  # in one order: imports may meet
    refs = [account.ref for account in given]
    await tx.execute(_MEET, platform, refs, [account.is_bot for account in given], [account.kind for account in given])
    return await find(tx, platform, refs)


async def find(tx: Tx, platform: str, refs: Sequence[str]) -> Mapping[str, Person]:
    """Return those of the accounts that have a row."""
    rows = await tx.fetch(_FIND, platform, refs)
    return {row["account_ref"]: Person(PersonId(row["id"]), row["opted_out"]) for row in rows}


@dataclass(frozen=True, slots=True)
class DatedName:
    """What somebody was called at a time."""

    person_id: PersonId
    name: str
    at: datetime


async def date_names(tx: Tx, names: Sequence[DatedName]) -> None:
    """Bring names to what was read, one of each person; the present name of who was met here stays."""
    if not names:
        return
    columns = (
        [name.person_id for name in names],
        [name.name or UNNAMED for name in names],
        [name.at for name in names],
    )
    for statement in (_OLDER, _FORMER, _OVER, _NEWER):
        await tx.execute(statement, *columns)


@dataclass(frozen=True, slots=True)
class Stay:
    """Time in a community. `left` None: it is not told to have ended."""

    person_id: PersonId
    joined: datetime
    left: datetime | None


async def note_stays(tx: Tx, community_id: CommunityId, stays: Sequence[Stay]) -> None:
    """Note stays that are over, and since when present members are there."""
    here = [stay for stay in stays if stay.left is None]
    over = [stay for stay in stays if stay.left is not None]
    if here:
        await tx.execute(_JOINED, community_id, [stay.person_id for stay in here], [stay.joined for stay in here])
    if over:
        columns = ([stay.person_id for stay in over], [stay.joined for stay in over], [stay.left for stay in over])
        await tx.execute(_LEFT, community_id, *columns)
