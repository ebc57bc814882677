"""The first tables: servers, tools, schemas, generation."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "servers",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.Column("synced_at", sa.String(40), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("notes", sa.JSON, nullable=False),
    )
    op.create_table(
        "tools",
        sa.Column(
            "server", sa.String(200), sa.ForeignKey("servers.name", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("raw_name", sa.String(1000), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("annotations", sa.JSON, nullable=False),
        sa.Column("extra", sa.JSON, nullable=False),
        sa.Column("input_hash", sa.String(32), nullable=False),
        sa.Column("output_hash", sa.String(32), nullable=False),
        sa.Column("cost_tokens", sa.Integer, nullable=False),
    )
    op.create_table(
        "schemas",
        sa.Column("hash", sa.String(32), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    table = op.create_table(
        "state",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("generation", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(table, [{"id": 1, "generation": 0}])


def downgrade() -> None:
    for name in ("state", "schemas", "tools", "servers"):
        op.drop_table(name)
