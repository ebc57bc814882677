"""A collector of OpenTelemetry for tests: takes traces, metrics and logs by OTLP/HTTP, and decodes them."""

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, kw_only=True)
class ReceivedSpan:
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    attributes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReceivedLog:
    body: str
    time_ns: int
    attributes: Mapping[str, Any]


@dataclass(kw_only=True)
class Collector:
    """What came, and at which address it listens; while `status` is no 200, nothing is taken."""

    url: str = ""
    status: int = 200
    spans: list[ReceivedSpan] = field(default_factory=list)
    points: dict[str, list[tuple[Mapping[str, Any], Any]]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    logs: list[ReceivedLog] = field(default_factory=list)
    resource: dict[str, Any] = field(default_factory=dict)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def named(self, name: str) -> ReceivedSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def value(self, metric: str, **labels: str) -> Any:
        """The last point of a metric with these labels."""
        found = [value for given, value in self.points.get(metric, ()) if given == labels]
        return found[-1] if found else None

    def take(self, path: str, body: bytes) -> None:
        self.bodies.append(body)
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            for group in traces.resource_spans:
                self.resource.update(_values(group.resource.attributes))
                self.spans += [_span(span) for scope in group.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest.FromString(body)
            for resource in metrics.resource_metrics:
                for metric in (m for scope in resource.scope_metrics for m in scope.metrics):
                    self.units[metric.name] = metric.unit
                    self.points.setdefault(metric.name, []).extend(_points(metric))
        elif path == "/v1/logs":
            logs = ExportLogsServiceRequest.FromString(body)
            for records in logs.resource_logs:
                self.resource.update(_values(records.resource.attributes))
                self.logs += [_log(log) for scope in records.scope_logs for log in scope.log_records]


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def _span(span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        failed=span.status.code == 2,  # STATUS_CODE_ERROR
        attributes=_values(span.attributes),
    )


def _log(log: Any) -> ReceivedLog:
    return ReceivedLog(
        body=log.body.string_value, time_ns=log.time_unix_nano, attributes=_values(log.attributes)
    )


def _points(metric: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    data = getattr(metric, metric.WhichOneof("data"))
    for point in data.data_points:
        is_histogram = metric.WhichOneof("data") == "histogram"
        yield _values(point.attributes), (point.count if is_histogram else point.as_double)


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector that listens on loopback until the context is left."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            found.headers.append({name.lower(): value for name, value in self.headers.items()})
            if found.status == 200:  # OK
                found.take(self.path, body)
            self.send_response(found.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
