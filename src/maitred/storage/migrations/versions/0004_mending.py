"""What mediation did to tools, and what it remembers."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add columns and make a table."""
    op.add_column("tools", sa.Column("mending", sa.JSON, nullable=False, server_default="{}"))
    op.add_column("tools", sa.Column("raw_input_hash", sa.String(32), nullable=False, server_default=""))
    op.add_column("state", sa.Column("mended_by", sa.String(64), nullable=False, server_default=""))
    op.create_table(
        "memos",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("answer", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
