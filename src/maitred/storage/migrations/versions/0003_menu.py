"""Categories and tags of tools, resources and prompts of servers, usage, spending and standings."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_SPENT = (
    "lists",
    "list_tokens",
    "answers",
    "answer_tokens",
    "results",
    "result_tokens",
    "raw_tokens",
)


def upgrade() -> None:
    """Add columns and make tables."""
    for column in (
        sa.Column("category", sa.String(64), nullable=False, server_default=""),
        sa.Column("confidence", sa.Float, nullable=False, server_default="0"),
        sa.Column("placed_by", sa.String(10), nullable=False, server_default=""),
        sa.Column("tags", sa.JSON, nullable=False, server_default="[]"),
        sa.Column("use_cases", sa.JSON, nullable=False, server_default="[]"),
        sa.Column("use_cases_by", sa.String(10), nullable=False, server_default=""),
    ):
        op.add_column("tools", column)
    op.add_column("state", sa.Column("placed_by", sa.String(64), nullable=False, server_default=""))
    op.add_column("state", sa.Column("tiers_at", sa.String(40), nullable=False, server_default=""))
    _make_offers()
    _make_usage()


def _make_offers() -> None:
    server = sa.ForeignKey("servers.name", ondelete="CASCADE")
    op.create_table(
        "offers",
        sa.Column("server", sa.String(200), server, primary_key=True),
        sa.Column("kind", sa.String(10), primary_key=True),
        sa.Column("key", sa.String(2000), primary_key=True),
        sa.Column("name", sa.String(2300), nullable=False),
        sa.Column("definition", sa.JSON, nullable=False),
    )


def _make_usage() -> None:
    op.create_table(
        "usage",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("server", sa.String(200), primary_key=True),
        sa.Column("raw_name", sa.String(1000), primary_key=True),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("errors", sa.BigInteger, nullable=False),
        sa.Column("total_ms", sa.Float, nullable=False),
        sa.Column("histogram", sa.JSON, nullable=False),
        sa.Column("last_used", sa.String(40), nullable=False),
    )
    op.create_table(
        "spending",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("principal", sa.String(200), primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _SPENT),
    )
    op.create_table(
        "standings",
        sa.Column("server", sa.String(200), primary_key=True),
        sa.Column("raw_name", sa.String(1000), primary_key=True),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("level", sa.String(10), nullable=False),
        sa.Column("usage", sa.JSON, nullable=False),
    )
