"""The platforms: old ids of rooms, what front ends remember, starts of connections, tokens of interactions."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _text(name: str, default: str | None = None, **more: object) -> sa.Column:
    return sa.Column(name, sa.Text(), nullable=False, server_default=None if default is None else sa.text(default), **more)


def _at(name: str) -> sa.Column:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("voidbot.now()"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "room_aliases",
        _text("platform"),
        _text("chat_ref"),
        _text("topic_ref", "''"),
        sa.Column("room_id", sa.BigInteger(), nullable=False),
        _at("at"),
        sa.PrimaryKeyConstraint("platform", "chat_ref", "topic_ref", name=op.f("room_aliases_pkey")),
        sa.ForeignKeyConstraint(
            ["room_id"], ["voidbot.rooms.id"], name=op.f("room_aliases_room_id_fkey"), ondelete="CASCADE"
        ),
        schema="voidbot",
    )
    op.create_table(
        "platform_memory",
        _text("name"),
        _text("value"),
        _at("at"),
        sa.PrimaryKeyConstraint("name", name=op.f("platform_memory_pkey")),
        schema="voidbot",
    )
    op.create_table(
        "platform_starts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("account"),
        _at("at"),
        sa.PrimaryKeyConstraint("id", name=op.f("platform_starts_pkey")),
        schema="voidbot",
    )
    op.create_index(op.f("platform_starts_account_idx"), "platform_starts", ["account", "at"], schema="voidbot")
    op.create_index(op.f("communities_mind_id_idx"), "communities", ["mind_id"], schema="voidbot")
    op.create_index(
        "inbox_talk_idx", "inbox", ["room_id", "id"], schema="voidbot", postgresql_where=sa.text("kind = 'text'")
    )
    op.add_column("inbox", _text("answer_token", "''"), schema="voidbot")


def downgrade() -> None:
    op.drop_column("inbox", "answer_token", schema="voidbot")
    op.drop_index("inbox_talk_idx", table_name="inbox", schema="voidbot")
    op.drop_index(op.f("communities_mind_id_idx"), table_name="communities", schema="voidbot")
    for table in ("platform_starts", "platform_memory", "room_aliases"):
        op.drop_table(table, schema="voidbot")
