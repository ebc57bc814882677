"""How far each destination of the audit trail is; calls, arguments and prices by principal."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_COLUMNS = ("calls", "argument_tokens", "cost_micros")


def upgrade() -> None:
    """Make the table and the columns."""
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
    for name in _COLUMNS:
        op.add_column("spending", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop them."""
    for name in _COLUMNS:
        op.drop_column("spending", name)
    op.drop_table("audit_stream")
