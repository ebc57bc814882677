"""Send spans and metrics to a collector by OTLP/HTTP; needs the extra `otel`, and loads with a collector.

Spans wait in a bounded queue, and threads of the SDK send them: no request waits for a collector. What the
queue cannot hold is dropped. Metrics are sums, so a lost message loses nothing. A collector that does not
answer causes one warning, and one line when it answers again.
"""

import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
import structlog
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

from maitred import __version__
from maitred.background import Background
from maitred.telemetry.otlp_metrics import metrics_data
from maitred.telemetry.spans import OtelTracer

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = structlog.get_logger(__name__)

_LEAVE_S: Final = 5.0
_QUEUE: Final = 2_048
_BATCH: Final = 512
_FIRST_METRICS_S: Final = 1.0
_NOISY: Final = (
    "opentelemetry.exporter.otlp",
    "opentelemetry.sdk.trace",
    "opentelemetry.sdk._shared_internal",
)


@dataclass(frozen=True, kw_only=True)
class CollectorOptions:
    """Where and what to send; an empty `endpoint` leaves the address to the variables of OpenTelemetry.

    `sample` is the share of new traces that is sent; `None` leaves it to the variables.
    """

    endpoint: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    service_name: str = "maitred"
    traces: bool = True
    metrics: bool = True
    metrics_every_s: float = 60.0
    export_every_s: float = 5.0
    sample: float | None = None
    takes_baggage: bool = False

    def address(self, signal: str) -> str | None:
        """The address for a signal, `traces` or `metrics`; `None` leaves it to the variables."""
        return f"{self.endpoint.rstrip('/')}/v1/{signal}" if self.endpoint else None


class Reachability:
    """Warns once when a collector cannot be reached, and says when it can be again."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._is_away = False

    def note(self, *, ok: bool) -> None:
        """The collector took something, or did not."""
        if ok and self._is_away:
            log.info("the collector takes telemetry again", signal=self._noun)
        elif not ok and not self._is_away:
            log.warning("the collector does not take telemetry; some of it is lost", signal=self._noun)
        self._is_away = not ok


class _WatchedExporter(SpanExporter):
    """Sends spans, and notes whether they arrived."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._reachability = Reachability("traces")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self._reachability.note(ok=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class TelemetryExporter:
    """Sends to one collector. `tracer` is for the gateway; `sending` must be open meanwhile."""

    def __init__(self, options: CollectorOptions) -> None:
        self._options = options
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: options.service_name}
        self._resource = Resource.create({**named, SERVICE_VERSION: __version__})
        for name in _NOISY:  # `Reachability` says it once
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._provider = self._make_provider() if options.traces else None
        self.tracer = (
            OtelTracer(self._provider, takes_baggage=options.takes_baggage) if self._provider else None
        )
        self._started_ns = time.time_ns()

    def _make_provider(self) -> TracerProvider:
        options = self._options
        sampler = None if options.sample is None else ParentBasedTraceIdRatio(options.sample)
        provider = TracerProvider(sampler, self._resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=options.address("traces"), headers=dict(options.headers) or None)
        provider.add_span_processor(
            BatchSpanProcessor(
                _WatchedExporter(exporter),
                max_queue_size=_QUEUE,
                max_export_batch_size=_BATCH,
                schedule_delay_millis=options.export_every_s * 1_000,
            )
        )
        return provider

    @asynccontextmanager
    async def sending(self, collect: Callable[[], Awaitable[Iterable["Metric"]]]) -> AsyncIterator[None]:
        """Send until the context is left, and the rest then, for some seconds; `collect` reads all."""
        exporter = self._make_metric_exporter() if self._options.metrics else None
        try:
            async with Background() as background:
                if exporter is not None:
                    background.start(self._send_metrics, exporter, collect)
                yield
        finally:
            with anyio.move_on_after(_LEAVE_S, shield=True):
                if exporter is not None:
                    await self._export(exporter, collect, anyio.CapacityLimiter(1))
                await anyio.to_thread.run_sync(self._end, abandon_on_cancel=True)
            if exporter is not None:
                exporter.shutdown()

    def _make_metric_exporter(self) -> OTLPMetricExporter:
        options = self._options
        return OTLPMetricExporter(endpoint=options.address("metrics"), headers=dict(options.headers) or None)

    def _end(self) -> None:
        if self._provider is not None:
            self._provider.shutdown()

    async def _export(
        self,
        exporter: OTLPMetricExporter,
        collect: Callable[[], Awaitable[Iterable["Metric"]]],
        limiter: anyio.CapacityLimiter,
    ) -> bool:
        """Send all metrics once; false if they did not arrive."""
        try:
            families = await collect()
        except Exception:  # a figure that cannot be computed ends neither the rest nor the gateway
            log.exception("metrics could not be read")
            return True
        data = metrics_data(families, self._resource, self._started_ns, time.time_ns())
        result = await anyio.to_thread.run_sync(
            exporter.export, data, abandon_on_cancel=True, limiter=limiter
        )
        return result is MetricExportResult.SUCCESS

    async def _send_metrics(
        self, exporter: OTLPMetricExporter, collect: Callable[[], Awaitable[Iterable["Metric"]]]
    ) -> None:
        every_s, reachability = self._options.metrics_every_s, Reachability("metrics")
        limiter = anyio.CapacityLimiter(1)
        await anyio.sleep(min(_FIRST_METRICS_S, every_s))
        while True:
            reachability.note(ok=await self._export(exporter, collect, limiter))
            await anyio.sleep(every_s)
