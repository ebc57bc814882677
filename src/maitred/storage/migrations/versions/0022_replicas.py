"""Which gateways are alive on a database, and which of them runs each server."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0020"


def upgrade() -> None:
    """Make the tables, which stay empty on SQLite."""
    op.create_table(
        "replicas",
        sa.Column("id", sa.String(20), primary_key=True),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("address", sa.String(400), nullable=False),
        sa.Column("version", sa.String(40), nullable=False),
        sa.Column("alive_until", sa.Float, nullable=False),
    )
    op.create_table(
        "server_owners",
        sa.Column("name", sa.String(1000), primary_key=True),
        sa.Column("replica", sa.String(20), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_server_owners_replica", "server_owners", ["replica"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_server_owners_replica", "server_owners")
    op.drop_table("server_owners")
    op.drop_table("replicas")
