"""The principals that are suspended, and the groups of people."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "suspended_principals",
        sa.Column("principal", sa.String(500), primary_key=True),
        sa.Column("who", sa.String(500), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
    )
    op.create_table(
        "principal_groups",
        sa.Column("principal", sa.String(500), primary_key=True),
        sa.Column("groups", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("principal_groups")
    op.drop_table("suspended_principals")
