"""The mind: entries of the private self, and the journal of every operation on them."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

MINDS = """
create table voidbot.minds (
  id text primary key,
  version bigint not null default 0,
  last_seq bigint not null default 0,
  state_hash bytea not null default '\\x00',
  paused boolean not null default false
)
"""
ENTRIES = """
create table voidbot.state_entries (
  mind_id text not null references voidbot.minds (id) on delete cascade,
  kind text not null,
  entry_id text not null,
  type text not null,
  version integer not null,
  body jsonb not null,
  sources bigint[] not null default '{}',
  people bigint[] not null default '{}',
  cites text[] not null default '{}',
  created_at timestamptz not null default voidbot.now(),
  updated_at timestamptz not null default voidbot.now(),
  retired_at timestamptz,
  retired_reason text,
  superseded_by text,
  entry_hash bytea not null,
  last_seq bigint not null,
  about text generated always as (coalesce(
    lower((body #>> '{target,kind}') || ':' || (body #>> '{target,id}')), 'room:' || (body ->> 'roomId'))) stored,
  brief jsonb generated always as (body - '{summary,claim,question,tension,actionImplication,anchorRefs,evidenceRefs,
    tags,revisions,draft,text,preview,deliveryRef,candidate,sources,sourceMemoryIds,supportMemoryIds}'::text[]) stored,
  words tsvector generated always as (
    case when retired_at is null and type in ('durable', 'short_term', 'thread') then
      to_tsvector('english'::regconfig, coalesce(body ->> 'summary', '') || ' ' || coalesce(body ->> 'claim', '')
        || ' ' || coalesce(body ->> 'question', '') || ' ' || coalesce(body ->> 'tension', '')
        || ' ' || coalesce(body ->> 'topic', '') || ' ' || coalesce(body #>> '{target,label}', '')) end) stored,
  primary key (mind_id, kind, entry_id),
  constraint state_entries_version_check check (version >= 1),
  constraint state_entries_retired_check check ((retired_at is null) = (retired_reason is null))
);
create index state_entries_live_idx on voidbot.state_entries (mind_id, type, updated_at) where retired_at is null;
create index state_entries_about_idx on voidbot.state_entries (mind_id, about, updated_at) where retired_at is null;
create index state_entries_words_idx on voidbot.state_entries using gin (words) with (fastupdate = off);
create index state_entries_people_idx on voidbot.state_entries using gin (people) with (fastupdate = off);
create index state_entries_cites_idx on voidbot.state_entries using gin (cites) with (fastupdate = off)
"""
JOURNAL = """
create table voidbot.state_operations (
  mind_id text not null references voidbot.minds (id) on delete cascade,
  seq bigint not null,
  op text not null,
  payload jsonb not null,
  facts jsonb not null,
  actor_kind text not null,
  actor_ref text not null default '',
  run_id bigint,
  job_id bigint,
  idempotency_key text not null,
  payload_hash bytea not null,
  verdict text not null,
  code text not null default '',
  path text not null default '',
  effect text not null default '',
  touched jsonb not null default '[]',
  touches text[] not null default '{}',
  cites text[] not null default '{}',
  delta bytea not null,
  at timestamptz not null default voidbot.now(),
  undone_by bigint,
  redacted_by bigint,
  primary key (mind_id, seq),
  constraint state_operations_mind_id_idempotency_key_key unique (mind_id, idempotency_key)
);
create index state_operations_touches_idx on voidbot.state_operations using gin (touches) with (fastupdate = off);
create index state_operations_cites_idx on voidbot.state_operations using gin (cites) with (fastupdate = off)
"""
# Only an undo's mark and an erasure's redaction change a row of the journal, and nothing takes one away.
GUARD = """
create function voidbot.keep_journal() returns trigger language plpgsql as $$
begin
  if current_setting('voidbot.journal', true) is distinct from 'open' then
    raise exception 'the journal of a mind is only added to';
  end if;
  return coalesce(new, old);
end $$;
create trigger keep_journal before update or delete on voidbot.state_operations
  for each row execute function voidbot.keep_journal()
"""


def upgrade() -> None:
    for statements in (MINDS, ENTRIES, JOURNAL):
        for statement in statements.split(";\n"):
            op.execute(statement)
    function, trigger = GUARD.split(";\ncreate trigger")
    op.execute(function)
    op.execute("create trigger" + trigger)


def downgrade() -> None:
    for table in ("state_operations", "state_entries", "minds"):
        op.execute(f"drop table voidbot.{table}")
    op.execute("drop function voidbot.keep_journal()")
