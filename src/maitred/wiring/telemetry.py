"""Make the way to a collector of OpenTelemetry, if the operator named one."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import structlog

from maitred.config.interpolate import UnresolvedReferenceError, resolve_named
from maitred.config.monitoring_settings import Telemetry
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.extras import install_command

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.telemetry.exporter import CollectorOptions, TelemetryExporter

log = structlog.get_logger(__name__)

_ALL: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


def make_exporter(settings: Settings, resolve: Callable[[str], str]) -> "TelemetryExporter | None":
    """What sends traces and metrics; `None` without a collector.

    Raises:
        ConfigError: The extra `otel` is missing, or a header cannot be resolved.
    """
    section, environ = settings.telemetry, os.environ
    traces = section.traces and _is_wanted(section, environ, "TRACES")
    metrics = section.metrics and _is_wanted(section, environ, "METRICS")
    if not (traces or metrics):
        return None
    try:
        from maitred.telemetry.exporter import TelemetryExporter
    except ImportError as error:
        if not section.endpoint:  # the variables may be meant for another program
            log.info("no telemetry is sent", missing=error.name, hint=install_command("otel"))
            return None
        fault = f"telemetry.endpoint: needs the package {error.name}; `{install_command('otel')}` installs it"
        raise ConfigError(str(settings.source), [fault]) from error
    return TelemetryExporter(_options(settings, resolve, traces=traces, metrics=metrics))


def _is_wanted(section: Telemetry, environ: Mapping[str, str], signal: str) -> bool:
    """Whether a collector is named for a signal, and the variables do not turn it off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none":
        return False
    named = environ.get(_ALL) or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return bool(section.endpoint or named)


def _options(
    settings: Settings, resolve: Callable[[str], str], *, traces: bool, metrics: bool
) -> "CollectorOptions":
    from maitred.telemetry.exporter import CollectorOptions

    section = settings.telemetry
    try:
        headers = resolve_named(section.headers, "headers", resolve)
    except UnresolvedReferenceError as error:
        raise ConfigError(str(settings.source), [f"telemetry.{error}"]) from error
    return CollectorOptions(
        endpoint=section.endpoint,
        headers=tuple(headers.items()),
        service_name=section.service_name,
        traces=traces,
        metrics=metrics,
        metrics_every_s=section.metrics_every_s,
        sample=section.sample,
        takes_baggage=section.baggage,
    )
