"""How far each destination of the audit trail has taken its lines."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0014"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "audit_stream",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("skipped", sa.BigInteger, nullable=False),
        sa.Column("sent_at", sa.String(40), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("failed_at", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("alive_until", sa.String(40), nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("audit_stream")
