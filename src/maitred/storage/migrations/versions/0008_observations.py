"""What calls showed of tools: the shape of answers, and an example."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "observations",
        sa.Column("server", sa.String(200), primary_key=True),
        sa.Column("raw_name", sa.String(1000), primary_key=True),
        sa.Column("definition", sa.String(32), nullable=False),
        sa.Column("answers", sa.Integer, nullable=False),
        sa.Column("answer_schema", sa.Text, nullable=False),
        sa.Column("example", sa.Text, nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("observations")
