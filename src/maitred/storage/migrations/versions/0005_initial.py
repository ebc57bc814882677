"""All tables as they are at the first release. Its number is that of the last revision before the release.

So a catalog of that revision is taken over as it is. Later revisions change the tables; this one stays.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = None

metadata = sa.MetaData()

sa.Table(
    "servers",
    metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("facts", sa.JSON, nullable=False),
    sa.Column("synced_at", sa.String(40), nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("notes", sa.JSON, nullable=False),
    sa.Column("judged_by", sa.String(64), nullable=False, server_default=""),
)

sa.Table(
    "tools",
    metadata,
    sa.Column("server", sa.String(200), sa.ForeignKey("servers.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("raw_name", sa.String(1000), primary_key=True),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("annotations", sa.JSON, nullable=False),
    sa.Column("extra", sa.JSON, nullable=False),
    sa.Column("input_hash", sa.String(32), nullable=False),
    sa.Column("output_hash", sa.String(32), nullable=False),
    sa.Column("cost_tokens", sa.Integer, nullable=False),
    sa.Column("category", sa.String(64), nullable=False, server_default=""),
    sa.Column("confidence", sa.Float, nullable=False, server_default="0"),
    sa.Column("placed_by", sa.String(10), nullable=False, server_default=""),
    sa.Column("tags", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("use_cases", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("use_cases_by", sa.String(10), nullable=False, server_default=""),
    sa.Column("mending", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("raw_input_hash", sa.String(32), nullable=False, server_default=""),
    sa.Column("withheld", sa.Text, nullable=False, server_default=""),
)

sa.Table(
    "schemas",
    metadata,
    sa.Column("hash", sa.String(32), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

sa.Table(
    "vectors",
    metadata,
    sa.Column("model", sa.String(100), primary_key=True),
    sa.Column("digest", sa.String(32), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

sa.Table(
    "memos",
    metadata,
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
)

sa.Table(
    "offers",
    metadata,
    sa.Column("server", sa.String(200), sa.ForeignKey("servers.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("kind", sa.String(10), primary_key=True),
    sa.Column("key", sa.String(2000), primary_key=True),
    sa.Column("name", sa.String(2300), nullable=False),
    sa.Column("definition", sa.JSON, nullable=False),
    sa.Column("withheld", sa.Text, nullable=False, server_default=""),
)

sa.Table(
    "usage",
    metadata,
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("server", sa.String(200), primary_key=True),
    sa.Column("raw_name", sa.String(1000), primary_key=True),
    sa.Column("calls", sa.BigInteger, nullable=False),
    sa.Column("errors", sa.BigInteger, nullable=False),
    sa.Column("total_ms", sa.Float, nullable=False),
    sa.Column("histogram", sa.JSON, nullable=False),
    sa.Column("last_used", sa.String(40), nullable=False),
)

sa.Table(
    "spending",
    metadata,
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("principal", sa.String(200), primary_key=True),
    *(
        sa.Column(name, sa.BigInteger, nullable=False)
        for name in (
            "lists",
            "list_tokens",
            "answers",
            "answer_tokens",
            "results",
            "result_tokens",
            "raw_tokens",
        )
    ),
)

sa.Table(
    "standings",
    metadata,
    sa.Column("server", sa.String(200), primary_key=True),
    sa.Column("raw_name", sa.String(1000), primary_key=True),
    sa.Column("score", sa.Float, nullable=False),
    sa.Column("level", sa.String(10), nullable=False),
    sa.Column("usage", sa.JSON, nullable=False),
)

state = sa.Table(
    "state",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("placed_by", sa.String(64), nullable=False, server_default=""),
    sa.Column("tiers_at", sa.String(40), nullable=False, server_default=""),
    sa.Column("mended_by", sa.String(64), nullable=False, server_default=""),
)

sa.Table(
    "registrations",
    metadata,
    sa.Column("server", sa.String(200), primary_key=True),
    sa.Column("manifest", sa.Text, nullable=False),
    sa.Column("manifest_hash", sa.String(64), nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("who", sa.String(200), nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
    sa.Column("record", sa.Text, nullable=False),
)

sa.Table(
    "approvals",
    metadata,
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

sa.Table(
    "definitions",
    metadata,
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

sa.Table(
    "tokens",
    metadata,
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

sa.Table(
    "logins",
    metadata,
    sa.Column("server", sa.String(200), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("version", sa.String(32), nullable=False),
    sa.Column("held_until", sa.Float, nullable=False),
)

sa.Table(
    "audit",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(40), nullable=False, index=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)

audit_ends = sa.Table(
    "audit_ends",
    metadata,
    sa.Column("name", sa.String(10), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)


def upgrade() -> None:
    """Make the tables; the generation is 0, and the audit trail begins with nothing."""
    metadata.create_all(op.get_bind(), checkfirst=False)
    op.bulk_insert(state, [{"id": 1, "generation": 0}])
    op.bulk_insert(audit_ends, [{"name": name, "seq": 0, "digest": ""} for name in ("anchor", "head")])
