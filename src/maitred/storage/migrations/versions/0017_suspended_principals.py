"""The principals that are suspended."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0014"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "suspended_principals",
        sa.Column("principal", sa.String(500), primary_key=True),
        sa.Column("who", sa.String(500), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("suspended_principals")
