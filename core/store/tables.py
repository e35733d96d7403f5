"""Every table of schema `voidbot`, as metadata: what migrations are compared with.

Queries are plain SQL in the owner's module; this file only declares, and no process that serves loads it. A table that
holds data of people stands in `personal.py` too. The queue's tables are in `migrations/sql/queue.sql`.
"""

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Time,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB, TSVECTOR
from sqlalchemy.schema import SchemaItem

METADATA = MetaData(
    schema="voidbot",
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    },
)
_NOW = text("voidbot.now()")


def _table(name: str, *items: SchemaItem) -> Table:
    return Table(name, METADATA, *items)


def _id() -> Column[int]:
    return Column("id", BigInteger, Identity(always=True), primary_key=True)


def _text(name: str, default: str | None = "") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=None if default is None else text(f"'{default}'"))


def _int(name: str, default: int | None = 0) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=None if default is None else text(str(default)))


def _flag(name: str, default: bool = False) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("true" if default else "false"))


def _at(name: str, *, null: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=null, server_default=None if null else _NOW)


def _json(name: str, default: str = "{}") -> Column[object]:
    return Column(name, JSONB, nullable=False, server_default=text(f"'{default}'"))


def _ref(name: str, target: str, *, null: bool = False, gone: str = "CASCADE", key: bool = False) -> Column[int]:
    target_key = ForeignKey(f"voidbot.{target}.id", ondelete=gone)
    return Column(name, BigInteger, target_key, nullable=null, primary_key=key)


# Where and who (owners: archive, people)
_table(
    "communities", _id(), _text("platform", None), _text("chat_ref", None), _text("name"), _text("mind_id", None),
    _text("timezone", "UTC"), _text("language", "en"), _text("state", "active"), _text("access_state", "fresh"),
    _int("access_epoch"), _int("settings_version", 1), _at("left_at", null=True), _flag("watching", True), _flag("moderation_dry"),
    Column("max_acts", Integer, nullable=False, server_default=text("10")),
    UniqueConstraint("platform", "chat_ref"), Index(None, "mind_id"),
)  # fmt: skip
_table(
    "rooms", _id(), _ref("community_id", "communities"), _text("platform", None), _text("chat_ref", None),
    _text("topic_ref"), _text("kind", None), _ref("parent_id", "rooms", null=True), _text("name"), _text("topic"),
    _text("mode", "mention"), _text("archive", "inherit"), _flag("unattended"), _flag("paused"), _text("persona", "plain"),
    _text("language", "en"), Column("quiet_from", Time), Column("quiet_to", Time), _text("state", "active"),
    _int("last_archived_seq"), Column("retention_days", Integer), _flag("searchable", True), _text("archive_set_by"),
    _at("archive_set_at", null=True), _at("closed_at", null=True), _flag("staff"), Column("watched", Boolean),
    UniqueConstraint("platform", "chat_ref", "topic_ref"), Index(None, "community_id"),
)  # fmt: skip
_table(
    "room_access", Column("room_id", BigInteger, ForeignKey("voidbot.rooms.id", ondelete="CASCADE"), primary_key=True),
    _flag("known"), _flag("everyone_view"), _flag("everyone_history"), _int("version", 1), _at("checked_at"),
    _text("source", "platform"),
)  # fmt: skip
_table("roles", _id(), _ref("community_id", "communities"), _text("role_ref", None), _text("name"), _flag("admin"),
       _at("deleted_at", null=True), UniqueConstraint("community_id", "role_ref"))  # fmt: skip
_table(
    "people", _id(), _text("platform", None), _text("account_ref", None), _flag("is_bot"), _text("kind", "user"),
    _flag("opted_out"), _text("limits", "default"), _at("first_seen"), _flag("learn_me", True), _flag("dm_memory", True),
    _flag("unprompted", True), _flag("erasing"), UniqueConstraint("platform", "account_ref"),
)  # fmt: skip
_table(
    "room_access_roles", Column("room_id", BigInteger, ForeignKey("voidbot.rooms.id", ondelete="CASCADE"), primary_key=True),
    Column("role_id", BigInteger, ForeignKey("voidbot.roles.id", ondelete="CASCADE"), primary_key=True),
    _flag("view"), _flag("history"),
)  # fmt: skip
_table(
    "room_access_users", Column("room_id", BigInteger, ForeignKey("voidbot.rooms.id", ondelete="CASCADE"), primary_key=True),
    Column("person_id", BigInteger, ForeignKey("voidbot.people.id", ondelete="CASCADE"), primary_key=True),
    _flag("view"), _flag("history"),
)  # fmt: skip
_table(
    "person_names", _id(), _ref("person_id", "people"), _text("name", None), _text("kind", "display"),
    _at("valid_from"), _at("valid_to", null=True),
    Index("person_names_open_key", "person_id", "kind", unique=True, postgresql_where=text("valid_to is null")),
)  # fmt: skip
_table(
    "memberships", _id(), _ref("community_id", "communities"), _ref("person_id", "people"), _at("joined_at"),
    _at("left_at", null=True),
    Index("memberships_open_key", "community_id", "person_id", unique=True, postgresql_where=text("left_at is null")),
)  # fmt: skip
_table(
    "membership_roles", _id(), _ref("person_id", "people"), _ref("role_id", "roles"), _at("valid_from"),
    _at("valid_to", null=True),
    Index("membership_roles_open_key", "person_id", "role_id", unique=True, postgresql_where=text("valid_to is null")),
)  # fmt: skip

