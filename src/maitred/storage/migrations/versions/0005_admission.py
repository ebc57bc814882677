"""Registrations, the log of approvals, what was approved, tokens, logins and the audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the tables; the audit trail begins with nothing."""
    for table in ("tools", "offers"):
        op.add_column(table, sa.Column("withheld", sa.Text, nullable=False, server_default=""))
    op.add_column("servers", sa.Column("judged_by", sa.String(64), nullable=False, server_default=""))
    _make_registry()
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(20), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("principal", sa.String(200), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("scope", sa.JSON, nullable=False),
        sa.Column("made_by", sa.String(200), nullable=False),
        sa.Column("made_at", sa.String(40), nullable=False),
        sa.Column("expires_at", sa.String(40), nullable=False, server_default=""),
        sa.Column("revoked_at", sa.String(40), nullable=False, server_default=""),
        sa.Column("revoked_by", sa.String(200), nullable=False, server_default=""),
    )
    op.create_table(
        "logins",
        sa.Column("server", sa.String(200), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("held_until", sa.Float, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    ends = op.create_table(
        "audit_ends",
        sa.Column("name", sa.String(10), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.bulk_insert(ends, [{"name": name, "seq": 0, "digest": ""} for name in ("anchor", "head")])


def _make_registry() -> None:
    op.create_table(
        "registrations",
        sa.Column("server", sa.String(200), primary_key=True),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("manifest_hash", sa.String(64), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("record", sa.Text, nullable=False),
    )
    op.create_table(
        "approvals",
        sa.Column("server", sa.String(200), primary_key=True),
        sa.Column("turn", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("manifest", sa.String(64), nullable=False),
        sa.Column("image", sa.String(200), nullable=False),
        sa.Column("definition", sa.String(64), nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
    )
    op.create_table(
        "definitions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
