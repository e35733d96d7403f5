"""Rules that communities edited or made, switches of moderation, and signals. Only this module writes these tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.moderation.rule_file import read_rule
from core.domain.moderation.rules import Rule
from core.domain.moderation.signals import Signal, Watched
from core.store.engine import Row, Tx

_NEWEST = """
select distinct on (rule_id) rule_id, version, body, set_by, set_at from voidbot.mod_rules
where community_id = $1 order by rule_id, version desc"""
_ADD = """
insert into voidbot.mod_rules (community_id, rule_id, version, body, set_by, why)
values ($1, $2, $3, $4, $5, $6) on conflict do nothing"""
_VERSION = """
select rule_id, version, body, set_by, set_at from voidbot.mod_rules
where community_id = $1 and rule_id = $2 and version = $3"""
_SWITCHES = """
select watching, moderation_dry, max_acts, settings_version, language from voidbot.communities where id = $1"""
# A room without a word of its own follows the room that it hangs on, and that its community.
_WATCHED = """
select c.watching and r.kind <> 'dm' and coalesce(r.watched, p.watched, true)
from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
left join voidbot.rooms p on p.id = r.parent_id where r.id = $1"""
_LIST_WATCHED = """
select r.id from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
left join voidbot.rooms p on p.id = r.parent_id
where c.id = $1 and c.watching and c.state = 'active' and r.state = 'active' and r.kind <> 'dm'
  and coalesce(r.watched, p.watched, true) order by r.id"""
_SIGNAL = """
insert into voidbot.mod_signals (community_id, room_id, person_id, platform_ref, revision, rule_id, rule_version,
  detector, value, threshold, span_from, span_to, what, hint, case_id)
select $1, $2, $3, $4, $5, x.rule_id, x.rule_version, x.detector, x.value, x.threshold, x.span_from, x.span_to, x.what,
  x.hint, x.case_id
from jsonb_to_recordset($6::jsonb) x(rule_id text, rule_version int, detector text, value float8, threshold float8,
  span_from int, span_to int, what text, hint boolean, case_id bigint)
on conflict on constraint mod_signals_once_key do nothing"""
_SIGNALS_OF = "select * from voidbot.mod_signals where case_id = $1 order by id"
_FORGET = """
delete from voidbot.mod_signals where id in (
    select id from voidbot.mod_signals where case_id is null and at < voidbot.now() - interval '7 days' limit $1)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """How a community has moderation. `watching`: at all. `dry`: nothing is done, whatever a level says.

    `max_acts`: how much may be done in an hour without a person.
    """

    watching: bool
    dry: bool
    max_acts: int
    settings_version: int
    language: str


async def load_switches(tx: Tx, community_id: CommunityId) -> Switches:
    """Return how a community has moderation."""
    row = await tx.fetchrow(_SWITCHES, community_id)
    if row is None:
        raise LookupError(f"no community {community_id}")
    return Switches(
        watching=row["watching"],
        dry=row["moderation_dry"],
        max_acts=row["max_acts"],
        settings_version=row["settings_version"],
        language=row["language"],
    )


async def save_switches(tx: Tx, community_id: CommunityId, switches: Switches) -> None:
    """Set them, and count the community's settings version up."""
    await tx.execute(
        "update voidbot.communities set watching = $2, moderation_dry = $3, max_acts = $4,"
        " settings_version = settings_version + 1 where id = $1",
        community_id,
        switches.watching,
        switches.dry,
        switches.max_acts,
    )


async def save_watched(tx: Tx, room_id: RoomId, watched: bool | None) -> None:
    """Watch a room or not; None: as the room that it hangs on, or its community."""
    await tx.execute("update voidbot.rooms set watched = $2 where id = $1", room_id, watched)


async def is_watched(tx: Tx, room_id: RoomId) -> bool:
    """Return whether a room is watched."""
    return bool(await tx.fetchval(_WATCHED, room_id))


