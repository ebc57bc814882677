"""Calls that wait for a person."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "held_calls",
        sa.Column("id", sa.String(20), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("tool_digest", sa.String(64), nullable=False),
        sa.Column("principal", sa.String(200), nullable=False),
        sa.Column("server", sa.String(200), nullable=False),
        sa.Column("tool", sa.String(1000), nullable=False),
        sa.Column("definition", sa.String(64), nullable=False),
        sa.Column("arguments_hash", sa.String(64), nullable=False),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("decider", sa.String(10), nullable=False),
        sa.Column("choices", sa.String(40), nullable=False),
        sa.Column("session", sa.String(64), nullable=False),
        sa.Column("client", sa.String(200), nullable=False),
        sa.Column("surface", sa.String(10), nullable=False),
        sa.Column("chain", sa.String(40), nullable=False),
        sa.Column("request_id", sa.String(128), nullable=False),
        sa.Column("gateway", sa.String(32), nullable=False),
        sa.Column("held_at", sa.String(40), nullable=False),
        sa.Column("expires_at", sa.String(40), nullable=False),
        sa.Column("alive_until", sa.String(40), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("decision", sa.String(10), nullable=False, server_default=""),
        sa.Column("decided_by", sa.String(200), nullable=False, server_default=""),
        sa.Column("decided_at", sa.String(40), nullable=False, server_default=""),
    )
    for name in ("digest", "tool_digest", "definition", "held_at", "state"):
        op.create_index(f"ix_held_calls_{name}", "held_calls", [name])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("held_calls")
