"""Faults of the sections about monitoring: `telemetry`, `usage`, and destinations of the audit trail."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from maitred.config.monitoring_settings import ModelPrice, Telemetry, UsageSettings
from maitred.config.sections import is_loopback
from maitred.config.settings import Audit, AuditDestination

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SYSLOG: Final = ("udp", "tcp", "tls", "unix")


def telemetry_faults(section: Telemetry) -> Iterator[tuple[str | Sequence[str], str]]:
    """Yield the faults of the section: pairs of keys below it and a text."""
    if section.endpoint and (fault := _http_fault(section.endpoint)):
        yield "endpoint", fault
    elif section.endpoint.rstrip("/").endswith(("/v1/traces", "/v1/metrics")):
        yield "endpoint", "must be the address without /v1/traces or /v1/metrics; maitred adds them"
    yield from _header_faults(["headers"], section.headers)


def stream_faults(section: Audit) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the faults of the destinations of the audit trail: pairs of keys below `audit` and a text."""
    for name, destination in section.stream.items():
        at = ["stream", name]
        if not _NAME.fullmatch(name):
            yield at, "must have a name of letters, digits, - and _, at most 40"
        if (
            fault := _syslog_fault(destination)
            if destination.kind == "syslog"
            else _http_fault(destination.url)
        ):
            yield [*at, "url"], fault
        yield from _header_faults([*at, "headers"], destination.headers)
        if destination.key and destination.kind != "webhook":
            yield [*at, "key"], "signs messages of a webhook alone; leave it out"
        if destination.headers and destination.kind == "syslog":
            yield [*at, "headers"], "has no effect for syslog"
        if destination.ca_file and not destination.url.startswith("tls://"):
            yield (
                [*at, "ca_file"],
                "is for syslog by tls://; other addresses use the certificates of the system",
            )


def usage_faults(section: UsageSettings) -> Iterator[tuple[str | Sequence[str], str]]:
    """Yield the faults of the prices: pairs of keys below the section and a text."""
    if section.model and section.model not in section.prices:
        yield "model", f"{section.model!r} has no price; add it to `prices`"
    elif section.prices and not section.model:
        yield "prices", "have no effect without `model`, the name of the one that counts"
    for pattern in section.calls:
        if "/" not in pattern:
            yield ["calls", pattern], "is no pattern of `server/tool`, such as `github/*`"


def _http_fault(url: str) -> str:
    parts = _parts_of(url)
    host = parts.hostname if parts else None
    if parts is None or not host or parts.scheme not in ("https", "http"):
        return "must start with https:// (http:// only on this machine, or in a private network)"
    if parts.scheme == "http" and not (is_loopback(host) or _is_private(host)):
        return "must start with https:// (http:// only on this machine, or in a private network)"
    if "@" in parts.netloc:
        return "must hold no name or password, as logs and messages show it; use `headers`"
    if parts.query or parts.fragment:
        return "must hold nothing after `?` or `#`, as logs and messages show it; use `headers`"
    return ""


def _is_private(host: str) -> bool:
    """Whether a host is a name of a network of containers or a cluster, or a private address."""
    return (
        "." not in host
        or host.endswith((".svc", ".cluster.local", ".internal"))
        or bool(re.fullmatch(r"10\.[\d.]+|192\.168\.[\d.]+|172\.(?:1[6-9]|2\d|3[01])\.[\d.]+", host))
    )


def _syslog_fault(destination: AuditDestination) -> str:
    parts = _parts_of(destination.url)
    if parts is None or parts.scheme not in _SYSLOG:
        return (
            "must start with tls://, tcp://, udp:// or unix://, as tls://logs.example:6514 or unix:///dev/log"
        )
    if parts.scheme == "unix":
        return "" if parts.path.startswith("/") and not parts.netloc else "must be as unix:///dev/log"
    try:
        has_port = bool(parts.port)
    except ValueError:
        has_port = False
    if not parts.hostname or not has_port or parts.path not in ("", "/") or "@" in parts.netloc:
        return f"must be a host and a port, as {parts.scheme}://logs.example:6514"
    return ""


def _parts_of(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _header_faults(at: Sequence[str], headers: Mapping[str, str]) -> Iterator[tuple[Sequence[str], str]]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or any(ord(c) < 32 for c in value):  # noqa: PLR2004  # control characters
            yield [*at, name], "is no header of HTTP"


MONITORING_FAULTS: Final[Mapping[type[Any], Sequence[Callable[[Any], Iterable[tuple[Any, str]]]]]] = {
    Audit: (stream_faults,),
    Telemetry: (telemetry_faults,),
    UsageSettings: (usage_faults,),
}
"""What finds the faults of a section as a whole, for `maitred.config.load`."""

MONITORING_PARTS: Final = (AuditDestination, ModelPrice)
"""The mappings within these sections."""
