"""People's facts, links, choices and exports; erasures with their ledger; plans of destructive acts."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

CHOICES = """
alter table voidbot.people
  add column learn_me boolean not null default true,
  add column dm_memory boolean not null default true,
  add column unprompted boolean not null default true,
  add column erasing boolean not null default false;
alter table voidbot.communities add column left_at timestamptz;
update voidbot.communities set left_at = voidbot.now() where state = 'gone'
"""
PROFILE = """
create table voidbot.profile_facts (
  id bigint generated always as identity primary key,
  person_id bigint not null references voidbot.people (id) on delete cascade,
  predicate text not null,
  value text not null,
  said_by text not null,
  state text not null default 'current',
  confirmed boolean not null default false,
  sources bigint[] not null,
  stated_at timestamptz not null default voidbot.now(),
  ended_at timestamptz,
  constraint profile_facts_sources_check check (cardinality(sources) > 0)
);
create index profile_facts_person_id_predicate_idx on voidbot.profile_facts (person_id, predicate);
create table voidbot.fact_anchors (
  fact_id bigint not null references voidbot.profile_facts (id) on delete cascade,
  message_id bigint not null references voidbot.messages (id) on delete cascade,
  span_from integer not null,
  span_to integer not null,
  revision integer not null,
  account_id bigint not null references voidbot.people (id) on delete cascade,
  primary key (fact_id, message_id, span_from)
);
create index fact_anchors_message_id_idx on voidbot.fact_anchors (message_id);
create index fact_anchors_account_id_idx on voidbot.fact_anchors (account_id);
create table voidbot.person_links (
  id bigint generated always as identity primary key,
  one_id bigint not null references voidbot.people (id) on delete cascade,
  other_id bigint not null references voidbot.people (id) on delete cascade,
  linked_at timestamptz not null default voidbot.now(),
  ended_at timestamptz
);
create unique index person_links_open_key on voidbot.person_links (one_id, other_id) where ended_at is null;
create index person_links_other_id_idx on voidbot.person_links (other_id);
create table voidbot.link_codes (
  code_hash text primary key,
  kind text not null,
  person_id bigint not null references voidbot.people (id) on delete cascade,
  other_id bigint references voidbot.people (id) on delete cascade,
  room_id bigint not null references voidbot.rooms (id) on delete cascade,
  front_end text not null,
  expires_at timestamptz not null default voidbot.now()
);
create index link_codes_person_id_idx on voidbot.link_codes (person_id);
create table voidbot.plans (
  id text primary key,
  person_id bigint not null references voidbot.people (id) on delete cascade,
  community_id bigint not null references voidbot.communities (id) on delete cascade,
  act text not null,
  arguments jsonb not null default '{}',
  state text not null default '',
  expires_at timestamptz not null default voidbot.now()
);
create index plans_person_id_idx on voidbot.plans (person_id);
create table voidbot.exports (
  id bigint generated always as identity primary key,
  person_id bigint not null references voidbot.people (id) on delete cascade,
  room_id bigint not null references voidbot.rooms (id) on delete cascade,
  front_end text not null,
  file_name text not null default '',
  state text not null default 'queued',
  counts jsonb not null default '{}',
  asked_at timestamptz not null default voidbot.now(),
  expires_at timestamptz
);
create index exports_person_id_idx on voidbot.exports (person_id)
"""
# The ledger outlives what it speaks of, and is exported beside backups: keyed hashes, ids and counts alone.
ERASURES = """
create table voidbot.erasure_ledger (
  id bigint generated always as identity primary key,
  key_id text not null,
  key_hash text not null default '',
  scope jsonb not null default '{}',
  until_at timestamptz not null default voidbot.now(),
  counts jsonb not null default '{}',
  proof_hash text not null default '',
  at timestamptz not null default voidbot.now()
);
create index erasure_ledger_key_hash_idx on voidbot.erasure_ledger (key_hash);
create table voidbot.erasures (
  ledger_id bigint primary key references voidbot.erasure_ledger (id) on delete cascade,
  person_id bigint,
  community_id bigint not null default 0,
  room_id bigint,
  front_end text not null default '',
  trace text not null default '',
  scope jsonb not null default '{}',
  step text not null,
  state text not null default 'running',
  counts jsonb not null default '{}',
  places jsonb not null default '[]',
  outbox_id bigint,
  asked_at timestamptz not null default voidbot.now(),
  until_at timestamptz not null default voidbot.now(),
  told_at timestamptz,
  ended_at timestamptz
);
create index erasures_running_idx on voidbot.erasures (person_id) where state = 'running';
create table voidbot.erasure_needles (
  id bigint generated always as identity primary key,
  ledger_id bigint not null references voidbot.erasure_ledger (id) on delete cascade,
  sealed bytea not null
);
create index erasure_needles_ledger_id_idx on voidbot.erasure_needles (ledger_id);
create table voidbot.opt_outs (
  key_hash text primary key,
  at timestamptz not null default voidbot.now()
)
"""
TABLES = (
    "opt_outs", "erasure_needles", "erasures", "erasure_ledger", "exports", "plans", "link_codes", "person_links",
    "fact_anchors", "profile_facts",
)  # fmt: skip


def upgrade() -> None:
    for script in (CHOICES, PROFILE, ERASURES):
        for statement in script.split(";\n"):
            op.execute(statement)


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"drop table voidbot.{table}")
    op.execute(
        "alter table voidbot.people drop column learn_me, drop column dm_memory, drop column unprompted,"
        " drop column erasing"
    )
    op.execute("alter table voidbot.communities drop column left_at")