async def list_watched(tx: Tx, community_id: CommunityId) -> list[RoomId]:
    """Return the open rooms of a community that are watched."""
    return [RoomId(row["id"]) for row in await tx.fetch(_LIST_WATCHED, community_id)]


def _rule(row: Row) -> Rule:
    rule = read_rule(row["body"]).rule(row["version"])
    return replace(rule, acts_by=row["set_by"], acts_since=row["set_at"])


async def list_own(tx: Tx, community_id: CommunityId) -> list[Rule]:
    """Return the newest versions of the rules that a community edited or made."""
    return [_rule(row) for row in await tx.fetch(_NEWEST, community_id)]


async def find_version(tx: Tx, community_id: CommunityId, rule_id: str, version: int) -> Rule | None:
    """Return one version of a rule; None if it is one of the defaults, or none."""
    row = await tx.fetchrow(_VERSION, community_id, rule_id, version)
    return None if row is None else _rule(row)


async def add_version(
    tx: Tx, community_id: CommunityId, rule: Rule, body: Mapping[str, Any], set_by: PersonId | None, why: str
) -> bool:
    """Keep the next version of a rule, and count the settings version up; False if somebody else was faster."""
    added = await tx.execute(_ADD, community_id, rule.id, rule.version, dict(body), set_by, why)
    if added:
        await tx.execute(
            "update voidbot.communities set settings_version = settings_version + 1 where id = $1", community_id
        )
    return bool(added)


async def add_signals(tx: Tx, message: Watched, signals: Sequence[tuple[Signal, int | None]]) -> int:
    """Keep signals, each with its case, where it has one; return how many are new."""
    rows = [
        {
            "rule_id": signal.rule_id,
            "rule_version": signal.rule_version,
            "detector": signal.finding.detector,
            "value": signal.finding.value,
            "threshold": signal.finding.threshold,
            "span_from": signal.finding.span[0] if signal.finding.span else None,
            "span_to": signal.finding.span[1] if signal.finding.span else None,
            "what": signal.finding.what,
            "hint": signal.finding.hint,
            "case_id": case_id,
        }
        for signal, case_id in signals
    ]
    return await tx.execute(
        _SIGNAL, message.community_id, message.room_id, message.person_id, message.ref, message.revision, rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSignal:
    """A signal as it is kept beside a case."""

    ref: str
    revision: int
    rule_id: str
    detector: str
    value: float
    threshold: float
    span: tuple[int, int] | None
    what: str
    hint: bool
    at: datetime


def _kept(row: Row) -> KeptSignal:
    return KeptSignal(
        ref=row["platform_ref"],
        revision=row["revision"],
        rule_id=row["rule_id"],
        detector=row["detector"],
        value=row["value"],
        threshold=row["threshold"],
        span=None if row["span_from"] is None else (row["span_from"], row["span_to"]),
        what=row["what"],
        hint=row["hint"],
        at=row["at"],
    )


async def list_signals(tx: Tx, case_id: int) -> list[KeptSignal]:
    """Return the signals of a case, oldest first."""
    return [_kept(row) for row in await tx.fetch(_SIGNALS_OF, case_id)]


_SIGNALS_ON = """
select * from voidbot.mod_signals where room_id = $1 and (platform_ref, revision) in (
    select * from unnest($2::text[], $3::bigint[])) order by id"""


async def list_signals_on(tx: Tx, room_id: RoomId, revisions: Sequence[tuple[str, int]]) -> list[KeptSignal]:
    """Return the signals on revisions of messages of a room, oldest first."""
    refs, numbers = [ref for ref, _ in revisions], [revision for _, revision in revisions]
    return [_kept(row) for row in await tx.fetch(_SIGNALS_ON, room_id, refs, numbers)]


async def forget_signals(tx: Tx, batch: int = 1000) -> int:
    """Delete signals without a case after a week, some at a time; return how many."""
    return await tx.execute(_FORGET, batch)
