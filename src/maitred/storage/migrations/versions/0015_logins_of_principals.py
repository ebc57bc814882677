"""Whose each login to a server is."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def _replace(columns: list[sa.Column[str]], copied: str) -> None:
    """Make the table again, since the principal is part of its key, and copy the logins of the gateway."""
    op.rename_table("logins", "former_logins")
    op.create_table(
        "logins",
        *columns,
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("held_until", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint(*(column.name for column in columns), name="logins_key"),
    )
    op.execute(f"INSERT INTO logins (server, body, version, held_until) {copied}")
    op.drop_table("former_logins")


def upgrade() -> None:
    """The logins that there are belong to the gateway, so to no principal."""
    owner = sa.Column("principal", sa.String(400), nullable=False, server_default="")
    server = sa.Column("server", sa.String(200), nullable=False)
    _replace([server, owner], "SELECT server, body, version, held_until FROM former_logins")


def downgrade() -> None:
    """Forget the logins of principals."""
    server = sa.Column("server", sa.String(200), nullable=False)
    _replace([server], "SELECT server, body, version, held_until FROM former_logins WHERE principal = ''")
