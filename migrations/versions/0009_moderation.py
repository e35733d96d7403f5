"""Moderation: rules, signals, cases with evidence, the ledger of sanctions, acts, appeals, raids, the classifier."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

WATCHING = """
alter table voidbot.communities
  add column watching boolean not null default true,
  add column moderation_dry boolean not null default false,
  add column max_acts integer not null default 10;
alter table voidbot.rooms add column watched boolean;
create table voidbot.review_window (
  room_id bigint not null references voidbot.rooms(id) on delete cascade,
  platform_ref text not null,
  revision bigint not null,
  archived_seq bigint not null,
  author_id bigint not null references voidbot.people(id) on delete cascade,
  sent_at timestamptz not null,
  reply_to_ref text,
  text text not null,
  expires_at timestamptz not null,
  primary key (room_id, platform_ref, revision));
create unique index review_window_seq_idx on voidbot.review_window (room_id, archived_seq);
create index review_window_expires_at_idx on voidbot.review_window (expires_at);
create index review_window_author_id_idx on voidbot.review_window (author_id)
"""
RULES = """
create table voidbot.mod_rules (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  rule_id text not null,
  version integer not null,
  body jsonb not null default '{}',
  set_by bigint references voidbot.people(id) on delete set null,
  set_at timestamptz not null default voidbot.now(),
  why text not null default '',
  constraint mod_rules_community_id_rule_id_version_key unique (community_id, rule_id, version));
create table voidbot.mod_signals (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  room_id bigint not null references voidbot.rooms(id) on delete cascade,
  person_id bigint not null references voidbot.people(id) on delete cascade,
  platform_ref text not null,
  revision bigint not null,
  rule_id text not null,
  rule_version integer not null,
  detector text not null,
  value double precision not null,
  threshold double precision not null,
  span_from integer,
  span_to integer,
  what text not null default '',
  hint boolean not null default false,
  case_id bigint,
  at timestamptz not null default voidbot.now(),
  constraint mod_signals_once_key unique (room_id, platform_ref, revision, rule_id, detector, what));
create index mod_signals_case_id_idx on voidbot.mod_signals (case_id);
create index mod_signals_at_idx on voidbot.mod_signals (at);
create index mod_signals_person_id_idx on voidbot.mod_signals (person_id)
"""
CASES = """
create table voidbot.cases (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  rule_id text not null,
  rule_version integer not null,
  level text not null,
  lane text not null,
  subject_id bigint references voidbot.people(id) on delete cascade,
  severity integer not null,
  status text not null default 'open',
  version integer not null default 1,
  about_staff boolean not null default false,
  dry_run boolean not null default false,
  step jsonb not null default '{}',
  strikes integer not null default 0,
  assigned_to bigint references voidbot.people(id) on delete set null,
  assigned_at timestamptz,
  created_at timestamptz not null default voidbot.now(),
  joins_until timestamptz not null default voidbot.now(),
  decision jsonb,
  decision_reason text not null default '',
  decided_by bigint references voidbot.people(id) on delete set null,
  decided_at timestamptz,
  outcome text not null default '',
  closed_at timestamptz,
  card_id bigint references voidbot.outbox(id) on delete set null,
  hold_reason text not null default '');
create index cases_community_id_status_severity_id_idx on voidbot.cases (community_id, status, severity, id);
create index cases_subject_id_rule_id_joins_until_idx on voidbot.cases (subject_id, rule_id, joins_until);
create table voidbot.case_evidence (
  id bigint generated always as identity primary key,
  case_id bigint not null references voidbot.cases(id) on delete cascade,
  room_id bigint not null references voidbot.rooms(id) on delete cascade,
  platform_ref text not null,
  revision bigint not null,
  author_id bigint not null references voidbot.people(id) on delete cascade,
  sent_at timestamptz not null,
  text text,
  text_sha256 bytea not null,
  withheld boolean not null default false,
  files jsonb not null default '[]',
  note text not null default '',
  quote text not null default '',
  run_id bigint,
  at timestamptz not null default voidbot.now(),
  constraint case_evidence_case_id_room_id_platform_ref_revision_key unique (case_id, room_id, platform_ref, revision));
