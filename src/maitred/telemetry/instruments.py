"""Every metric of the gateway, by its name in Prometheus; `maitred.gateway.metrics` counts them.

Labels have few values: configured servers, declared routes, known methods and codes of errors. No label has
a tool, a text of a client, or a principal. Over OTLP a metric has the same name with dots; the unit of a name
in `_seconds` is `s`, so that a collector makes the name in Prometheus again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

InstrumentKind = Literal["counter", "gauge", "histogram"]

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_FINE: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_CONVENTION: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The bounds that OpenTelemetry's conventions for MCP give."""


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """One metric. `buckets` are the upper bounds of a histogram, in the unit of the name."""

    name: str
    kind: InstrumentKind
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def exposed_names(self) -> Sequence[str]:
        """The names that a query of Prometheus may contain."""
        if self.kind == "counter":
            return [f"{self.name}_total"]
        if self.kind == "histogram":
            return [f"{self.name}_{part}" for part in ("bucket", "count", "sum")]
        return [self.name]

    @property
    def otlp_name(self) -> str:
        """Its name over OTLP."""
        return self.name.removesuffix("_seconds").replace("_", ".")

    @property
    def unit(self) -> str:
        """Its unit over OTLP; empty for numbers of things."""
        return "s" if self.name.endswith("_seconds") else ""


def otlp_label(label: str) -> str:
    """The name of a label over OTLP, where those of the conventions have dots."""
    return label.replace("_", ".")


CALLS: Final = Instrument(
    name="maitred_calls",
    kind="counter",
    about="Calls of tools that reached their server.",
    labels=("server",),
)
CALL_ERRORS: Final = Instrument(
    name="maitred_call_errors", kind="counter", about="Calls that their server failed.", labels=("server",)
)
CALL_SECONDS: Final = Instrument(
    name="maitred_call_seconds",
    kind="histogram",
    about="How long servers took for calls.",
    labels=("server",),
    buckets=_SECONDS,
)
CALL_OUTCOMES: Final = Instrument(
    name="maitred_call_outcomes",
    kind="counter",
    about="Calls of tools by how they ended: ok, tool_error, input_required or the code of an error.",
    labels=("server", "outcome"),
)
OVERHEAD_SECONDS: Final = Instrument(
    name="maitred_overhead_seconds",
    kind="histogram",
    about="What the gateway itself adds to a call: without its server, and without waiting for a person.",
    buckets=_FINE,
)
MCP_SECONDS: Final = Instrument(
    name="mcp_server_operation_duration_seconds",
    kind="histogram",
    about="How long requests of MCP clients took.",
    labels=("mcp_method_name", "error_type"),
    buckets=_CONVENTION,
)
SEARCHES: Final = Instrument(
    name="maitred_searches",
    kind="counter",
    about="Searches for tools, by what they found.",
    labels=("result",),
)
SEARCH_SECONDS: Final = Instrument(
    name="maitred_search_seconds", kind="histogram", about="How long searches took.", buckets=_FINE
)
DISCOVERIES: Final = Instrument(
    name="maitred_discoveries",
    kind="counter",
    about="How often the tools of a server were listed.",
    labels=("server", "outcome"),
)
SESSIONS: Final = Instrument(
    name="maitred_sessions", kind="gauge", about="Open sessions of MCP clients.", labels=("transport",)
)
OPEN_CALLS: Final = Instrument(
    name="maitred_open_calls", kind="gauge", about="Calls of tools that have not ended in this process."
)
HELD_CALLS: Final = Instrument(
    name="maitred_held_calls", kind="gauge", about="Calls that wait for a person in this process."
)
TOOLS: Final = Instrument(name="maitred_tools", kind="gauge", about="Tools that may be shown.")
SERVERS: Final = Instrument(name="maitred_servers", kind="gauge", about="Servers that are configured.")
SERVERS_BY_STATE: Final = Instrument(
    name="maitred_servers_by_state", kind="gauge", about="Servers by state.", labels=("state",)
)
SERVER_USABLE: Final = Instrument(
    name="maitred_server_usable",
    kind="gauge",
    about="1 if a server runs or would start for a call, 0 if it cannot be used now.",
    labels=("server",),
)
GENERATION: Final = Instrument(
    name="maitred_catalog_generation", kind="gauge", about="The catalog's generation."
)
RAW_LIST_TOKENS: Final = Instrument(
    name="maitred_raw_list_tokens", kind="gauge", about="What a list of all definitions costs."
)
TOKENS_TODAY: Final = Instrument(
    name="maitred_tokens_today",
    kind="gauge",
    about=(
        "Tokens of all principals since midnight UTC: spent on finding tools, what raw lists cost,"
        " and what was saved."
    ),
    labels=("kind",),
)
VISIBILITY_CHANGES: Final = Instrument(
    name="maitred_visibility_changes",
    kind="counter",
    about="How often other tools of a server made sense than before.",
    labels=("server", "cause"),
)
PAGES: Final = Instrument(
    name="maitred_pages",
    kind="counter",
    about="Pages of the menu, answered from the cache or made.",
    labels=("route", "cache"),
)
HTTP_REQUESTS: Final = Instrument(
    name="maitred_http_requests", kind="counter", about="Requests answered.", labels=("route", "status")
)
STREAM_WAITING: Final = Instrument(
    name="maitred_audit_stream_waiting",
    kind="gauge",
    about="Lines of the audit trail that a destination has not taken yet.",
    labels=("destination",),
)
STREAM_FAILING: Final = Instrument(
    name="maitred_audit_stream_failing",
    kind="gauge",
    about="1 if the last attempt to send lines to a destination failed.",
    labels=("destination",),
)

INSTRUMENTS: Final = (
    CALLS, CALL_ERRORS, CALL_SECONDS, CALL_OUTCOMES, OVERHEAD_SECONDS, MCP_SECONDS, SEARCHES, SEARCH_SECONDS,
    DISCOVERIES, SESSIONS, OPEN_CALLS, HELD_CALLS, TOOLS, SERVERS, SERVERS_BY_STATE, SERVER_USABLE,
    GENERATION, RAW_LIST_TOKENS, TOKENS_TODAY, VISIBILITY_CHANGES, PAGES, HTTP_REQUESTS, STREAM_WAITING,
    STREAM_FAILING,
)  # fmt: skip
