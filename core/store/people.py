"""People, their names and memberships. Only this module writes these tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from core.domain.budgets import PersonLimits, parse_limits
from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.platforms import MemberReport
from core.store import access
from core.store.engine import Tx
from core.store.words import clean

NAME_CHARS = 256
"""What is kept of a name; every platform's own limit is lower."""


@dataclass(frozen=True, slots=True)
class PersonStanding:
    """What intake needs to know of a person: choices, limits, the name carried now.

    `erasing`: everything of the person is being erased. `met`: the row was made just now.
    """

    id: PersonId
    opted_out: bool
    limits: str
    name: str | None
    member: bool
    dm_memory: bool = True
    erasing: bool = False
    met: bool = False


_FIND = """
select p.id, p.opted_out, p.limits, n.name, m.id is not null as member, p.dm_memory, p.erasing from voidbot.people p
left join voidbot.person_names n on n.person_id = p.id and n.kind = 'display' and n.valid_to is null
left join voidbot.memberships m on m.person_id = p.id and m.community_id = $3 and m.left_at is null
where p.platform = $1 and p.account_ref = $2"""


async def find_person(tx: Tx, platform: str, account_ref: str, community_id: CommunityId) -> PersonStanding | None:
    """Return a person by platform account, as that community knows them."""
    row = await tx.fetchrow(_FIND, platform, account_ref, community_id)
    if row is None:
        return None
    return PersonStanding(
        id=PersonId(row["id"]),
        opted_out=row["opted_out"],
        limits=row["limits"],
        name=row["name"],
        member=row["member"],
        dm_memory=row["dm_memory"],
        erasing=row["erasing"],
    )


async def ensure_person(
    tx: Tx,
    platform: str,
    account_ref: str,
    community_id: CommunityId,
    name: str,
    *,
    is_bot: bool = False,
    limits: str = "default",
    typed: bool = False,
    renames: bool = True,
) -> PersonStanding:
    """Return the person, with a row made, a membership opened and a changed name dated where that is due.

    `typed`: the name was typed to say who speaks; its capitals alone rename nobody. `renames`: the name is theirs.
    """
    name = clean(name)[:NAME_CHARS]
    found = await find_person(tx, platform, account_ref, community_id)
    met = found is None
    if typed and found is not None and found.name is not None and found.name.casefold() == name.casefold():
        name = found.name
    if found is None:
        await tx.execute(
            "insert into voidbot.people (platform, account_ref, is_bot, kind, limits) values ($1, $2, $3, 'user', $4)"
            " on conflict (platform, account_ref) do nothing",
            platform,
            account_ref,
            is_bot,
            limits,
        )
        found = await find_person(tx, platform, account_ref, community_id)
        if found is None:
            raise LookupError("a person's row vanished within one transaction")
    if renames and found.name != name:
        await _rename(tx, found.id, name)
    if not found.member:
        await tx.execute(
            "insert into voidbot.memberships (community_id, person_id) values ($1, $2) on conflict do nothing",
            community_id,
            found.id,
        )
        await access.raise_epoch(tx, community_id)
    return replace(found, name=name, member=True, met=met)


_WEBHOOK = """
update voidbot.people set kind = case when $2 then 'proxy' else 'webhook' end, is_bot = not $2
where id = $1 and kind <> case when $2 then 'proxy' else 'webhook' end and kind <> 'proxy'"""


async def mark_webhook(tx: Tx, person_id: PersonId, *, proxied: bool) -> None:
    """Note what stands behind a webhook's name: a machine, or from the first time on somebody whose words it shows."""
    await tx.execute(_WEBHOOK, person_id, proxied)


async def _rename(tx: Tx, person_id: PersonId, name: str) -> None:
    await tx.execute(
        "update voidbot.person_names set valid_to = voidbot.now()"
        " where person_id = $1 and kind = 'display' and valid_to is null",
        person_id,
    )
    await tx.execute(
        "insert into voidbot.person_names (person_id, name) values ($1, $2) on conflict do nothing",
        person_id,
        name,
    )


async def account_of(tx: Tx, person_id: PersonId) -> str:
    """Return the platform's id of the person."""
    ref: str = await tx.fetchval("select account_ref from voidbot.people where id = $1", person_id)
    return ref


async def load_limits(tx: Tx, person_id: PersonId) -> PersonLimits:
    """Return how far the person's own limits reach."""
    return parse_limits(await tx.fetchval("select limits from voidbot.people where id = $1", person_id))


async def list_named(tx: Tx, community_id: CommunityId, name: str) -> list[PersonId]:
    """Return the community's people who carry this name now, whatever its case."""
    rows = await tx.fetch(
        "select distinct n.person_id from voidbot.person_names n"
        " join voidbot.memberships m on m.person_id = n.person_id"
        " where m.community_id = $1 and m.left_at is null and n.valid_to is null and lower(n.name) = lower($2)",
        community_id,
        name,
    )
    return [PersonId(row["person_id"]) for row in rows]


