"""Runs of passes in Postgres: slots claimed once, phases, what they saved, and what is paused."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from core.domain.audience import community_of
from core.domain.ids import CommunityId, MessageId, PersonId
from core.domain.passes import (
    WHOLE_MIND,
    Origin,
    PassName,
    Phase,
    PhaseResult,
    Run,
    RunMode,
    RunState,
    Step,
    code_of,
    counts_of,
    outcome_of,
)
from core.store.engine import Row, Tx

KEEP_ARTIFACTS = timedelta(days=14)
KEEP_RUNS = timedelta(days=90)
EVERY = ""
"""The pass of a control that holds all of them."""

_COLUMNS = """id, mind_id, pass, group_key, slot_key, slot, origin, mode, state, phase, n, attempt, asks, reason,
  created_at, finished_at"""
_MINDS = """
select mind_id, min(id) as home, (array_agg(timezone order by id))[1] as zone
from voidbot.communities where state = 'active' group by mind_id order by mind_id"""
_PLACE = """
select id as home, timezone as zone from voidbot.communities where state = 'active' and mind_id = $1
order by id is distinct from $2, id limit 1"""
_SLOTS = "select mind_id, pass, group_key, slot, label from voidbot.pass_slots"
# A slot is claimed by whoever inserts its row; one that comes while a run is on is a row that says so.
_CLAIM = f"""
insert into voidbot.pass_runs (mind_id, pass, group_key, slot_key, slot, origin, mode, state, reason, finished_at)
select x.mind_id, x.pass, x.group_key, x.slot_key, x.slot, x.origin, x.mode,
  case when x.reason <> '' then 'skipped' when a.id is not null then 'skipped' else 'ready' end,
  case when x.reason <> '' then x.reason when a.id is not null then 'still_running' else '' end,
  case when x.reason <> '' or a.id is not null then voidbot.now() end
from jsonb_to_recordset($1::jsonb) x(mind_id text, pass text, group_key text, slot_key text, slot timestamptz,
  origin text, mode text, reason text)
left join voidbot.pass_runs a on a.mind_id = x.mind_id and a.pass = x.pass and a.group_key = x.group_key
  and a.state in ('ready', 'running', 'waiting')
order by x.mind_id, x.pass, x.group_key, x.slot
on conflict do nothing returning {_COLUMNS}"""
_REMEMBER = """
insert into voidbot.pass_slots (mind_id, pass, group_key, slot, label)
select distinct on (x.mind_id, x.pass, x.group_key) x.mind_id, x.pass, x.group_key, x.slot, x.label
from jsonb_to_recordset($1::jsonb) x(mind_id text, pass text, group_key text, slot timestamptz, label text)
order by x.mind_id, x.pass, x.group_key, x.slot desc
on conflict (mind_id, pass, group_key) do update set slot = excluded.slot, label = excluded.label
where voidbot.pass_slots.slot < excluded.slot"""
_BEGIN = f"""
update voidbot.pass_runs set state = 'running', started_at = coalesce(started_at, voidbot.now())
where id = $1 and n = $2 and state in ('ready', 'running', 'waiting') returning {_COLUMNS}"""
_CLOSE = """
update voidbot.pass_runs set state = $2, phase = $3, n = n + 1, attempt = $4, reason = $5, asks = asks + $6,
  finished_at = case when $2 in ('ready', 'running', 'waiting') then null else voidbot.now() end
where id = $1"""
_GIVE_UP = """
update voidbot.pass_runs set state = 'failed', reason = $2, finished_at = voidbot.now()
where id = $1 and state in ('ready', 'running', 'waiting')"""
_PHASE = """
insert into voidbot.pass_phases (run_id, n, phase, attempt, outcome, code, counts, model, tokens_in, tokens_out,
  usd_micro, prompt_hash, started_at)
values ($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9, $10, $11, $12, $13)"""
_PUT = """
insert into voidbot.pass_artifacts (run_id, name, body, people, messages, expires_at)
values ($1, $2, $3::jsonb, $4, $5, voidbot.now() + $6)
on conflict (run_id, name) do update set body = excluded.body, people = excluded.people, messages = excluded.messages"""
_GET = "select body from voidbot.pass_artifacts where run_id = $1 and name = $2"
_ONE = f"select {_COLUMNS} from voidbot.pass_runs where id = $1"
_NEWEST = f"""
select {_COLUMNS} from voidbot.pass_runs where ($1::text is null or mind_id = $1) and ($2::text is null or pass = $2)
  and ($3::text is null or group_key = $3) and ($4::bigint is null or id < $4) order by id desc limit $5"""
_PHASES = """
select n, phase, attempt, outcome, code, counts, model, tokens_in, tokens_out, usd_micro, started_at,
  finished_at from voidbot.pass_phases where run_id = $1 order by n"""
_CONTROLS = """
select pass, paused, until, reason, set_at from voidbot.pass_controls where mind_id = $1 order by pass"""
_PAUSE = """
insert into voidbot.pass_controls (mind_id, pass, paused, until, reason) values ($1, $2, true, $3, $4)
on conflict (mind_id, pass) do update set paused = true, until = excluded.until, reason = excluded.reason,
  set_at = voidbot.now()"""
_RESUME = "delete from voidbot.pass_controls where mind_id = $1 and pass = $2"
_WINDOW = """
select first_id, attempts, size from voidbot.pass_windows where consumer = $1 and room_id = $2"""
_SAVE_WINDOW = """
insert into voidbot.pass_windows (consumer, room_id, first_id, attempts, size) values ($1, $2, $3, $4, $5)
on conflict (consumer, room_id) do update set first_id = excluded.first_id, attempts = excluded.attempts,
  size = excluded.size"""
_NEWS = """
select w.room_id, (select count(*) from (select 1 from voidbot.messages m where m.room_id = w.room_id
    and m.archived_seq > coalesce((e.body->>'lastSeq')::bigint, 0) limit 1000) n) as news
