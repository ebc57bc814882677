"""Lines as log records of OpenTelemetry, by OTLP/HTTP; needs the extra `otel`."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import httpx2
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from maitred import __version__
from maitred.audit.destinations.base import DestinationError, Secrets, StreamLine, resolve_secrets
from maitred.signed_post import post

_TIMEOUT_S: Final = 30.0
_TOO_LARGE: Final = 413
_INFO, _WARN = 9, 13
_SHOWN: Final = ("who", "client", "surface", "action", "server", "tool", "outcome", "request_id")
_PATH: Final = "/v1/logs"


class OtlpDestination:
    """Posts batches to a collector. `secrets` returns the headers, each time."""

    def __init__(self, url: str, service_name: str, secrets: Secrets) -> None:
        self._url = url if url.rstrip("/").endswith(_PATH) else f"{url.rstrip('/')}{_PATH}"
        self._resource = Resource(
            attributes=[_text("service.name", service_name), _text("service.version", __version__)]
        )
        self._secrets = secrets

    async def send(self, lines: Sequence[StreamLine]) -> str:
        """Post one message with all lines; see `Destination`.

        Raises:
            DestinationError: The answer is no 2xx, or there is none.
        """
        scope = ScopeLogs(log_records=[_record(line) for line in lines])
        scope.scope.name = "maitred.audit"
        logs = ResourceLogs(resource=self._resource, scope_logs=[scope])
        body = ExportLogsServiceRequest(resource_logs=[logs]).SerializeToString()
        _, own = await resolve_secrets(self._secrets)
        headers = {"Content-Type": "application/x-protobuf", **own}
        try:
            status, answer = await post(self._url, body, headers, timeout_s=_TIMEOUT_S)
        except TimeoutError as error:
            raise DestinationError("it did not answer in time") from error
        except (httpx2.HTTPError, OSError) as error:
            raise DestinationError(f"it cannot be reached ({type(error).__name__})") from error
        if not httpx2.codes.is_success(status):
            raise DestinationError(f"it answered with status {status}", is_too_large=status == _TOO_LARGE)
        return _rejection_in(answer)

    def close(self) -> None:
        """Nothing is open between two messages."""


def _rejection_in(answer: bytes) -> str:
    """What a collector says of records that it did not take; the protocol forbids to send them again."""
    try:
        partial = ExportLogsServiceResponse.FromString(answer).partial_success
    except DecodeError:
        return ""
    count = partial.rejected_log_records
    return f"it rejected {count} of the last lines for good" if count else ""


def _record(line: StreamLine) -> LogRecord:
    attributes = [_text(f"maitred.{key}", str(line.fields[key])) for key in _SHOWN if line.fields.get(key)]
    attributes += [
        KeyValue(key="maitred.audit.seq", value=AnyValue(int_value=line.seq)),
        _text("maitred.audit.digest", line.digest),
        _text("maitred.audit.prev", str(line.fields.get("prev", ""))),
    ]
    return LogRecord(
        time_unix_nano=_nanoseconds(line.at),
        observed_time_unix_nano=time.time_ns(),
        severity_number=_severity(line),
        severity_text="WARN" if line.is_remarkable else "INFO",
        body=AnyValue(string_value=line.text),
        attributes=attributes,
        event_name="maitred.audit",
    )


def _severity(line: StreamLine) -> Any:
    return _WARN if line.is_remarkable else _INFO


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _nanoseconds(at: str) -> int:
    try:
        return int(datetime.fromisoformat(at).timestamp() * 1_000) * 1_000_000
    except ValueError:
        return 0
