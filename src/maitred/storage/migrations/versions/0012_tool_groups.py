"""The group of each tool that rules or a language model proposed."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column."""
    op.add_column("tools", sa.Column("tool_group", sa.JSON, nullable=False, server_default="{}"))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("tools", "tool_group")