create index case_evidence_author_id_idx on voidbot.case_evidence (author_id);
create index case_evidence_room_id_platform_ref_idx on voidbot.case_evidence (room_id, platform_ref);
create table voidbot.case_events (
  id bigint generated always as identity primary key,
  case_id bigint not null references voidbot.cases(id) on delete cascade,
  at timestamptz not null default voidbot.now(),
  person_id bigint references voidbot.people(id) on delete set null,
  act text not null,
  details jsonb not null default '{}');
create index case_events_case_id_idx on voidbot.case_events (case_id);
create table voidbot.case_reports (
  id bigint generated always as identity primary key,
  case_id bigint not null references voidbot.cases(id) on delete cascade,
  reporter_id bigint not null references voidbot.people(id) on delete cascade,
  text text not null default '',
  at timestamptz not null default voidbot.now(),
  constraint case_reports_case_id_reporter_id_key unique (case_id, reporter_id));
create index case_reports_reporter_id_at_idx on voidbot.case_reports (reporter_id, at)
"""
LEDGER = """
create table voidbot.mod_keys (
  community_id bigint primary key references voidbot.communities(id) on delete cascade,
  key bytea not null);
create table voidbot.sanctions (
  id bigint generated always as identity primary key,
  community_id bigint not null,
  subject text not null,
  kind text not null,
  rule_id text not null,
  rule_version integer not null,
  category text not null,
  case_id bigint,
  proposer text not null,
  approver text not null,
  evidence_hash bytea not null,
  created_at timestamptz not null default voidbot.now(),
  effective_at timestamptz not null default voidbot.now(),
  expires_at timestamptz,
  dry_run boolean not null default false,
  origin text not null,
  dedupe text not null,
  constraint sanctions_dedupe_key unique (dedupe));
create index sanctions_subject_idx on voidbot.sanctions (community_id, subject, rule_id, id);
create index sanctions_case_id_idx on voidbot.sanctions (case_id);
create index sanctions_expires_at_idx on voidbot.sanctions (expires_at);
create table voidbot.sanction_subjects (
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  subject text not null,
  person_id bigint not null references voidbot.people(id) on delete cascade,
  primary key (community_id, subject));
create index sanction_subjects_person_id_idx on voidbot.sanction_subjects (person_id);
create table voidbot.sanction_texts (
  sanction_id bigint primary key references voidbot.sanctions(id) on delete cascade,
  reason_member text not null default '',
  reason_staff text not null default '',
  platform_reason text not null default '');
create table voidbot.sanction_reversals (
  sanction_id bigint primary key references voidbot.sanctions(id) on delete cascade,
  by_person bigint references voidbot.people(id) on delete set null,
  reason text not null default '',
  at timestamptz not null default voidbot.now(),
  appeal_id bigint);
create table voidbot.appeals (
  id bigint generated always as identity primary key,
  sanction_id bigint not null references voidbot.sanctions(id) on delete cascade,
  person_id bigint not null references voidbot.people(id) on delete cascade,
  text text not null,
  at timestamptz not null default voidbot.now(),
  decided_by bigint references voidbot.people(id) on delete set null,
  decided_at timestamptz,
  granted boolean,
  reason text not null default '',
  constraint appeals_sanction_id_key unique (sanction_id));
create index appeals_person_id_idx on voidbot.appeals (person_id)
"""
# The ledger takes rows and gives none back: what is over or erased leaves through one function of its own.
GUARD = """
create function voidbot.guard_ledger() returns trigger language plpgsql as $$
begin
  if current_setting('voidbot.ledger', true) is distinct from 'clearing' then
    raise exception 'ledger: rows of sanctions are never changed; a reversal is a row of its own';
  end if;
  return coalesce(old, new);