from unnest($2::bigint[]) w(room_id) left join voidbot.state_entries e on e.mind_id = $1
  and e.kind = 'void.moderation_cursor' and e.entry_id = 'cursor:rumination:' || w.room_id"""
_FORGET_WINDOW = "delete from voidbot.pass_windows where consumer = $1 and room_id = any($2::bigint[])"


@dataclass(frozen=True, slots=True)
class MindPlace:
    """A mind that passes are run for, with a community of it, whose purse is drawn on, and that one's time zone."""

    mind_id: str
    home: CommunityId
    zone: str


@dataclass(frozen=True, slots=True)
class LastSlot:
    """The newest slot of a pass that was claimed for a group."""

    at: datetime
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A slot to be claimed. `skipped`: the reason of a row that only says that nothing will run."""

    mind_id: str
    name: PassName
    group: str
    slot_key: str
    slot: datetime
    label: str
    origin: Origin = Origin.SCHEDULED
    mode: RunMode = RunMode.NORMAL
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class PhaseUse:
    """What the model call of a phase cost."""

    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    usd_micro: int = 0
    prompt_hash: str = ""


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase as it went."""

    n: int
    phase: str
    attempt: int
    outcome: str
    code: str
    counts: Mapping[str, int]
    use: PhaseUse
    started_at: datetime | None
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Control:
    """Something that holds a pass back. `name` empty: all of them."""

    name: str
    paused: bool
    until: datetime | None
    reason: str
    set_at: datetime

    def holds(self, now: datetime) -> bool:
        """Return whether it holds back now."""
        return self.paused and (self.until is None or self.until > now)


@dataclass(frozen=True, slots=True)
class WindowTry:
    """A window of messages that failed: from which message on, how often, and how many are read at once now."""

    first_id: MessageId
    attempts: int
    size: int


NO_USE = PhaseUse()


async def list_minds(tx: Tx) -> list[MindPlace]:
    """Return every mind with an active community."""
    return [MindPlace(row["mind_id"], CommunityId(row["home"]), row["zone"]) for row in await tx.fetch(_MINDS)]


async def find_place(tx: Tx, mind_id: str, group: str = WHOLE_MIND) -> MindPlace | None:
    """Return the community of a group of a mind, of the whole mind the first one; None if there is none any more."""
    row = await tx.fetchrow(_PLACE, mind_id, community_of(group))
    return None if row is None else MindPlace(mind_id, CommunityId(row["home"]), row["zone"])


async def load_slots(tx: Tx) -> dict[tuple[str, str, str], LastSlot]:
    """Return the newest slot of every mind, pass and group."""
    return {
        (row["mind_id"], row["pass"], row["group_key"]): LastSlot(row["slot"], row["label"])
        for row in await tx.fetch(_SLOTS)
    }


async def claim(tx: Tx, runs: Sequence[NewRun]) -> list[Run]:
    """Claim slots; return the runs that are to be queued. What somebody else has claimed is not among them."""
    if not runs:
        return []
    rows = [
        {
            "mind_id": run.mind_id,
            "pass": run.name.value,
            "group_key": run.group,
            "slot_key": run.slot_key,
            "slot": run.slot.isoformat(),
            "label": run.label,
            "origin": run.origin.value,
            "mode": run.mode.value,
            "reason": run.skipped,
        }
        for run in runs
    ]
    claimed = [_run_of(row) for row in await tx.fetch(_CLAIM, rows)]
    if timed := [row for row in rows if row["origin"] in (Origin.SCHEDULED, Origin.CATCH_UP)]:
        await tx.execute(_REMEMBER, timed)
    return [run for run in claimed if run.state is RunState.READY]


async def take(tx: Tx, run_id: int, n: int) -> Run | None:
    """Hold a run at its phase `n`; None if it is over or further than that."""
    row = await tx.fetchrow(_BEGIN, run_id, n)
    return None if row is None else _run_of(row)


