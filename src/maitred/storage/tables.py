"""All tables; `migrations/` makes them, and each store reads and writes its own.

Schemas have their own table, by content hash: many tools share one, rows of tools stay small, and a change of
a description does not rewrite a schema.
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
    sa.Column("judged_by", sa.String(64), nullable=False, server_default=""),
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
    sa.Column("category", sa.String(64), nullable=False, server_default=""),
    sa.Column("confidence", sa.Float, nullable=False, server_default="0"),
    sa.Column("placed_by", sa.String(10), nullable=False, server_default=""),
    sa.Column("tags", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("use_cases", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("use_cases_by", sa.String(10), nullable=False, server_default=""),
    sa.Column("mending", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("raw_input_hash", sa.String(32), nullable=False, server_default=""),
    sa.Column("withheld", sa.Text, nullable=False, server_default=""),
    sa.Column("subcategory", sa.String(64), nullable=False, server_default=""),
    sa.Column("tool_group", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("since", sa.String(40), nullable=False, server_default=""),
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
"""Vectors of tools, by the model that made them and the content; a cache, safe to lose."""

memos = sa.Table(
    "memos",
    metadata,
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
)
"""Answers of mediation about tools, by the content they are about, with their Unix time; a cache."""

offers = sa.Table(
    "offers",
    metadata,
    sa.Column("server", sa.String(200), sa.ForeignKey("servers.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("kind", sa.String(10), primary_key=True),
    sa.Column("key", sa.String(2000), primary_key=True),
    sa.Column("name", sa.String(2300), nullable=False),
    sa.Column("definition", sa.JSON, nullable=False),
    sa.Column("withheld", sa.Text, nullable=False, server_default=""),
)
"""Resources, templates and prompts of the servers."""

usage = sa.Table(
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
"""Calls by tool and day (UTC); the histogram counts calls by latency, see `maitred.usage.recorder`."""

observations = sa.Table(
    "observations",
    metadata,
    sa.Column("server", sa.String(200), primary_key=True),
    sa.Column("raw_name", sa.String(1000), primary_key=True),
    sa.Column("definition", sa.String(32), nullable=False),
    sa.Column("answers", sa.Integer, nullable=False),
    sa.Column("answer_schema", sa.Text, nullable=False),
    sa.Column("example", sa.Text, nullable=False),
    sa.Column("day", sa.String(10), nullable=False),
    sa.Column("argument_schema", sa.Text, nullable=False, server_default=""),
)
"""What calls showed of each tool; see `maitred.usage.observations`."""

spending = sa.Table(
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
    *(
        sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
        for name in ("calls", "argument_tokens", "cost_micros")
    ),
)
"""Tokens by principal and day (UTC)."""

standings = sa.Table(
    "standings",
    metadata,
    sa.Column("server", sa.String(200), primary_key=True),
    sa.Column("raw_name", sa.String(1000), primary_key=True),
    sa.Column("score", sa.Float, nullable=False),
    sa.Column("level", sa.String(10), nullable=False),
    sa.Column("usage", sa.JSON, nullable=False),
)
"""The score of each tool when tiers were last computed; tools that were never used have no row."""

state = sa.Table(
    "state",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("placed_by", sa.String(64), nullable=False, server_default=""),
    sa.Column("tiers_at", sa.String(40), nullable=False, server_default=""),
    sa.Column("mended_by", sa.String(64), nullable=False, server_default=""),
)
"""One row. Every write that a reader could notice raises the generation. The others are the rules of
categories and of mediation that made the present tools, and the time at which tiers were computed."""

job_fences = sa.Table(
    "job_fences",
    metadata,
    sa.Column("name", sa.String(220), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("held_until", sa.Float, nullable=False),
)
"""The last fencing number of each job, and on SQLite until when it is taken; see `maitred.storage.leader`."""

registrations = sa.Table(
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
"""Servers that are registered by a manifest and not withdrawn."""

approvals = sa.Table(
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
"""The log of approvals: the events of each server, numbered from 1; it outlives the registration."""

suspended_principals = sa.Table(
    "suspended_principals",
    metadata,
    sa.Column("principal", sa.String(500), primary_key=True),
    sa.Column("who", sa.String(500), nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)
"""Principals whose tokens are refused."""

principal_groups = sa.Table(
    "principal_groups",
    metadata,
    sa.Column("principal", sa.String(500), primary_key=True),
    sa.Column("groups", sa.Text, nullable=False),
)
"""The groups that each principal came with last, as a JSON list."""

allow_events = sa.Table(
    "allow_events",
    metadata,
    sa.Column("turn", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("pattern", sa.String(500), nullable=False),
    sa.Column("action", sa.String(10), nullable=False),
    sa.Column("who", sa.String(200), nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)
"""The history of the allow list, numbered from 1; see `maitred.admission.allow_list`."""

definitions = sa.Table(
    "definitions",
    metadata,
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""Definitions about which an operator decided, by hash."""

