"""The index of the audit trail. It is empty here: gateways fill it in small steps while they run."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table, with no line indexed."""
    op.create_table(
        "audit_terms",
        sa.Column("term", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO audit_ends (name, seq, digest) VALUES ('indexed', 0, '')")


def downgrade() -> None:
    """Drop the table."""
    op.execute("DELETE FROM audit_ends WHERE name = 'indexed'")
    op.drop_table("audit_terms")
