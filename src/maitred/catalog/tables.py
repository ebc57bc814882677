"""The tables of the catalog; `migrations/` makes them, `store` reads and writes them.

Schemas stand in a table of their own, keyed by content hash: many tools share one, a tool row stays thin, and
a change of a description does not rewrite a schema.
"""

import sqlalchemy as sa

metadata = sa.MetaData()

servers = sa.Table(
    "servers",
    metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("facts", sa.JSON, nullable=False),
    sa.Column("synced_at", sa.String(40), nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("notes", sa.JSON, nullable=False),
)

tools = sa.Table(
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
)

schemas = sa.Table(
    "schemas",
    metadata,
    sa.Column("hash", sa.String(32), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

vectors = sa.Table(
    "vectors",
    metadata,
    sa.Column("model", sa.String(100), primary_key=True),
    sa.Column("digest", sa.String(32), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""Vectors of tools by the model that made them and the content they were made of; a cache, safe to lose."""

state = sa.Table(
    "state",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("generation", sa.BigInteger, nullable=False),
)
"""One row: the generation, raised by every write that a reader could notice."""
