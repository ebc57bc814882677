"""Where several gateways share what lasts only a while: Valkey, else PostgreSQL, else nowhere."""

from typing import TYPE_CHECKING, Final

from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.redaction import SECRETS
from maitred.config.sections import shared_url_fault
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.extras import install_command
from maitred.storage.shared_state import MemoryState, SharedState
from maitred.wiring.references import operator_resolver
from maitred.wiring.storage import shared_key

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.storage.database import Database

_SCHEMES: Final = {"redis": "valkey", "rediss": "valkeys"}


def make_shared_state(settings: Settings, database: "Database", *, serves: bool) -> SharedState:
    """What this process shares with others; one that serves no clients shares nothing.

    Raises:
        ConfigError: `shared.url` cannot be used, or the package for Valkey is not installed.
    """
    state = _make_state(settings, database) if serves else None
    if state is None:
        return MemoryState()
    from maitred.storage.shared_sealed import SealedState

    return SealedState(state, shared_key(settings, "what gateways share"))


def _make_state(settings: Settings, database: "Database") -> SharedState | None:
    if settings.shared.url:
        if not settings.catalog.url:
            raise _url_error(settings, "is for gateways that share a catalog, so set `catalog.url`, too")
        return _make_valkey(settings)
    if settings.catalog.url:
        from maitred.storage.shared_postgres import PostgresState

        return PostgresState(database)
    return None


def _make_valkey(settings: Settings) -> SharedState:
    try:
        url = operator_resolver(settings)(settings.shared.url)
    except UnresolvedReferenceError as error:
        raise _url_error(settings, str(error)) from error
    if fault := shared_url_fault(url):
        raise _url_error(settings, fault)
    SECRETS.learn_address(url, {})
    scheme, _, rest = url.partition("://")
    try:
        from maitred.storage.shared_valkey import ValkeyState
    except ImportError as error:
        hint = install_command("valkey")
        fault = f"Valkey needs a package that is missing ({error}); `{hint}` installs it"
        raise _url_error(settings, fault) from error
    try:
        return ValkeyState(f"{_SCHEMES.get(scheme, scheme)}://{rest}", prefix=settings.shared.prefix)
    except ValueError as error:
        raise _url_error(settings, "has a part that Valkey's client does not know") from error


def _url_error(settings: Settings, fault: str) -> ConfigError:
    return ConfigError(str(settings.source), [f"shared.url: {fault}"])
