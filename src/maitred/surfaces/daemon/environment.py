"""Which values of the environment matter to a gateway; only clients with the same values share its servers.

These values matter: those that every server sees, those that maitred and its libraries read, and those to
which the configuration or a manifest refers. If a server starts by a relative path, the folder matters too.
A value matters only if servers would run as something else. Of `PATH` that is the program that a server's
command names; a locale that is not set is no other locale; a model's key counts where a model is used.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from maitred.config.settings import Settings
from maitred.model.access import ClientStart
from maitred.model.servers import CERTIFICATES, ServerSpec
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
        *CERTIFICATES,
    ]
)
_STARTS: Final = ("LC_", "OPENAI_", "ANTHROPIC_")
_LOCALE: Final = ("LANG", "LC_")
_OF_MODELS: Final = ("OPENAI_", "ANTHROPIC_")
_MOST_ID: Final = 100
_MOST_FOLDERS: Final = 500
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
    """Compares the values of other processes with those of this one, as `handshake.values` returns them.

    `environ` is the environment of this process, from which servers get their `PATH`.
    """

    def __init__(self, own: Mapping[str, str], environ: MutableMapping[str, str] = os.environ) -> None:
        self._own = own
        self._environ = environ
        self._of: Settings | None = None
        self._named = frozenset[str]()

    def differing(self, other: Mapping[str, str], settings: Settings, path: str = "") -> Sequence[str]:
        """The names of the values that matter and differ; sorted.

        With the other's `PATH` as a text, it differs only if a server would run another program.
        """
        names = self._all_differing(other, settings)
        if path and not any(self._runs_another(spec, path) for spec in settings.servers.values()):
            names = [name for name in names if name != "PATH" or name in self._named]
        asks = _asks_models(settings)
        return [name for name in names if name in self._named or not self._is_none(name, other, asks=asks)]

    def _is_none(self, name: str, other: Mapping[str, str], *, asks: bool) -> bool:
        """Whether a difference is none: a locale that one has not set, or a key that nothing here reads."""
        if name.startswith(_LOCALE):
            return name not in self._own or name not in other
        return name.startswith(_OF_MODELS) and not asks

    def _runs_another(self, spec: ServerSpec, path: str) -> bool:
        """Whether the command of a server is another program by another `PATH`."""
        own, other = _program(spec, self._environ.get("PATH", "")), _program(spec, path)
        return own != other and "" not in (own, other)

    def extend(self, path: str, settings: Settings) -> Sequence[str]:
        """Look for programs in the folders of a client's `PATH`, too, after those of this process.

        Returns the servers whose programs are found since then. A desktop application has few folders, and
        may have started the gateway for the terminals, too.
        """
        own = self._environ.get("PATH", "").split(os.pathsep)
        new = [folder for folder in dict.fromkeys(path.split(os.pathsep)) if folder.startswith("/")]
        new = [folder for folder in new if folder not in own][: max(0, _MOST_FOLDERS - len(own))]
        if not new:
            return ()
        before, extended = os.pathsep.join(own), os.pathsep.join([*own, *new])
        self._environ["PATH"] = extended
        specs = settings.servers.items()
        return [name for name, spec in specs if not _program(spec, before) and _program(spec, extended)]

    def _all_differing(self, other: Mapping[str, str], settings: Settings) -> Sequence[str]:
        """The names of the values that may matter and differ; sorted."""
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


def _program(spec: ServerSpec, path: str) -> str:
    """The file of a server's command; empty if none is found, or if `PATH` does not decide it."""
    command = spec.command
    if not command or os.sep in command or "$" in command or "PATH" in spec.env:
        return ""
    found = shutil.which(command, path=path)
    return os.path.realpath(found) if found else ""


def start_of(said: Mapping[str, Any]) -> ClientStart:
    """What a client's program said of itself, as far as it is usable."""
    own = said.get("start")
    own = own if isinstance(own, dict) else {}
    return ClientStart(
        client=str(own.get("client", ""))[:_MOST_ID], folder=project_folder(str(own.get("folder", "")))
    )


def project_folder(folder: str) -> str:
    """The folder that a client's program runs in; empty if it is no project's.

    Desktop applications start it in the root or the home folder, which says nothing of a project.
    """
    home = os.path.expanduser("~")  # noqa: PTH111  # paths are text here
    is_usable = folder.startswith("/") and "\0" not in folder and _is_unicode(folder)
    folder = os.path.normpath(folder) if is_usable else ""
    return "" if os.path.realpath(folder) in ("/", os.path.realpath(home)) else folder


def _is_unicode(text: str) -> bool:
    """Whether a name can be written as JSON; that of a folder may have bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def path_of(said: Mapping[str, Any]) -> str:
    """The `PATH` of a client; empty if it sent none."""
    own = said.get("start")
    path = own.get("path") if isinstance(own, dict) else ""
    return path if isinstance(path, str) and "\0" not in path else ""


def _asks_models(settings: Settings) -> bool:
    """Whether the gateway itself asks models, so that their libraries read the environment."""
    search = settings.search
    return (
        search.embedder == "openai"
        or search.reranker != "none"
        or settings.mediation.llm_provider != "none"
        or settings.use_cases.provider != "none"
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
