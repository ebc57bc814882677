"""Make the destinations of the audit trail, by the settings."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from maitred.config.interpolate import UnresolvedReferenceError, resolve_named
from maitred.config.settings import AuditDestination, Settings
from maitred.errors import ConfigError
from maitred.extras import install_command
from maitred.wiring.references import operator_resolver
from maitred.wiring.storage import database_of

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.audit.destinations.base import Destination
    from maitred.audit.stream import AuditStream


def make_audit_stream(settings: Settings) -> "AuditStream | None":
    """What sends the audit trail; `None` if it is off, or has no destination.

    Raises:
        ConfigError: The extra `otel` is missing, or a file of certificates.
    """
    if not (settings.audit.enabled and settings.audit.stream):
        return None
    from maitred.audit.stream import AuditStream, StreamTarget

    targets = [
        StreamTarget(
            name=name,
            destination=_make_destination(name, entry, settings),
            batch=entry.batch,
            from_start=entry.start == "all",
        )
        for name, entry in settings.audit.stream.items()
    ]
    return AuditStream(database_of(settings), targets)


def _make_destination(name: str, entry: AuditDestination, settings: Settings) -> "Destination":
    secrets = partial(_secrets_of, entry, operator_resolver(settings))
    if entry.kind == "syslog":
        from maitred.audit.destinations.syslog import SyslogDestination

        ca_file = str(settings.source.parent / entry.ca_file) if entry.ca_file else ""
        return SyslogDestination(entry.url, facility=entry.facility, ca_file=ca_file)
    _check(name, secrets, settings)
    if entry.kind == "webhook":
        from maitred.audit.destinations.webhook import WebhookDestination

        return WebhookDestination(name, entry.url, secrets)
    try:
        from maitred.audit.destinations.otlp import OtlpDestination
    except ImportError as error:
        fault = f"needs the package {error.name}; `{install_command('otel')}` installs it"
        raise ConfigError(str(settings.source), [f"audit.stream.{name}: {fault}"]) from error
    return OtlpDestination(entry.url, settings.telemetry.service_name, secrets)


def _secrets_of(entry: AuditDestination, resolve: Callable[[str], str]) -> tuple[bytes, Mapping[str, str]]:
    """The key and the headers of a destination, with their references replaced."""
    return resolve(entry.key).encode(), resolve_named(entry.headers, "headers", resolve)


def _check(name: str, secrets: Callable[[], object], settings: Settings) -> None:
    try:
        secrets()
    except UnresolvedReferenceError as error:
        raise ConfigError(str(settings.source), [f"audit.stream.{name}: {error}"]) from error
