"""Values that several gateways share for a while: sessions, kept answers, facts, rate limits."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_TABLES = ("shared_values", "shared_buckets", "shared_slots")


def upgrade() -> None:
    """Make the tables; on PostgreSQL without a log, since nothing in them must survive a crash."""
    op.create_table(
        "shared_values",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("until", sa.Float, nullable=False),
    )
    op.create_index("ix_shared_values_until", "shared_values", ["until"])
    op.create_table(
        "shared_buckets",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("tokens", sa.Float, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "shared_slots",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("holder", sa.String(60), primary_key=True),
        sa.Column("until", sa.Float, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in _TABLES:
            op.execute(f"ALTER TABLE {table} SET UNLOGGED")


def downgrade() -> None:
    """Drop them."""
    op.drop_table("shared_slots")
    op.drop_table("shared_buckets")
    op.drop_index("ix_shared_values_until", "shared_values")
    op.drop_table("shared_values")
