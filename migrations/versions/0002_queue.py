"""The queue: its tables and functions, from one SQL file that later revisions replace as a whole."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SQL = Path(__file__).parents[1] / "sql" / "queue.sql"


def statements(script: str) -> list[str]:
    """Return the script's statements: the driver prepares each, so they cannot be sent as one."""
    found, start, quoted = [], 0, False
    position = 0
    while position < len(script):
        if script.startswith("$$", position):
            quoted = not quoted
            position += 2
        elif not quoted and script.startswith("--", position):
            position = script.find("\n", position) if "\n" in script[position:] else len(script)
        elif not quoted and script[position] == ";":
            found.append(script[start:position])
            position += 1
            start = position
        else:
            position += 1
    return found


def upgrade() -> None:
    for statement in statements(SQL.read_text()):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    op.execute(sa.text("drop schema queue cascade"))
