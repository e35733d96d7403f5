"""The archive in full: attachments, reactions, search units, vectors' queue, imports, lore."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ROOMS = """
alter table voidbot.rooms
  add column retention_days integer,
  add column searchable boolean not null default true,
  add column archive_set_by text not null default '',
  add column archive_set_at timestamptz,
  add column closed_at timestamptz
"""
MESSAGES = """
alter table voidbot.messages
  drop column tsv,
  add column reply_to_id bigint references voidbot.messages (id) on delete set null,
  add column session text,
  add column forwarded_from text not null default '',
  add column proxy_of bigint references voidbot.people (id) on delete set null,
  add column origin_run bigint,
  add column index_state text not null default 'none'
"""
MESSAGE_INDEXES = """
create index messages_queued_idx on voidbot.messages (room_id, sent_at, id) where index_state in ('queued', 'near');
create index messages_replies_idx on voidbot.messages (room_id, reply_to_ref) where reply_to_ref is not null;
create index messages_reply_to_id_idx on voidbot.messages (reply_to_id) where reply_to_id is not null;
create index messages_proxy_of_idx on voidbot.messages (proxy_of) where proxy_of is not null
"""
BESIDE = """
create table voidbot.attachments (
  message_id bigint not null references voidbot.messages (id) on delete cascade,
  ordinal integer not null,
  kind text not null default 'file',
  name text not null default '',
  mime text not null default '',
  bytes bigint not null default 0,
  fetch_handle text not null default '',
  caption text not null default '',
  extracted_text text not null default '',
  primary key (message_id, ordinal)
);
create table voidbot.reactions (
  message_id bigint not null references voidbot.messages (id) on delete cascade,
  person_id bigint not null references voidbot.people (id) on delete cascade,
  emoji text not null,
  at timestamptz not null default voidbot.now(),
  primary key (message_id, person_id, emoji)
);
create index reactions_person_id_idx on voidbot.reactions (person_id)
"""
# A unit's own words are the message's: it keeps lexemes, lengths and hashes, never a second copy of a text.
UNITS = """
create table voidbot.units (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities (id) on delete cascade,
  room_id bigint not null references voidbot.rooms (id) on delete cascade,
  message_id bigint not null references voidbot.messages (id) on delete cascade,
  part integer not null default 0,
  author_id bigint references voidbot.people (id) on delete cascade,
  by_bot boolean not null default false,
  sent_at timestamptz not null default voidbot.now(),
  kind text not null default 'text',
  sources bigint[],
  quote_from integer not null default 0,
  quote_to integer,
  len real not null,
  unit_hash text not null,
  own_hash text not null,
  tsv tsvector not null,
  unique (message_id, part)
);
create index units_room_id_sent_at_idx on voidbot.units (room_id, sent_at);
create index units_author_id_sent_at_idx on voidbot.units (author_id, sent_at);
create index units_tsv_idx on voidbot.units using gin (tsv) with (gin_pending_list_limit = 1024);
create table voidbot.term_df (
  lexeme text not null,
  room_id bigint not null references voidbot.rooms (id) on delete cascade,
  df bigint not null default 0,
  primary key (lexeme, room_id)
);
create index term_df_room_id_idx on voidbot.term_df (room_id);
create table voidbot.index_stats (
  room_id bigint primary key references voidbot.rooms (id) on delete cascade,
  units bigint not null default 0,
  avg_len real not null,
  at timestamptz not null default voidbot.now()
);
create table voidbot.embedding_models (
  name text primary key,
  dimension integer not null,
  state text not null default 'reading',
  backfilled_to bigint,
  trouble text not null default '',
  at timestamptz not null default voidbot.now()
);
create table voidbot.embed_queue (
  model text not null references voidbot.embedding_models (name) on delete cascade,
  unit_id bigint not null,
  community_id bigint not null,
  queued_at timestamptz not null default voidbot.now(),
  primary key (model, unit_id)
)
"""
IMPORTS = """
create table voidbot.import_runs (
  id bigint generated always as identity primary key,
  community_id bigint not null references voidbot.communities (id) on delete cascade,
  file_sha256 text not null,
  file_name text not null default '',
  format text not null,
  audience text not null default '',
  room_map jsonb not null default '{}',
  byte_offset bigint not null default 0,
  line bigint not null default 0,
  counts jsonb not null default '{}',
  state text not null default 'running',
  digest text not null default '',
  actor text not null default '',
  started_at timestamptz not null default voidbot.now(),
  ended_at timestamptz,
  unique (community_id, file_sha256)
);
create table voidbot.import_errors (
  id bigint generated always as identity primary key,
  run_id bigint not null references voidbot.import_runs (id) on delete cascade,
  line bigint not null default 0,
  byte bigint not null default 0,
  code text not null,
  excerpt text not null default ''
);
create index import_errors_run_id_idx on voidbot.import_errors (run_id)
"""
SOURCES = """
create table voidbot.sources (
  id bigint generated always as identity primary key,
  kind text not null,
  location text not null,
  name text not null unique,
  include text[] not null default '{}',
  exclude text[] not null default '{}',
  state text not null default 'active',
  head text not null default '',
  all_rooms boolean not null default false,
  hourly boolean not null default false,
  generation bigint not null default 0,
  added_at timestamptz not null default voidbot.now(),
  synced_at timestamptz,
  error text not null default ''
);
create table voidbot.source_communities (
  source_id bigint not null references voidbot.sources (id) on delete cascade,
  community_id bigint not null references voidbot.communities (id) on delete cascade,
  primary key (source_id, community_id)
);
create index source_communities_community_id_idx on voidbot.source_communities (community_id);
create table voidbot.source_rooms (
  source_id bigint not null references voidbot.sources (id) on delete cascade,
  room_id bigint not null references voidbot.rooms (id) on delete cascade,
  primary key (source_id, room_id)
);
create index source_rooms_room_id_idx on voidbot.source_rooms (room_id);
create table voidbot.source_files (
  id bigint generated always as identity primary key,
  source_id bigint not null references voidbot.sources (id) on delete cascade,
  path text not null,
  blob_hash text not null,
  bytes bigint not null default 0,
  state text not null default 'taken',
  reason text not null default '',
  unique (source_id, path)
);
create index source_files_source_id_blob_hash_idx on voidbot.source_files (source_id, blob_hash);
create table voidbot.source_chunks (
  id bigint generated always as identity primary key,
  source_id bigint not null references voidbot.sources (id) on delete cascade,
  file_id bigint not null references voidbot.source_files (id) on delete cascade,
  ordinal bigint not null default 0,
  line_start bigint not null,
  line_end bigint not null,
  symbol text not null default '',
  blob_hash text not null,
  text text not null,
  len real not null,
  tsv tsvector not null
);
create index source_chunks_source_id_idx on voidbot.source_chunks (source_id);
create index source_chunks_file_id_idx on voidbot.source_chunks (file_id);
create index source_chunks_tsv_idx on voidbot.source_chunks using gin (tsv) with (fastupdate = off);
create table voidbot.source_cursors (
  source_id bigint not null references voidbot.sources (id) on delete cascade,
  consumer text not null,
  last text not null,
  at timestamptz not null default voidbot.now(),
  primary key (source_id, consumer)
);
create table voidbot.graphs (
  id bigint generated always as identity primary key,
  source_id bigint not null unique references voidbot.sources (id) on delete cascade,
  content_hash text not null,
  dangling bigint not null default 0,
  at timestamptz not null default voidbot.now()
);
create table voidbot.graph_nodes (
  graph_id bigint not null references voidbot.graphs (id) on delete cascade,
  ref text not null,
  label text not null default '',
  file_type text not null default '',
  source_file text not null default '',
  source_location text not null default '',
  cluster integer,
  primary key (graph_id, ref)
);
create table voidbot.graph_edges (
  id bigint generated always as identity primary key,
  graph_id bigint not null references voidbot.graphs (id) on delete cascade,
  from_ref text not null,
  to_ref text not null,
  relation text not null default '',
  confidence text not null default '',
  confidence_score real
);
create index graph_edges_graph_id_from_ref_idx on voidbot.graph_edges (graph_id, from_ref);
create index graph_edges_graph_id_to_ref_idx on voidbot.graph_edges (graph_id, to_ref)
"""
TABLES = (
    "graph_edges", "graph_nodes", "graphs", "source_cursors", "source_chunks", "source_files", "source_rooms",
    "source_communities", "sources", "import_errors", "import_runs", "embed_queue", "embedding_models", "index_stats",
    "term_df", "units", "reactions", "attachments",
)  # fmt: skip


def upgrade() -> None:
    for script in (ROOMS, MESSAGES, MESSAGE_INDEXES, BESIDE, UNITS, IMPORTS, SOURCES):
        for statement in script.split(";\n"):
            op.execute(statement)


# Vectors' tables are made when a model is first used and hang on units.
VECTORS = """
do $$
declare
  name text;
begin
  for name in select relname from pg_class
    where relnamespace = 'voidbot'::regnamespace and relkind = 'r' and starts_with(relname, 'vec_')
  loop
    execute format('drop table voidbot.%I', name);
  end loop;
end $$
"""


def downgrade() -> None:
    op.execute(VECTORS)
    for table in TABLES:
        op.execute(f"drop table voidbot.{table}")
    op.execute("drop index voidbot.messages_replies_idx")
    op.execute(
        "alter table voidbot.messages add column tsv tsvector generated always as (to_tsvector('english', text)) stored"
    )
    op.execute("create index messages_tsv_idx on voidbot.messages using gin (tsv) with (fastupdate = off)")
    op.execute(
        "alter table voidbot.messages drop column reply_to_id, drop column session,"
        " drop column forwarded_from, drop column proxy_of, drop column origin_run, drop column index_state"
    )
    op.execute(
        "alter table voidbot.rooms drop column retention_days, drop column searchable, drop column archive_set_by,"
        " drop column archive_set_at, drop column closed_at"
    )