async def close(
    tx: Tx, run: Run, step: Step, result: PhaseResult, *, use: PhaseUse = NO_USE, asked: int = 0,
    started_at: datetime | None = None,
) -> None:  # fmt: skip
    """Write down how a phase went and where the run stands after it."""
    counts = {name: count for name, count in counts_of(result).items() if count}
    await tx.execute(
        _PHASE, run.id, run.n, run.phase.value, run.attempt, outcome_of(result), code_of(result), counts,
        use.model, use.tokens_in, use.tokens_out, use.usd_micro, use.prompt_hash, started_at,
    )  # fmt: skip
    await tx.execute(_CLOSE, run.id, step.state.value, step.phase.value, step.attempt, step.reason, asked)


async def give_up(tx: Tx, run_id: int, reason: str) -> None:
    """End a run whose job came to nothing; one that is over stays as it is."""
    await tx.execute(_GIVE_UP, run_id, reason)


async def put(
    tx: Tx,
    run_id: int,
    name: str,
    body: Mapping[str, object],
    *,
    people: Iterable[PersonId] = (),
    messages: Iterable[MessageId] = (),
) -> None:
    """Keep something that a phase found, for the next ones and for 14 days. `people`: whose words it has."""
    await tx.execute(_PUT, run_id, name, dict(body), sorted(people), sorted(messages), KEEP_ARTIFACTS)


async def get(tx: Tx, run_id: int, name: str) -> dict[str, Any] | None:
    """Return what a phase kept; None if it is not there, or was erased."""
    value = await tx.fetchval(_GET, run_id, name)
    return None if value is None else dict(value)


async def find(tx: Tx, run_id: int) -> Run | None:
    """Return one run."""
    row = await tx.fetchrow(_ONE, run_id)
    return None if row is None else _run_of(row)


async def list_runs(
    tx: Tx,
    *,
    mind_id: str | None = None,
    name: PassName | None = None,
    group: str | None = None,
    before: int | None = None,
    limit: int = 20,
) -> list[Run]:
    """Return runs, newest first."""
    rows = await tx.fetch(_NEWEST, mind_id, None if name is None else name.value, group, before, limit)
    return [_run_of(row) for row in rows]


async def list_phases(tx: Tx, run_id: int) -> list[PhaseRow]:
    """Return how each phase of a run went, in order."""
    return [
        PhaseRow(
            row["n"], row["phase"], row["attempt"], row["outcome"], row["code"], row["counts"],
            PhaseUse(row["model"], row["tokens_in"], row["tokens_out"], row["usd_micro"]),
            row["started_at"], row["finished_at"],
        )
        for row in await tx.fetch(_PHASES, run_id)
    ]  # fmt: skip


async def list_controls(tx: Tx, mind_id: str) -> list[Control]:
    """Return what holds the passes of a mind back."""
    return [
        Control(row["pass"], row["paused"], row["until"], row["reason"], row["set_at"])
        for row in await tx.fetch(_CONTROLS, mind_id)
    ]


async def pause(tx: Tx, mind_id: str, name: PassName | None, until: datetime | None, reason: str) -> None:
    """Hold a pass of a mind back, or with None all of them."""
    await tx.execute(_PAUSE, mind_id, EVERY if name is None else name.value, until, reason)


async def resume(tx: Tx, mind_id: str, name: PassName | None) -> bool:
    """Let it run again; return whether it was held back."""
    return bool(await tx.execute(_RESUME, mind_id, EVERY if name is None else name.value))


async def count_news(tx: Tx, mind_id: str, rooms: Iterable[int]) -> dict[int, int]:
    """Return how many messages of each room were not thought over yet, counted up to 1,000."""
    return {row["room_id"]: row["news"] for row in await tx.fetch(_NEWS, mind_id, sorted(rooms))}


async def find_window(tx: Tx, consumer: str, room_id: int) -> WindowTry | None:
    """Return the window of a room that failed; None if the last one went well."""
    row = await tx.fetchrow(_WINDOW, consumer, room_id)
    return None if row is None else WindowTry(MessageId(row["first_id"]), row["attempts"], row["size"])


async def save_window(tx: Tx, consumer: str, room_id: int, window: WindowTry) -> None:
    """Note that a window failed."""
    await tx.execute(_SAVE_WINDOW, consumer, room_id, window.first_id, window.attempts, window.size)


async def forget_windows(tx: Tx, consumer: str, rooms: Iterable[int]) -> None:
    """Note that the windows of these rooms went well."""
    await tx.execute(_FORGET_WINDOW, consumer, sorted(rooms))


def _run_of(row: Row) -> Run:
    return Run(
        id=row["id"],
        mind_id=row["mind_id"],
        name=PassName(row["pass"]),
        group=row["group_key"],
        slot_key=row["slot_key"],
        slot=row["slot"],
        origin=Origin(row["origin"]),
        mode=RunMode(row["mode"]),
        state=RunState(row["state"]),
        phase=Phase(row["phase"]),
        n=row["n"],
        attempt=row["attempt"],
        asks=row["asks"],
        reason=row["reason"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )
