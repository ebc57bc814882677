"""A chain of the audit trail for each process on PostgreSQL, and a global chain of their heads.

Lines that are there already stay one chain, and are verified as before.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Make the tables, which stay empty on SQLite, and the sequence that numbers lines of all chains."""
    op.create_table(
        "audit_replicas",
        sa.Column("replica", sa.String(20), primary_key=True),
        sa.Column("first_place", sa.BigInteger, nullable=False),
        sa.Column("first_digest", sa.String(64), nullable=False),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
    )
    op.create_table(
        "audit_anchors",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_index("ix_audit_anchors_at", "audit_anchors", ["at"])
    op.create_table(
        "audit_anchored",
        sa.Column("replica", sa.String(20), primary_key=True),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
    )
    op.execute("INSERT INTO audit_ends (name, seq, digest) VALUES ('anchors', 0, '')")
    op.execute("INSERT INTO audit_ends (name, seq, digest) VALUES ('anchors_0', 0, '')")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE SEQUENCE audit_seq")


def downgrade() -> None:
    """Drop them."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP SEQUENCE audit_seq")
    op.execute("DELETE FROM audit_ends WHERE name IN ('anchors', 'anchors_0')")
    op.drop_table("audit_anchored")
    op.drop_index("ix_audit_anchors_at", "audit_anchors")
    op.drop_table("audit_anchors")
    op.drop_table("audit_replicas")