tokens = sa.Table(
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
"""Access tokens by their public id; the digest is the SHA-256 of the whole token."""

logins = sa.Table(
    "logins",
    metadata,
    sa.Column("server", sa.String(200), primary_key=True),
    sa.Column("principal", sa.String(400), primary_key=True, server_default=""),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("version", sa.String(32), nullable=False),
    sa.Column("held_until", sa.Float, nullable=False),
)
"""Logins to servers, encrypted; `principal` is empty for those of the gateway itself.

See `maitred.backends.oauth.vault`.
"""

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(40), nullable=False, index=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)
"""The lines of the audit trail; see `maitred.audit.log`."""

audit_ends = sa.Table(
    "audit_ends",
    metadata,
    sa.Column("name", sa.String(10), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)
"""Rows: `anchor`, the line before the oldest stored line, `head`, the last line, and `indexed`; of the global
chain `anchors` and `anchors_0`, its last anchor and the one before its oldest."""

audit_replicas = sa.Table(
    "audit_replicas",
    metadata,
    sa.Column("replica", sa.String(20), primary_key=True),
    sa.Column("first_place", sa.BigInteger, nullable=False),
    sa.Column("first_digest", sa.String(64), nullable=False),
    sa.Column("place", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)
"""The chain of each process that writes beside others: the line before its oldest one, and its last line.
Only PostgreSQL has some; see `maitred.audit.replica_chain`."""

audit_anchors = sa.Table(
    "audit_anchors",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(40), nullable=False, index=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)
"""The global chain: each anchor has the last lines of the chains that grew since the one before."""

audit_anchored = sa.Table(
    "audit_anchored",
    metadata,
    sa.Column("replica", sa.String(20), primary_key=True),
    sa.Column("place", sa.BigInteger, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)
"""Up to which line each chain is anchored, and since when; beside `audit_replicas`, whose rows are locked."""

audit_terms = sa.Table(
    "audit_terms",
    metadata,
    sa.Column("term", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)
"""By which names lines of the trail are found, up to the mark `indexed`; see `maitred.audit.line_index`."""

audit_answers = sa.Table(
    "audit_answers",
    metadata,
    sa.Column("digest", sa.String(32), primary_key=True),
    sa.Column("at", sa.String(40), nullable=False, index=True),
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""Texts of answers beside the trail, compressed; see `maitred.audit.answers`."""

audit_stream = sa.Table(
    "audit_stream",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("skipped", sa.BigInteger, nullable=False),
    sa.Column("sent_at", sa.String(40), nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("failed_at", sa.String(40), nullable=False),
    sa.Column("owner", sa.String(32), nullable=False),
    sa.Column("alive_until", sa.String(40), nullable=False),
)
"""How far each destination has taken the lines of the trail; see `maitred.audit.stream_store`."""

shared_values = sa.Table(
    "shared_values",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("until", sa.Float, nullable=False, index=True),
)
"""What gateways share for a while; see `maitred.storage.shared_postgres`. This table and the next two are
unlogged, and empty on SQLite."""

shared_buckets = sa.Table(
    "shared_buckets",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("tokens", sa.Float, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
)
"""The token buckets of rate limits."""

shared_slots = sa.Table(
    "shared_slots",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("holder", sa.String(60), primary_key=True),
    sa.Column("until", sa.Float, nullable=False),
)
"""The calls that run of principals and teams whose calls at the same time are limited."""

held_calls = sa.Table(
    "held_calls",
    metadata,
    sa.Column("id", sa.String(20), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False, index=True),
    sa.Column("tool_digest", sa.String(64), nullable=False, index=True),
    sa.Column("principal", sa.String(200), nullable=False),
    sa.Column("server", sa.String(200), nullable=False),
    sa.Column("tool", sa.String(1000), nullable=False),
    sa.Column("definition", sa.String(64), nullable=False, index=True),
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
    sa.Column("held_at", sa.String(40), nullable=False, index=True),
    sa.Column("expires_at", sa.String(40), nullable=False),
    sa.Column("alive_until", sa.String(40), nullable=False),
    sa.Column("state", sa.String(10), nullable=False, index=True),
    sa.Column("decision", sa.String(10), nullable=False, server_default=""),
    sa.Column("decided_by", sa.String(200), nullable=False, server_default=""),
    sa.Column("decided_at", sa.String(40), nullable=False, server_default=""),
)
"""Calls that wait for a person, and decisions about them. A gateway moves `alive_until` of those it holds."""

replicas = sa.Table(
    "replicas",
    metadata,
    sa.Column("id", sa.String(20), primary_key=True),
    sa.Column("role", sa.String(10), nullable=False),
    sa.Column("address", sa.String(400), nullable=False),
    sa.Column("version", sa.String(40), nullable=False),
    sa.Column("alive_until", sa.Float, nullable=False),
)
"""The gateways on this database that are alive, on PostgreSQL; see `maitred.replicas.membership`."""

server_owners = sa.Table(
    "server_owners",
    metadata,
    sa.Column("name", sa.String(1000), primary_key=True),
    sa.Column("replica", sa.String(20), nullable=False, index=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
"""Which replica runs an instance of a server, as long as it is alive; see `maitred.backends.ownership`."""
