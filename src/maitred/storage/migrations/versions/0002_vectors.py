"""Vectors of tools, by model and content hash."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "vectors",
        sa.Column("model", sa.String(100), primary_key=True),
        sa.Column("digest", sa.String(32), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