async def names_of(tx: Tx, people: Sequence[PersonId]) -> dict[PersonId, str]:
    """Return the names that these people carry now."""
    rows = await tx.fetch(
        "select person_id, name from voidbot.person_names"
        " where person_id = any($1::bigint[]) and kind = 'display' and valid_to is null",
        people,
    )
    return {PersonId(row["person_id"]): row["name"] for row in rows}


async def save_limits(tx: Tx, person_id: PersonId, limits: str) -> None:
    """Set the limits role of a person: `default`, `boosted` or `unlimited`."""
    await tx.execute("update voidbot.people set limits = $2 where id = $1", person_id, limits)


async def leave(tx: Tx, community_id: CommunityId, person_id: PersonId) -> None:
    """Close the membership and the roles held in it: the person loses every room of the community at once."""
    await tx.execute(
        "update voidbot.memberships set left_at = voidbot.now()"
        " where community_id = $1 and person_id = $2 and left_at is null",
        community_id,
        person_id,
    )
    await access.end_roles(tx, community_id, person_id)
    await access.raise_epoch(tx, community_id)


_PEOPLE = """
insert into voidbot.people (platform, account_ref, is_bot)
select $1, u.* from unnest($2::text[], $3::boolean[]) u on conflict (platform, account_ref) do nothing"""
_NAMES_OVER = """
update voidbot.person_names n set valid_to = voidbot.now()
from voidbot.people p, unnest($2::text[], $3::text[]) u(ref, name)
where p.platform = $1 and p.account_ref = u.ref and n.person_id = p.id and n.kind = 'display' and n.valid_to is null
  and n.name <> u.name"""
_NAMES_NEW = """
insert into voidbot.person_names (person_id, name)
select p.id, u.name from unnest($2::text[], $3::text[]) u(ref, name)
join voidbot.people p on p.platform = $1 and p.account_ref = u.ref
on conflict do nothing"""
_MEMBERS_NEW = """
insert into voidbot.memberships (community_id, person_id)
select $1, p.id from voidbot.people p where p.platform = $2 and p.account_ref = any($3::text[])
on conflict do nothing"""
# Accounts that no platform gives out are ours, and stay.
_MEMBERS_LEFT = """
update voidbot.memberships m set left_at = voidbot.now() from voidbot.people p
where m.community_id = $1 and m.left_at is null and p.id = m.person_id and p.account_ref <> all($2::text[])
  and p.account_ref not like 'bot:%'"""


async def learn_members(
    tx: Tx, community_id: CommunityId, platform: str, members: Sequence[MemberReport], *, everyone: bool
) -> None:
    """Bring people, names and memberships to the report; `everyone`: who is not in it has left."""
    refs = [member.ref for member in members]
    names = [clean(member.name)[:NAME_CHARS] for member in members]
    if members:
        await tx.execute(_PEOPLE, platform, refs, [member.is_bot for member in members])
        await tx.execute(_NAMES_OVER, platform, refs, names)
        await tx.execute(_NAMES_NEW, platform, refs, names)
        await tx.execute(_MEMBERS_NEW, community_id, platform, refs)
    if everyone:
        await tx.execute(_MEMBERS_LEFT, community_id, refs)


CHOICES = {"archive-me": "opted_out", "learn-me": "learn_me", "dm-memory": "dm_memory", "unprompted": "unprompted"}
"""What a person may choose, with its column; the first says the opposite of its column."""
_SAVE_CHOICES = """
update voidbot.people set opted_out = not $2::boolean, learn_me = $3, dm_memory = $4, unprompted = $5 where id = $1"""


async def load_choices(tx: Tx, person_id: PersonId) -> dict[str, bool]:
    """Return the person's choices: True where it is allowed."""
    row = await tx.fetchrow(
        "select not opted_out as archive_me, learn_me, dm_memory, unprompted from voidbot.people where id = $1",
        person_id,
    )
    if row is None:
        raise LookupError(f"no person {person_id}")
    return dict(zip(CHOICES, row.values(), strict=True))


async def agrees_to_dm(tx: Tx, room_id: RoomId) -> bool:
    """Return whether nobody who reads this direct room has declined that it is archived."""
    return not await tx.fetchval(
        "select exists (select 1 from voidbot.room_access_users u join voidbot.people p on p.id = u.person_id"
        " where u.room_id = $1 and (p.opted_out or not p.dm_memory))",
        room_id,
    )


async def save_choices(tx: Tx, person_id: PersonId, choices: Mapping[str, bool]) -> None:
    """Set all of the person's choices; True where it is allowed."""
    await tx.execute(_SAVE_CHOICES, person_id, *(choices[name] for name in CHOICES))


async def find_account(tx: Tx, person_id: PersonId) -> tuple[str, str]:
    """Return the person's platform and account there."""
    row = await tx.fetchrow("select platform, account_ref from voidbot.people where id = $1", person_id)
    if row is None:
        raise LookupError(f"no person {person_id}")
    return row["platform"], row["account_ref"]