# What front ends must not forget (owner: platforms)
_table(
    "room_aliases", Column("platform", Text, primary_key=True), Column("chat_ref", Text, primary_key=True),
    Column("topic_ref", Text, primary_key=True, server_default=text("''")), _ref("room_id", "rooms"), _at("at"),
)  # fmt: skip
_table("platform_memory", Column("name", Text, primary_key=True), _text("value", None), _at("at"))
_table(
    "platform_starts", _id(), _text("account", None), _at("at"), Index("platform_starts_account_idx", "account", "at")
)

# What was said (owner: archive)
_table(
    "messages", _id(), _ref("community_id", "communities"), _ref("room_id", "rooms"), _ref("author_id", "people", null=True),
    _text("platform_ref", None), _at("sent_at"), _int("archived_seq", None), _text("kind", "text"),
    Column("reply_to_ref", Text), _text("text"), _text("lang", "en"), _text("origin", "live"),
    Column("revision", Integer, nullable=False, server_default=text("0")), _at("edited_at", null=True),
    _at("deleted_at", null=True), _text("delete_reason"), Column("sources", ARRAY(BigInteger)),
    _ref("reply_to_id", "messages", null=True, gone="SET NULL"), Column("session", Text),
    _text("forwarded_from"), _ref("proxy_of", "people", null=True, gone="SET NULL"), Column("origin_run", BigInteger),
    _text("index_state", "none"),
    UniqueConstraint("room_id", "platform_ref"), Index(None, "room_id", "archived_seq", unique=True),
    Index(None, "room_id", "sent_at", "id"), Index(None, "author_id"),
    Index("messages_own_idx", "room_id", "sent_at", "id", postgresql_where=text("kind = 'bot_reply'")),
    Index("messages_queued_idx", "room_id", "sent_at", "id", postgresql_where=text("index_state in ('queued', 'near')")),
    Index("messages_replies_idx", "room_id", "reply_to_ref", postgresql_where=text("reply_to_ref is not null")),
    Index("messages_reply_to_id_idx", "reply_to_id", postgresql_where=text("reply_to_id is not null")),
    Index("messages_proxy_of_idx", "proxy_of", postgresql_where=text("proxy_of is not null")),
)  # fmt: skip
_table(
    "message_revisions", Column("message_id", BigInteger, ForeignKey("voidbot.messages.id", ondelete="CASCADE"), primary_key=True),
    Column("revision", Integer, primary_key=True, autoincrement=False), _ref("room_id", "rooms"), _int("archived_seq", None),
    Column("text", Text), _at("seen_at"), UniqueConstraint("room_id", "archived_seq"),
)  # fmt: skip

_table(
    "attachments", _ref("message_id", "messages", key=True), Column("ordinal", Integer, primary_key=True, autoincrement=False),
    _text("kind", "file"), _text("name"), _text("mime"), _int("bytes"), _text("fetch_handle"), _text("caption"),
    _text("extracted_text"),
)  # fmt: skip
_table(
    "reactions", _ref("message_id", "messages", key=True), _ref("person_id", "people", key=True),
    Column("emoji", Text, primary_key=True), _at("at"), Index(None, "person_id"),
)  # fmt: skip

# How it is found (owner: units)
_table(
    "units", _id(), _ref("community_id", "communities"), _ref("room_id", "rooms"), _ref("message_id", "messages"),
    Column("part", Integer, nullable=False, server_default=text("0")), _ref("author_id", "people", null=True),
    _flag("by_bot"), _at("sent_at"), _text("kind", "text"), Column("sources", ARRAY(BigInteger)),
    Column("quote_from", Integer, nullable=False, server_default=text("0")), Column("quote_to", Integer),
    Column("len", REAL, nullable=False), _text("unit_hash", None), _text("own_hash", None), Column("tsv", TSVECTOR, nullable=False),
    UniqueConstraint("message_id", "part"), Index(None, "room_id", "sent_at"), Index(None, "author_id", "sent_at"),
    Index("units_tsv_idx", "tsv", postgresql_using="gin", postgresql_with={"gin_pending_list_limit": "1024"}),
)  # fmt: skip
_table(
    "term_df", Column("lexeme", Text, primary_key=True), _ref("room_id", "rooms", key=True), _int("df"), Index(None, "room_id"),
)  # fmt: skip
_table(
    "index_stats", _ref("room_id", "rooms", key=True), _int("units"), Column("avg_len", REAL, nullable=False), _at("at"),
)  # fmt: skip

