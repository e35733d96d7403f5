"""What people may choose below a message of the bot, and the room in which a community's staff meets."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

CHOICES = """
alter table voidbot.outbox
  add column choices jsonb,
  add column choices_until timestamptz,
  add column chosen integer;
create index outbox_choices_idx on voidbot.outbox (choices_until) where choices is not null
"""
STAFF = "alter table voidbot.rooms add column staff boolean not null default false"


def upgrade() -> None:
    for statements in (CHOICES, STAFF):
        for statement in statements.split(";\n"):
            op.execute(statement)


def downgrade() -> None:
    op.execute("alter table voidbot.rooms drop column staff")
    op.execute("drop index voidbot.outbox_choices_idx")
    op.execute("alter table voidbot.outbox drop column chosen, drop column choices_until, drop column choices")