end $$"""
GUARDED = """
create trigger sanctions_guard before update or delete on voidbot.sanctions
  for each row execute function voidbot.guard_ledger()"""
CLEAR = """
create function voidbot.clear_sanctions(ids bigint[]) returns bigint language plpgsql as $$
declare gone bigint;
begin
  perform set_config('voidbot.ledger', 'clearing', true);
  delete from voidbot.sanctions where id = any(ids);
  get diagnostics gone = row_count;
  perform set_config('voidbot.ledger', '', true);
  return gone;
end $$"""
ACTS = """
create table voidbot.acts (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  sanction_id bigint,
  case_id bigint,
  kind text not null,
  front_end text not null,
  room_id bigint not null references voidbot.rooms(id) on delete cascade,
  person_id bigint references voidbot.people(id) on delete cascade,
  by_channel boolean not null default false,
  message_ref text not null default '',
  until timestamptz,
  setting integer not null default 0,
  reason text not null default '',
  automatic boolean not null default false,
  dedupe text not null,
  state text not null default 'ready',
  answer text not null default '',
  created_at timestamptz not null default voidbot.now(),
  done_at timestamptz,
  constraint acts_dedupe_key unique (dedupe));
create index acts_sanction_id_idx on voidbot.acts (sanction_id);
create index acts_case_id_idx on voidbot.acts (case_id);
create index acts_person_id_done_at_idx on voidbot.acts (person_id, done_at);
create index acts_community_id_automatic_created_at_idx on voidbot.acts (community_id, automatic, created_at);
create table voidbot.native_acts (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  event_ref text not null,
  kind text not null,
  person_id bigint references voidbot.people(id) on delete cascade,
  by_ref text not null default '',
  by_bot boolean not null default false,
  room_id bigint references voidbot.rooms(id) on delete cascade,
  message_ref text not null default '',
  rule_name text not null default '',
  at timestamptz not null,
  constraint native_acts_community_id_event_ref_key unique (community_id, event_ref));
create index native_acts_person_id_at_idx on voidbot.native_acts (person_id, at);
create table voidbot.raids (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  case_id bigint references voidbot.cases(id) on delete set null,
  state text not null default 'proposed',
  accounts text[] not null default '{}',
  former jsonb not null default '{}',
  created_at timestamptz not null default voidbot.now(),
  until timestamptz not null,
  ended_at timestamptz);
create unique index raids_open_idx on voidbot.raids (community_id) where ended_at is null
"""
CLASSIFIER = """
create table voidbot.spam_examples (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  text text not null,
  spam boolean not null,
  author_id bigint references voidbot.people(id) on delete cascade,
  taught_by bigint references voidbot.people(id) on delete set null,
  at timestamptz not null default voidbot.now());
create index spam_examples_community_id_id_idx on voidbot.spam_examples (community_id, id);
create index spam_examples_author_id_idx on voidbot.spam_examples (author_id);
create table voidbot.spam_models (
  community_id bigint not null references voidbot.communities(id) on delete cascade,
  version integer not null,
  body bytea not null,
  sha256 bytea not null,
  figures jsonb not null default '{}',
  made_at timestamptz not null default voidbot.now(),
  primary key (community_id, version))
"""
TABLES = (
    "spam_models", "spam_examples", "raids", "native_acts", "acts", "appeals", "sanction_reversals", "sanction_texts",
    "sanction_subjects", "sanctions", "mod_keys", "case_reports", "case_events", "case_evidence", "cases", "mod_signals",
    "mod_rules", "review_window",
)  # fmt: skip


def upgrade() -> None:
    for statements in (WATCHING, RULES, CASES, LEDGER, ACTS, CLASSIFIER):
        for statement in statements.split(";\n"):
            op.execute(statement)
    for statement in (GUARD, GUARDED, CLEAR):
        op.execute(statement)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"drop table voidbot.{table}")
    op.execute("drop function voidbot.clear_sanctions(bigint[])")
    op.execute("drop function voidbot.guard_ledger()")
    op.execute("alter table voidbot.rooms drop column watched")
    op.execute("alter table voidbot.communities drop column max_acts, drop column moderation_dry, drop column watching")