# Vectors: which models, what waits to be embedded (owner: embeddings). The vectors stand in the vector store.
_table(
    "embedding_models", Column("name", Text, primary_key=True), Column("dimension", Integer, nullable=False),
    _text("state", "reading"), Column("backfilled_to", BigInteger), _text("trouble"), _at("at"),
)  # fmt: skip
_table(
    "embed_queue", Column("model", Text, ForeignKey("voidbot.embedding_models.name", ondelete="CASCADE"), primary_key=True),
    Column("unit_id", BigInteger, primary_key=True, autoincrement=False), _int("community_id", None), _at("queued_at"),
)  # fmt: skip

# Histories brought along (owner: imports)
_table(
    "import_runs", _id(), _ref("community_id", "communities"), _text("file_sha256", None), _text("file_name"), _text("format", None),
    _text("audience"), _json("room_map"), _int("byte_offset"), _int("line"), _json("counts"), _text("state", "running"), _text("digest"),
    _text("actor"), _at("started_at"), _at("ended_at", null=True), UniqueConstraint("community_id", "file_sha256"),
)  # fmt: skip
_table(
    "import_errors", _id(), _ref("run_id", "import_runs"), _int("line"), _int("byte"), _text("code", None), _text("excerpt"),
    Index(None, "run_id"),
)  # fmt: skip

