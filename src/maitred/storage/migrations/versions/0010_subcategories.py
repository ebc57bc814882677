"""The sub-category of each tool."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the column."""
    op.add_column("tools", sa.Column("subcategory", sa.String(64), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("tools", "subcategory")
