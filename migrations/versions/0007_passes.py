"""Unattended work: runs of passes with their phases, what they saved, and what holds them back."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

RUNS = """
create table voidbot.pass_runs (
  id bigint generated always as identity primary key,
  mind_id text not null,
  pass text not null,
  group_key text not null,
  slot_key text not null,
  slot timestamptz not null,
  origin text not null,
  mode text not null default 'normal',
  state text not null default 'ready',
  phase text not null default 'gate',
  n integer not null default 1,
  attempt integer not null default 1,
  asks integer not null default 0,
  reason text not null default '',
  role_hash text not null default '',
  created_at timestamptz not null default voidbot.now(),
  started_at timestamptz,
  finished_at timestamptz,
  constraint pass_runs_slot_key_key unique (slot_key)
);
create unique index pass_runs_active_idx on voidbot.pass_runs (mind_id, pass, group_key)
  where state in ('ready', 'running', 'waiting');
create index pass_runs_newest_idx on voidbot.pass_runs (mind_id, pass, group_key, id)
"""
# The last slot of each is kept beside the runs, which are deleted in time.
SLOTS = """
create table voidbot.pass_slots (
  mind_id text not null,
  pass text not null,
  group_key text not null,
  slot timestamptz not null,
  label text not null,
  primary key (mind_id, pass, group_key)
)
"""
PHASES = """
create table voidbot.pass_phases (
  run_id bigint not null references voidbot.pass_runs (id) on delete cascade,
  n integer not null,
  phase text not null,
  attempt integer not null,
  outcome text not null,
  code text not null default '',
  counts jsonb not null default '{}',
  model text not null default '',
  tokens_in bigint not null default 0,
  tokens_out bigint not null default 0,
  usd_micro bigint not null default 0,
  prompt_hash text not null default '',
  started_at timestamptz,
  finished_at timestamptz not null default voidbot.now(),
  primary key (run_id, n)
)
"""
ARTIFACTS = """
create table voidbot.pass_artifacts (
  run_id bigint not null references voidbot.pass_runs (id) on delete cascade,
  name text not null,
  body jsonb not null,
  people bigint[] not null default '{}',
  messages bigint[] not null default '{}',
  expires_at timestamptz not null,
  primary key (run_id, name)
);
create index pass_artifacts_people_idx on voidbot.pass_artifacts using gin (people) with (fastupdate = off);
create index pass_artifacts_messages_idx on voidbot.pass_artifacts using gin (messages) with (fastupdate = off)
"""
WINDOWS = """
create table voidbot.pass_windows (
  consumer text not null,
  room_id bigint not null references voidbot.rooms (id) on delete cascade,
  first_id bigint not null,
  attempts integer not null default 0,
  size integer not null,
  primary key (consumer, room_id)
)
"""
CONTROLS = """
create table voidbot.pass_controls (
  mind_id text not null,
  pass text not null,
  paused boolean not null,
  until timestamptz,
  reason text not null default '',
  set_at timestamptz not null default voidbot.now(),
  primary key (mind_id, pass)
)
"""


def upgrade() -> None:
    for statements in (RUNS, SLOTS, PHASES, ARTIFACTS, WINDOWS, CONTROLS):
        for statement in statements.split(";\n"):
            op.execute(statement)


def downgrade() -> None:
    for table in ("controls", "windows", "artifacts", "phases", "slots", "runs"):
        op.execute(f"drop table voidbot.pass_{table}")