# Lore: repositories, folders, graphs (owner: sources)
_table(
    "sources", _id(), _text("kind", None), _text("location", None), _text("name", None),
    Column("include", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("exclude", ARRAY(Text), nullable=False, server_default=text("'{}'")), _text("state", "active"), _text("head"),
    _flag("all_rooms"), _flag("hourly"), _int("generation"), _at("added_at"), _at("synced_at", null=True), _text("error"),
    UniqueConstraint("name"),
)  # fmt: skip
_table(
    "source_communities", _ref("source_id", "sources", key=True), _ref("community_id", "communities", key=True),
    Index(None, "community_id"),
)  # fmt: skip
_table(
    "source_rooms", _ref("source_id", "sources", key=True), _ref("room_id", "rooms", key=True), Index(None, "room_id"),
)  # fmt: skip
_table(
    "source_files", _id(), _ref("source_id", "sources"), _text("path", None), _text("blob_hash", None), _int("bytes"),
    _text("state", "taken"), _text("reason"), UniqueConstraint("source_id", "path"), Index(None, "source_id", "blob_hash"),
)  # fmt: skip
_table(
    "source_chunks", _id(), _ref("source_id", "sources"), _ref("file_id", "source_files"), _int("ordinal"), _int("line_start", None),
    _int("line_end", None), _text("symbol"), _text("blob_hash", None), _text("text", None), Column("len", REAL, nullable=False),
    Column("tsv", TSVECTOR, nullable=False), Index(None, "source_id"), Index(None, "file_id"),
    Index("source_chunks_tsv_idx", "tsv", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
)  # fmt: skip
_table(
    "source_cursors", _ref("source_id", "sources", key=True), Column("consumer", Text, primary_key=True), _text("last", None), _at("at"),
)  # fmt: skip
_table(
    "graphs", _id(), _ref("source_id", "sources"), _text("content_hash", None), _int("dangling"), _at("at"), UniqueConstraint("source_id"),
)  # fmt: skip
_table(
    "graph_nodes", _ref("graph_id", "graphs", key=True), Column("ref", Text, primary_key=True), _text("label"), _text("file_type"),
    _text("source_file"), _text("source_location"), Column("cluster", Integer),
)  # fmt: skip
_table(
    "graph_edges", _id(), _ref("graph_id", "graphs"), _text("from_ref", None), _text("to_ref", None), _text("relation"),
    _text("confidence"), Column("confidence_score", REAL), Index(None, "graph_id", "from_ref"), Index(None, "graph_id", "to_ref"),
)  # fmt: skip

# Intake and decision (owner: inbox)
_table(
    "inbox", _id(), _text("front_end", None), _text("event_ref", None), _ref("community_id", "communities"),
    _ref("room_id", "rooms"), _ref("person_id", "people"), _text("message_ref", None), _text("kind", None),
    Column("revision", Integer, nullable=False, server_default=text("0")), _text("text"), Column("reply_to", Text),
    _json("payload"), _at("sent_at"), _at("received_at"), _text("trace"), Column("turn_id", BigInteger),
    _flag("gone"), _at("blank_after", null=True), _text("answer_token"), UniqueConstraint("front_end", "event_ref"),
    Index(None, "turn_id"),
    Index("inbox_message_key", "front_end", "room_id", "message_ref", unique=True, postgresql_where=text("kind in ('text', 'command')")),
    Index(None, "blank_after"), Index(None, "room_id", "person_id", "id"),
    Index("inbox_talk_idx", "room_id", "id", postgresql_where=text("kind = 'text'")),
    Index("inbox_refused_idx", "received_at", postgresql_where=text("turn_id is null and text <> ''")),
)  # fmt: skip
_table(
    "turns", _id(), _text("key", None), _ref("community_id", "communities"), _ref("room_id", "rooms"), _ref("person_id", "people"),
    _text("front_end", None), _text("state", "open"), Column("reason", Text), _text("reply_to", None), _flag("private"),
    _at("opened_at"), _at("closes_at"), Column("count", Integer, nullable=False, server_default=text("1")),
    _flag("restarted"), _flag("rebuilt"), _flag("shown"),
    Column("job_id", BigInteger), _text("trace"), _int("version", 1), _at("closed_at", null=True), UniqueConstraint("key"),
    Index("turns_open_idx", "room_id", "person_id", postgresql_where=text("state in ('open', 'running')")),
)  # fmt: skip
_table(
    "decisions", _id(), _ref("inbox_id", "inbox"), _ref("room_id", "rooms"), _ref("person_id", "people"), _text("message_ref", None),
    _text("outcome", None), Column("reason", Text), _int("settings_version", 1), _json("gates"), _at("at"), Index(None, "inbox_id"),
    Index(None, "room_id", "at"),
)  # fmt: skip

# What is said (owner: outbox)
_table(
    "outbox", _id(), _text("front_end", None), _ref("community_id", "communities"), _ref("room_id", "rooms"), Column("reply_to", Text),
    _text("kind", None), Column("body", Text), Column("audience", ARRAY(BigInteger), nullable=False), _text("dedupe", None),
    _text("state", "ready"), Column("reason", Text), _ref("private_to", "people", null=True), Column("job_id", BigInteger),
    _text("trace"), _at("asked_at", null=True), _at("created_at"), _at("closed_at", null=True), UniqueConstraint("dedupe"),
    Index("outbox_open_idx", "state", "id", postgresql_where=text("state in ('ready', 'sending', 'unknown', 'failed')")),
    Index("outbox_body_idx", "closed_at", postgresql_where=text("body is not null")), Index(None, "room_id", "reply_to"),
    Index(None, "job_id"), Column("choices", JSONB), _at("choices_until", null=True), Column("chosen", Integer),
    Index("outbox_choices_idx", "choices_until", postgresql_where=text("choices is not null")),
)  # fmt: skip
_table(
    "outbox_parts", Column("outbox_id", BigInteger, ForeignKey("voidbot.outbox.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False), Column("text", Text), _text("nonce", None), _text("state", "ready"),
    Column("attempt", Integer, nullable=False, server_default=text("0")), _flag("plain"), _at("first_attempt_at", null=True),
    Column("external_id", Text), _at("sent_at", null=True), _at("final_at", null=True), Column("error", Text), UniqueConstraint("nonce"),
)  # fmt: skip
_table(
    "receipts", Column("outbox_id", BigInteger, ForeignKey("voidbot.outbox.id", ondelete="CASCADE"), primary_key=True),
    _ref("room_id", "rooms"), _ref("person_id", "people", null=True), _text("trigger"), _text("rule"), _text("provider"), _text("model"),
    _int("usd_micro"), _int("input_tokens"), _int("output_tokens"), _text("prompt_sha256"), _text("role"), _text("persona"),
    Column("attempts", Integer, nullable=False, server_default=text("1")), _json("gates"), _json("sections", "[]"), _json("guards", "[]"),
    Column("external_ids", ARRAY(Text), nullable=False, server_default=text("'{}'")), _flag("source_gone"), _at("at"),
    _at("delivered_at", null=True), Index(None, "room_id", "at"),
)  # fmt: skip
_table(
    "receipt_sources", Column("outbox_id", BigInteger, ForeignKey("voidbot.receipts.outbox_id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False), _text("kind", None), _text("ref", None),
    Column("audience", ARRAY(BigInteger), nullable=False),
)  # fmt: skip
_table(
    "console_messages", _id(), Column("seq", BigInteger, Identity(), nullable=False), _ref("room_id", "rooms"), _text("nonce", None),
    _text("text"), Column("reply_to", Text), Column("private_to", Text), Column("outbox_id", BigInteger),
    Column("revision", Integer, nullable=False, server_default=text("0")), _at("at"), UniqueConstraint("nonce"), Index(None, "seq"),
    Index("console_messages_text_idx", "at", postgresql_where=text("text <> ''")),
)  # fmt: skip

# Money, tokens, answers (owner: budgets)
_table(
    "purses", _id(), _text("scope", None), _text("scope_id"), _text("unit", None), _text("window_kind", None), _int("limit_amount", None),
    Column("soft", REAL, nullable=False, server_default=text("0.8")), _text("timezone", "UTC"), _text("set_by", "default"), _at("set_at"),
    UniqueConstraint("scope", "scope_id", "unit", "window_kind"),
)  # fmt: skip
_table(
    "purse_windows", Column("purse_id", BigInteger, ForeignKey("voidbot.purses.id", ondelete="CASCADE"), primary_key=True),
    Column("subject", Text, primary_key=True), Column("starts_at", DateTime(timezone=True), primary_key=True), _int("held"), _int("spent"),
)  # fmt: skip
_table(
    "reservations", Column("id", BigInteger, primary_key=True, autoincrement=False), Column("job_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False), Column("purses", ARRAY(BigInteger), nullable=False), Column("subjects", ARRAY(Text), nullable=False),
    Column("windows", ARRAY(DateTime(timezone=True)), nullable=False), Column("units", ARRAY(Text), nullable=False),
    Column("amounts", ARRAY(BigInteger), nullable=False), Column("spent", ARRAY(BigInteger), nullable=False),
    _text("state", "held"), _at("created_at"), Column("expires_at", DateTime(timezone=True), nullable=False),
    Index("reservations_held_idx", "expires_at", postgresql_where=text("state = 'held'")), Index(None, "job_id"),
)  # fmt: skip
_table(
    "usage", _id(), Column("reservation_id", BigInteger, unique=True), Column("job_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False), _text("model"), _text("provider"), _text("tier"), _text("purpose", None), _int("input_tokens"),
    _int("output_tokens"), _int("cached_tokens"), _int("usd_micro"), _flag("priced"), _flag("estimated"), _text("result", "ok"),
    _ref("community_id", "communities", null=True), _ref("room_id", "rooms", null=True), _ref("person_id", "people", null=True), _at("at"),
    Index(None, "person_id", "at"), Index(None, "room_id", "at"), Index(None, "at"),
)  # fmt: skip
_table(
    "rates",
    Column("key", Text, primary_key=True),
    Column("tat", DateTime(timezone=True), nullable=False),
)

# People's own facts, choices and rights (owners: facts, links, plans, exports)
_table(
    "profile_facts", _id(), _ref("person_id", "people"), _text("predicate", None), _text("value", None), _text("said_by", None),
    _text("state", "current"), _flag("confirmed"), Column("sources", ARRAY(BigInteger), nullable=False), _at("stated_at"),
    _at("ended_at", null=True), Index(None, "person_id", "predicate"), CheckConstraint("cardinality(sources) > 0", "sources"),
)  # fmt: skip
_table(
    "fact_anchors", _ref("fact_id", "profile_facts", key=True), _ref("message_id", "messages", key=True),
    Column("span_from", Integer, primary_key=True, autoincrement=False), Column("span_to", Integer, nullable=False),
    Column("revision", Integer, nullable=False), _ref("account_id", "people"), Index(None, "message_id"), Index(None, "account_id"),
)  # fmt: skip
_table(
    "person_links", _id(), _ref("one_id", "people"), _ref("other_id", "people"), _at("linked_at"), _at("ended_at", null=True),
    Index("person_links_open_key", "one_id", "other_id", unique=True, postgresql_where=text("ended_at is null")),
    Index(None, "other_id"),
)  # fmt: skip
_table(
    "link_codes", Column("code_hash", Text, primary_key=True), _text("kind", None), _ref("person_id", "people"),
    _ref("other_id", "people", null=True), _ref("room_id", "rooms"), _text("front_end", None), _at("expires_at"),
    Index(None, "person_id"),
)  # fmt: skip
_table(
    "plans", Column("id", Text, primary_key=True), _ref("person_id", "people"), _ref("community_id", "communities"), _text("act", None),
    _json("arguments"), _text("state"), _at("expires_at"), Index(None, "person_id"),
)  # fmt: skip
_table(
    "exports", _id(), _ref("person_id", "people"), _ref("room_id", "rooms"), _text("front_end", None), _text("file_name"), _text("state", "queued"),
    _json("counts"), _at("asked_at"), _at("expires_at", null=True), Index(None, "person_id"),
)  # fmt: skip

# What was erased: no names, no texts (owner: erasures)
_table(
    "erasure_ledger", _id(), _text("key_id", None), _text("key_hash"), _json("scope"), _at("until_at"), _json("counts"), _text("proof_hash"),
    _at("at"), Index(None, "key_hash"),
)  # fmt: skip
_table(
    "erasures", _ref("ledger_id", "erasure_ledger", key=True), Column("person_id", BigInteger), _int("community_id", 0),
    Column("room_id", BigInteger), _text("front_end"), _text("trace"), _json("scope"), _text("step", None), _text("state", "running"),
    _json("counts"), _json("places", "[]"), Column("outbox_id", BigInteger), _at("asked_at"), _at("until_at"), _at("told_at", null=True),
    _at("ended_at", null=True), Index("erasures_running_idx", "person_id", postgresql_where=text("state = 'running'")),
)  # fmt: skip
_table(
    "erasure_needles", _id(), _ref("ledger_id", "erasure_ledger"), Column("sealed", LargeBinary, nullable=False), Index(None, "ledger_id"),
)  # fmt: skip
_table("opt_outs", Column("key_hash", Text, primary_key=True), _at("at"))

# The mind (owner: state)
# Spelt as Postgres gives them back, so that the two can be compared.
_ENTRY_ABOUT = (
    "coalesce(lower(body #>> '{target,kind}'::text[] || ':'::text || body #>> '{target,id}'::text[]),"
    " 'room:'::text || body ->> 'roomId'::text)"
)
_ENTRY_LONG = (
    *(
        "summary",
        "claim",
        "question",
        "tension",
        "actionImplication",
        "anchorRefs",
        "evidenceRefs",
        "tags",
        "revisions",
    ),
    *("draft", "text", "preview", "deliveryRef", "candidate", "sources", "sourceMemoryIds", "supportMemoryIds"),
)
_ENTRY_BRIEF = f"body - '{{{','.join(_ENTRY_LONG)}}}'::text[]"
_ENTRY_FIELDS = " || ' '::text || ".join(
    f"coalesce(body {each}, ''::text)"
    for each in (
        *(f"->> '{name}'::text" for name in ("summary", "claim", "question", "tension", "topic")),
        "#>> '{target,label}'::text[]",
    )
)
_ENTRY_WORDS = (
    "case when retired_at is null and type = any (array['durable'::text, 'short_term'::text, 'thread'::text])"
    f" then to_tsvector('english'::regconfig, {_ENTRY_FIELDS}) else null::tsvector end"
)
_table(
    "minds", Column("id", Text, primary_key=True), _int("version"), _int("last_seq"),
    Column("state_hash", LargeBinary, nullable=False, server_default=text("'\\x00'")), _flag("paused"),
)  # fmt: skip
_table(
    "state_entries", Column("mind_id", Text, ForeignKey("voidbot.minds.id", ondelete="CASCADE"), primary_key=True), Column("kind", Text, primary_key=True),
    Column("entry_id", Text, primary_key=True), _text("type", None), Column("version", Integer, nullable=False),
    Column("body", JSONB, nullable=False), Column("sources", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("people", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("cites", ARRAY(Text), nullable=False, server_default=text("'{}'")), _at("created_at"), _at("updated_at"),
    _at("retired_at", null=True), Column("retired_reason", Text), Column("superseded_by", Text),
    Column("entry_hash", LargeBinary, nullable=False), _int("last_seq", None),
    Column("about", Text, Computed(text(_ENTRY_ABOUT), persisted=True)),
    Column("brief", JSONB, Computed(text(_ENTRY_BRIEF), persisted=True)),
    Column("words", TSVECTOR, Computed(text(_ENTRY_WORDS), persisted=True)),
    Index("state_entries_live_idx", "mind_id", "type", "updated_at", postgresql_where=text("retired_at is null")),
    Index("state_entries_about_idx", "mind_id", "about", "updated_at", postgresql_where=text("retired_at is null")),
    Index("state_entries_words_idx", "words", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
    Index("state_entries_people_idx", "people", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
    Index("state_entries_cites_idx", "cites", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
    CheckConstraint("version >= 1", "version"), CheckConstraint("(retired_at is null) = (retired_reason is null)", "retired"),
)  # fmt: skip
_table(
    "state_operations", Column("mind_id", Text, ForeignKey("voidbot.minds.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False), _text("op", None), Column("payload", JSONB, nullable=False),
    Column("facts", JSONB, nullable=False), _text("actor_kind", None), _text("actor_ref"), Column("run_id", BigInteger),
    Column("job_id", BigInteger), _text("idempotency_key", None), Column("payload_hash", LargeBinary, nullable=False),
    _text("verdict", None), _text("code"), _text("path"), _text("effect"), _json("touched", "[]"),
    Column("touches", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("cites", ARRAY(Text), nullable=False, server_default=text("'{}'")), Column("delta", LargeBinary, nullable=False), _at("at"),
    Column("undone_by", BigInteger), Column("redacted_by", BigInteger), UniqueConstraint("mind_id", "idempotency_key"),
    Index("state_operations_touches_idx", "touches", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
    Index("state_operations_cites_idx", "cites", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
)  # fmt: skip

# Unattended work (owner: passes)
_table(
    "pass_runs", _id(), _text("mind_id", None), _text("pass", None), _text("group_key", None), _text("slot_key", None),
    Column("slot", DateTime(timezone=True), nullable=False), _text("origin", None), _text("mode", "normal"), _text("state", "ready"),
    _text("phase", "gate"), Column("n", Integer, nullable=False, server_default=text("1")),
    Column("attempt", Integer, nullable=False, server_default=text("1")), Column("asks", Integer, nullable=False, server_default=text("0")),
    _text("reason"), _text("role_hash"), _at("created_at"), _at("started_at", null=True), _at("finished_at", null=True),
    UniqueConstraint("slot_key"), Index("pass_runs_newest_idx", "mind_id", "pass", "group_key", "id"),
    Index(
        "pass_runs_active_idx", "mind_id", "pass", "group_key", unique=True,
        postgresql_where=text("state = any (array['ready'::text, 'running'::text, 'waiting'::text])"),
    ),
)  # fmt: skip
_table(
    "pass_slots", Column("mind_id", Text, primary_key=True), Column("pass", Text, primary_key=True),
    Column("group_key", Text, primary_key=True), Column("slot", DateTime(timezone=True), nullable=False), _text("label", None),
)  # fmt: skip
_table(
    "pass_phases", _ref("run_id", "pass_runs", key=True), Column("n", Integer, primary_key=True, autoincrement=False), _text("phase", None),
    Column("attempt", Integer, nullable=False), _text("outcome", None), _text("code"), _json("counts"), _text("model"), _int("tokens_in"),
    _int("tokens_out"), _int("usd_micro"), _text("prompt_hash"), _at("started_at", null=True), _at("finished_at"),
)  # fmt: skip
_table(
    "pass_artifacts", _ref("run_id", "pass_runs", key=True), Column("name", Text, primary_key=True), Column("body", JSONB, nullable=False),
    Column("people", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("messages", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Index("pass_artifacts_people_idx", "people", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
    Index("pass_artifacts_messages_idx", "messages", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
)  # fmt: skip
_table(
    "pass_windows", Column("consumer", Text, primary_key=True), _ref("room_id", "rooms", key=True), _int("first_id", None),
    Column("attempts", Integer, nullable=False, server_default=text("0")), Column("size", Integer, nullable=False),
)  # fmt: skip
_table(
    "pass_controls", Column("mind_id", Text, primary_key=True), Column("pass", Text, primary_key=True),
    Column("paused", Boolean, nullable=False), _at("until", null=True), _text("reason"), _at("set_at"),
)  # fmt: skip


# Moderation (owners: review, mod_rules, cases, ledger, acts, spam_examples)
def _person(name: str, *, null: bool = False, keep: bool = False) -> Column[int]:
    return _ref(name, "people", null=null or keep, gone="SET NULL" if keep else "CASCADE")


_table(
    "review_window", _ref("room_id", "rooms", key=True), Column("platform_ref", Text, primary_key=True),
    Column("revision", BigInteger, primary_key=True, autoincrement=False), _int("archived_seq", None), _person("author_id"),
    Column("sent_at", DateTime(timezone=True), nullable=False), Column("reply_to_ref", Text), _text("text", None),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Index("review_window_seq_idx", "room_id", "archived_seq", unique=True), Index(None, "expires_at"), Index(None, "author_id"),
)  # fmt: skip
_table(
    "mod_rules", _id(), _ref("community_id", "communities"), _text("rule_id", None), Column("version", Integer, nullable=False),
    _json("body"), _person("set_by", keep=True), _at("set_at"), _text("why"), UniqueConstraint("community_id", "rule_id", "version"),
)  # fmt: skip
_table(
    "mod_signals", _id(), _ref("community_id", "communities"), _ref("room_id", "rooms"), _person("person_id"), _text("platform_ref", None),
    _int("revision", None), _text("rule_id", None), Column("rule_version", Integer, nullable=False), _text("detector", None),
    Column("value", DOUBLE_PRECISION, nullable=False), Column("threshold", DOUBLE_PRECISION, nullable=False), Column("span_from", Integer),
    Column("span_to", Integer), _text("what"), _flag("hint"), Column("case_id", BigInteger), _at("at"),
    UniqueConstraint("room_id", "platform_ref", "revision", "rule_id", "detector", "what", name="mod_signals_once_key"),
    Index(None, "case_id"), Index(None, "at"), Index(None, "person_id"),
)  # fmt: skip
_table(
    "cases", _id(), _ref("community_id", "communities"), _text("rule_id", None), Column("rule_version", Integer, nullable=False),
    _text("level", None), _text("lane", None), _person("subject_id", null=True), Column("severity", Integer, nullable=False),
    _text("status", "open"), Column("version", Integer, nullable=False, server_default=text("1")), _flag("about_staff"), _flag("dry_run"),
    _json("step"), Column("strikes", Integer, nullable=False, server_default=text("0")), _person("assigned_to", keep=True),
    _at("assigned_at", null=True), _at("created_at"), _at("joins_until"), Column("decision", JSONB), _text("decision_reason"),
    _person("decided_by", keep=True), _at("decided_at", null=True), _text("outcome"), _at("closed_at", null=True),
    _ref("card_id", "outbox", null=True, gone="SET NULL"), _text("hold_reason"),
    Index(None, "community_id", "status", "severity", "id"), Index(None, "subject_id", "rule_id", "joins_until"),
)  # fmt: skip
_table(
    "case_evidence", _id(), _ref("case_id", "cases"), _ref("room_id", "rooms"), _text("platform_ref", None), _int("revision", None),
    _person("author_id"), Column("sent_at", DateTime(timezone=True), nullable=False), Column("text", Text),
    Column("text_sha256", LargeBinary, nullable=False), _flag("withheld"), _json("files", "[]"), _text("note"), _text("quote"),
    Column("run_id", BigInteger), _at("at"), UniqueConstraint("case_id", "room_id", "platform_ref", "revision"),
    Index(None, "author_id"), Index(None, "room_id", "platform_ref"),
)  # fmt: skip
_table(
    "case_events", _id(), _ref("case_id", "cases"), _at("at"), _person("person_id", keep=True), _text("act", None), _json("details"),
    Index(None, "case_id"),
)  # fmt: skip
_table(
    "case_reports", _id(), _ref("case_id", "cases"), _person("reporter_id"), _text("text"), _at("at"),
    UniqueConstraint("case_id", "reporter_id"), Index(None, "reporter_id", "at"),
)  # fmt: skip
_table(
    "mod_keys", _ref("community_id", "communities", key=True), Column("key", LargeBinary, nullable=False),
)  # fmt: skip
_table(
    "sanctions", _id(), _int("community_id", None), _text("subject", None), _text("kind", None), _text("rule_id", None),
    Column("rule_version", Integer, nullable=False), _text("category", None), Column("case_id", BigInteger), _text("proposer", None),
    _text("approver", None), Column("evidence_hash", LargeBinary, nullable=False), _at("created_at"), _at("effective_at"),
    _at("expires_at", null=True), _flag("dry_run"), _text("origin", None), _text("dedupe", None), UniqueConstraint("dedupe"),
    Index("sanctions_subject_idx", "community_id", "subject", "rule_id", "id"), Index(None, "case_id"), Index(None, "expires_at"),
)  # fmt: skip
_table(
    "sanction_subjects", _ref("community_id", "communities", key=True), Column("subject", Text, primary_key=True), _person("person_id"),
    Index(None, "person_id"),
)  # fmt: skip
_table(
    "sanction_texts", _ref("sanction_id", "sanctions", key=True), _text("reason_member"), _text("reason_staff"), _text("platform_reason"),
)  # fmt: skip
_table(
    "sanction_reversals", _ref("sanction_id", "sanctions", key=True), _person("by_person", keep=True), _text("reason"), _at("at"),
    Column("appeal_id", BigInteger),
)  # fmt: skip
_table(
    "appeals", _id(), _ref("sanction_id", "sanctions"), _person("person_id"), _text("text", None), _at("at"), _person("decided_by", keep=True),
    _at("decided_at", null=True), Column("granted", Boolean), _text("reason"), UniqueConstraint("sanction_id"), Index(None, "person_id"),
)  # fmt: skip
_table(
    "acts", _id(), _ref("community_id", "communities"), Column("sanction_id", BigInteger), Column("case_id", BigInteger), _text("kind", None),
    _text("front_end", None), _ref("room_id", "rooms"), _person("person_id", null=True), _flag("by_channel"), _text("message_ref"),
    _at("until", null=True), Column("setting", Integer, nullable=False, server_default=text("0")), _text("reason"), _flag("automatic"),
    _text("dedupe", None), _text("state", "ready"), _text("answer"), _at("created_at"), _at("done_at", null=True), UniqueConstraint("dedupe"),
    Index(None, "sanction_id"), Index(None, "case_id"), Index(None, "person_id", "done_at"),
    Index(None, "community_id", "automatic", "created_at"),
)  # fmt: skip
_table(
    "native_acts", _id(), _ref("community_id", "communities"), _text("event_ref", None), _text("kind", None), _person("person_id", null=True),
    _text("by_ref"), _flag("by_bot"), _ref("room_id", "rooms", null=True), _text("message_ref"), _text("rule_name"),
    Column("at", DateTime(timezone=True), nullable=False), UniqueConstraint("community_id", "event_ref"), Index(None, "person_id", "at"),
)  # fmt: skip
_table(
    "raids", _id(), _ref("community_id", "communities"), _ref("case_id", "cases", null=True, gone="SET NULL"), _text("state", "proposed"),
    Column("accounts", ARRAY(Text), nullable=False, server_default=text("'{}'")), _json("former"), _at("created_at"),
    Column("until", DateTime(timezone=True), nullable=False), _at("ended_at", null=True),
    Index("raids_open_idx", "community_id", unique=True, postgresql_where=text("ended_at is null")),
)  # fmt: skip
_table(
    "spam_examples", _id(), _ref("community_id", "communities"), _text("text", None), Column("spam", Boolean, nullable=False),
    _person("author_id", null=True), _person("taught_by", keep=True), _at("at"), Index(None, "community_id", "id"), Index(None, "author_id"),
)  # fmt: skip
_table(
    "spam_models", _ref("community_id", "communities", key=True), Column("version", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False), Column("sha256", LargeBinary, nullable=False), _json("figures"), _at("made_at"),
)  # fmt: skip

# Settings, accounts of acts (owners: settings, audit)
_table(
    "settings", Column("scope", Text, primary_key=True), Column("scope_id", Text, primary_key=True), Column("name", Text, primary_key=True),
    _json("value", "null"), _int("revision", 1), _text("set_by"), _at("set_at"),
)  # fmt: skip
_table(
    "audit", _id(), _at("at"), _ref("person_id", "people", null=True), _text("actor"), _text("act", None), _text("place"), _json("details"),
    Index(None, "at"),
)  # fmt: skip
