"""Counts what `maitred.telemetry.instruments` lists, for `/metrics` and for a collector alike.

Each gateway has one registry. Gauges are computed when they are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from maitred.audit.stream_store import StreamState
from maitred.calls.steps.count_usage import CallWatcher
from maitred.catalog.snapshot import Snapshot
from maitred.disclosure.answers import ServerStatus
from maitred.errors import StoreError
from maitred.gateway.stats import Stats
from maitred.gateway.visibility import ChangeWatcher
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.servers import State
from maitred.model.tools import Tool
from maitred.model.usage import Spending
from maitred.telemetry import instruments
from maitred.telemetry.activity import Activity
from maitred.telemetry.instruments import INSTRUMENTS, Instrument

_MOST_CHILDREN: Final = 10_000
"""Of the series of one metric; what comes after them is not counted, whatever its labels are made of."""


class MonitoredGateway(Protocol):
    """What the metrics need of a gateway; its methods are described there."""

    activity: Activity

    @property
    def held_here(self) -> int:
        """How many calls of this process wait for a person."""
        ...

    def watch(self, called: CallWatcher) -> None:
        """See `Gateway`."""
        ...

    def watch_visibility(self, changed: ChangeWatcher) -> None:
        """See `Operations`."""
        ...

    def whole_catalog(self, viewer: Viewer) -> Snapshot:
        """See `Operations`."""
        ...

    def servers(self, viewer: Viewer) -> Sequence[ServerStatus]:
        """See `Gateway`."""
        ...

    def visible_tools(self, viewer: Viewer) -> list[Tool]:
        """See `Gateway`."""
        ...

    def raw_tokens(self, viewer: Viewer) -> int:
        """See `TokenCounts`."""
        ...

    async def stats(self, days: int, *, viewer: Viewer) -> Stats:
        """See `Operations`."""
        ...

    async def audit_stream(self, viewer: Viewer) -> Mapping[str, StreamState]:
        """See `AuditMethods`."""
        ...


class Metrics:
    """Counts calls and requests, and reports gauges of the gateway."""

    def __init__(self, gateway: MonitoredGateway) -> None:
        self._gateway = gateway
        self._registry = CollectorRegistry()
        self._metrics: Mapping[str, Any] = {one.name: _make(one, self._registry) for one in INSTRUMENTS}
        self._children: dict[tuple[str, ...], Any] = {}
        gateway.watch(self._called)
        gateway.watch_visibility(
            lambda server, cause: self._count(instruments.VISIBILITY_CHANGES, server, cause)
        )
        gateway.activity.listen(self)

    def _child(self, instrument: Instrument, *labels: str) -> Any:
        """What counts one series; looking it up here is quicker than in the library."""
        key = (instrument.name, *labels)
        child = self._children.get(key)
        if child is None and len(self._children) < _MOST_CHILDREN:
            metric = self._metrics[instrument.name]
            child = self._children[key] = metric.labels(*labels) if labels else metric
        return child

    def _count(self, instrument: Instrument, *labels: str) -> None:
        if (child := self._child(instrument, *labels)) is not None:
            child.inc()

    def _observe(self, instrument: Instrument, value: float, *labels: str) -> None:
        if (child := self._child(instrument, *labels)) is not None:
            child.observe(value)

    def _called(self, server: str, ok: bool, elapsed_s: float) -> None:  # noqa: FBT001  # as the gateway tells
        self._count(instruments.CALLS, server)
        errors = self._child(instruments.CALL_ERRORS, server)  # a series of zeros from the first call on
        if not ok and errors is not None:
            errors.inc()
        self._observe(instruments.CALL_SECONDS, elapsed_s, server)

    def call_ended(self, server: str, outcome: str, overhead_s: float) -> None:
        """Count the end of a call."""
        self._count(instruments.CALL_OUTCOMES, server, outcome)
        self._observe(instruments.OVERHEAD_SECONDS, overhead_s)

    def requested(self, method: str, error: str, elapsed_s: float) -> None:
        """Count a request of an MCP client."""
        self._observe(instruments.MCP_SECONDS, elapsed_s, method, error)

    def searched(self, result: str, elapsed_s: float) -> None:
        """Count a search."""
        self._count(instruments.SEARCHES, result)
        self._observe(instruments.SEARCH_SECONDS, elapsed_s)

    def discovered(self, server: str, outcome: str) -> None:
        """Count a discovery."""
        self._count(instruments.DISCOVERIES, server, outcome)

    def page_used(self, route: str, cache: str) -> None:
        """Count a page of the menu: a `hit` in the cache, or a `miss`."""
        self._count(instruments.PAGES, route, cache)

    def http_requested(self, route: str, status: int) -> None:
        """Count a request that is being answered."""
        self._count(instruments.HTTP_REQUESTS, route, str(status))

    # --- reading ------------------------------------------------------------------------------------------

    async def text(self, viewer: Viewer) -> bytes:
        """All metrics, in the text format of Prometheus, for a viewer who may watch everything.

        Raises:
            NotAllowedError: The viewer may not.
        """
        await self._refresh(viewer)
        return generate_latest(self._registry)

    async def collect(self) -> Iterable[Metric]:
        """All metrics, for the collector of the operator."""
        await self._refresh(LOCAL_USER)
        return list(self._registry.collect())

    async def _refresh(self, viewer: Viewer) -> None:
        gateway = self._gateway
        snapshot = gateway.whole_catalog(viewer)
        statuses = gateway.servers(viewer)
        self._set(instruments.TOOLS, len(gateway.visible_tools(viewer)))
        self._set(instruments.SERVERS, len(statuses))
        states = [status.health.state for status in statuses]
        for state in State:
            self._set(instruments.SERVERS_BY_STATE, states.count(state), state.value)
        self._replace(
            instruments.SERVER_USABLE, {status.name: 0 if status.unwell else 1 for status in statuses}
        )
        self._set(instruments.GENERATION, snapshot.generation)
        self._set(instruments.RAW_LIST_TOKENS, gateway.raw_tokens(viewer))
        self._set(instruments.OPEN_CALLS, gateway.activity.open_calls)
        self._set(instruments.HELD_CALLS, gateway.held_here)
        self._replace(instruments.SESSIONS, gateway.activity.sessions)
        await self._refresh_tokens(viewer)
        await self._refresh_stream(viewer)

    async def _refresh_stream(self, viewer: Viewer) -> None:
        try:
            states = await self._gateway.audit_stream(viewer)
        except StoreError:
            states = {}
        self._replace(instruments.STREAM_WAITING, {name: one.waiting for name, one in states.items()})
        failing = {name: 1 if one.position.error else 0 for name, one in states.items()}
        self._replace(instruments.STREAM_FAILING, failing)

    async def _refresh_tokens(self, viewer: Viewer) -> None:
        try:
            day = datetime.now(UTC).date().isoformat()
            today = [row for row in (await self._gateway.stats(1, viewer=viewer)).spending if row.day == day]
        except StoreError:
            self._replace(instruments.TOKENS_TODAY, {})  # no figure is better than an old one
            return
        spent, raw = sum(row.spent for row in today), sum(row.raw_tokens for row in today)
        self._replace(
            instruments.TOKENS_TODAY, {"spent": spent, "raw": raw, "saved": sum(_saved(row) for row in today)}
        )

    def _set(self, instrument: Instrument, value: float, *labels: str) -> None:
        metric = self._metrics[instrument.name]
        (metric.labels(*labels) if labels else metric).set(value)

    def _replace(self, instrument: Instrument, values: Mapping[str, float]) -> None:
        """Set the series of a metric with one label, and drop those that are no more."""
        self._metrics[instrument.name].clear()
        for label, value in values.items():
            self._set(instrument, value, label)


def _saved(row: Spending) -> int:
    return max(0, row.raw_tokens - row.spent)


def _make(instrument: Instrument, registry: CollectorRegistry) -> Any:
    name, about, labels = instrument.name, instrument.about, instrument.labels
    if instrument.kind == "histogram":
        return Histogram(name, about, labels, buckets=instrument.buckets, registry=registry)
    return (Counter if instrument.kind == "counter" else Gauge)(name, about, labels, registry=registry)
