"""Which values of the environment matter to a gateway; only clients with the same values share its servers.

These values matter: those that every server sees, those that maitred and its libraries read, and those to
which the configuration or a manifest refers. If a server starts by a relative path, the folder matters too.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from maitred.config.settings import Settings
from maitred.model.servers import ServerSpec
from maitred.model.transports import reach_of
from maitred.surfaces.daemon.handshake import HERE, PLACE

_ALWAYS: Final = frozenset(
    [
        PLACE,
        "PATH",
        "HOME",
        "LANG",
        "LANGUAGE",
        "XDG_STATE_HOME",
        "MAITRED_KEY",
        "MAITRED_AUDIT_KEY",
        "DOCKER_HOST",
        "CONTAINER_HOST",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ]
)
_STARTS: Final = ("LC_", "OPENAI_", "ANTHROPIC_")
_PROXY: Final = "_proxy"
OF_POSTGRES: Final = frozenset(
    [
        *("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE"),
        *("PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR", "PGOPTIONS", "PGTARGETSESSIONATTRS"),
        *("PGLOADBALANCEHOSTS", "PGCHANNELBINDING", "PGREQUIREAUTH", "PGREQUIREPEER"),
        *("PGSSLMODE", "PGREQUIRESSL", "PGSSLNEGOTIATION", "PGSSLCOMPRESSION", "PGSSLCERT", "PGSSLKEY"),
        *("PGSSLCERTMODE", "PGSSLROOTCERT", "PGSSLCRL", "PGSSLCRLDIR", "PGSSLSNI"),
        *("PGSSLMINPROTOCOLVERSION", "PGSSLMAXPROTOCOLVERSION"),
        *("PGMINPROTOCOLVERSION", "PGMAXPROTOCOLVERSION"),
        *("PGGSSENCMODE", "PGGSSLIB", "PGGSSDELEGATION", "PGKRBSRVNAME"),
        *("PGCLIENTENCODING", "PGDATESTYLE", "PGTZ", "PGGEQO"),
    ]
)
"""Variables from which libpq, the driver of `catalog.url`, takes what the address leaves open.

The gateway sets the name and the time limit of its connections, so these two variables do not matter.
"""
_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LOCAL_FILE: Final = re.compile(r"\$\{file:(?![/~$])")


class EnvironmentMatch:
    """Compares the values of other processes with those of this one, as `handshake.values` returns them."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own
        self._of: Settings | None = None
        self._named = frozenset[str]()

    def differing(self, other: Mapping[str, str], settings: Settings) -> Sequence[str]:
        """The names of the values that matter and differ; sorted."""
        if settings is not self._of:  # computed once, since the settings may have many servers
            here = {HERE} if runs_here(settings) else set[str]()
            self._of, self._named = settings, frozenset({*_words(settings), *here})
        own = self._own
        named = self._named | OF_POSTGRES if settings.catalog.url else self._named
        return sorted(
            name
            for name in own.keys() | other.keys()
            if own.get(name) != other.get(name) and (name in named or _matters(name))
        )


def runs_here(settings: Settings) -> bool:
    """Whether the definition of a server depends on the folder that the gateway runs in."""
    return any(map(_is_relative, settings.servers.values())) or any(
        _LOCAL_FILE.search(text) for text in _texts(settings)
    )


def _matters(name: str) -> bool:
    return name in _ALWAYS or name.startswith(_STARTS) or name.lower().endswith(_PROXY)


def _is_relative(spec: ServerSpec) -> bool:
    if reach_of(spec.transport) != "program" or spec.cage is not None or spec.cwd.startswith("/"):
        return False
    if os.sep in spec.command and not spec.command.startswith(("/", "$")):
        return True
    if spec.cwd and not spec.cwd.startswith("$"):
        return True
    return any(arg in {".", ".."} or arg.startswith(("./", "../")) for arg in spec.args)


def _words(settings: Settings) -> Iterator[str]:
    """All words of texts with references that may be names of variables; extra words do no harm."""
    for text in _texts(settings):
        yield from _WORD.findall(text)


def _texts(value: Any) -> Iterator[str]:
    """The texts with references in a value, at any depth."""
    if isinstance(value, str):
        if "${" in value:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name))
