"""Fencing numbers of jobs that one process does at a time.

PostgreSQL tells listening processes of changes: of the generation, of decisions on servers, of tokens.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_TRIGGERS = (
    ("state", "UPDATE OF generation", "catalog"),
    ("approvals", "INSERT", "decisions"),
    ("registrations", "INSERT OR UPDATE OR DELETE", "decisions"),
    ("tokens", "UPDATE OR DELETE", "tokens"),
)


def upgrade() -> None:
    """Make the table and the triggers; SQLite has no notices, so there processes go on polling."""
    op.create_table(
        "job_fences",
        sa.Column("name", sa.String(220), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("held_until", sa.Float, nullable=False),
    )
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute(
        "CREATE FUNCTION maitred_notify() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_notify('maitred', TG_ARGV[0]); RETURN NULL; END $$"
    )
    for table, event, topic in _TRIGGERS:
        op.execute(
            f"CREATE TRIGGER maitred_notify_{table} AFTER {event} ON {table}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION maitred_notify('{topic}')"
        )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("job_fences")
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, _, _ in _TRIGGERS:
        op.execute(f"DROP TRIGGER maitred_notify_{table} ON {table}")
    op.execute("DROP FUNCTION maitred_notify()")
