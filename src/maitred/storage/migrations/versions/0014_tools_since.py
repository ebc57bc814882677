"""Since when each tool is as it is."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column; the tools of older catalogs count as known before all others."""
    op.add_column("tools", sa.Column("since", sa.String(40), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("tools", "since")
