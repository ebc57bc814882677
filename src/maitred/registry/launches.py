"""How an entry of a registry can run: by a program that fetches a package, as an image, or at an address.

What a registry wrote becomes words of a command line, so each part has to have the form of what it is, and
nothing is passed to the program that fetches but the package with its version. What is not taken over has a
`fault` that says why.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Final, Literal

from maitred.admission.checks.allowlist import STEERING
from maitred.extras import install_command
from maitred.registry.entries import Argument, Input, Package, RegistryEntry, Remote

By = Literal["npx", "uvx", "image", "remote", "other"]
BYS: Final[Sequence[By]] = ("npx", "uvx", "image", "remote")

_NPM: Final = re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*", re.IGNORECASE)
_PYPI: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_NPM_VERSION: Final = re.compile(
    r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
"""One version as npm reads it (semver.org): `next` is a tag for it, and `1` and `1.2` are ranges."""
_PYPI_VERSION: Final = re.compile(
    r"v?(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:alpha|a|beta|b|preview|pre|c|rc)[-_.]?\d*)?"
    r"(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE | re.ASCII,
)
"""One version as pip reads it (PEP 440); what is none, such as `latest` or `1.*`, is a tag or a range."""
_FLAGS_OF_ENGINE: Final = frozenset({"-i", "-t", "-it", "--rm", "--interactive", "--tty"})
_VARIABLE_FLAGS: Final = frozenset({"-e", "--env"})
_PAIR: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:=(.*))?", re.DOTALL)
_MISSING: Final[Mapping[str, str]] = {
    "npx": "npx is not here; install Node.js, which brings it",
    "uvx": "uvx is not here; install uv, which brings it",
}


@dataclass(frozen=True, kw_only=True)
class LaunchOption:
    """One way to run a server. `what` is the package with its version, the image or the address.

    `head` are the arguments before those of the server. `notes` are for the person who decides; `fault` says
    why maitred does not take it over, and is empty if it does.
    """

    by: By
    what: str
    head: tuple[str, ...] = ()
    transport: str = ""
    variables: tuple[Input, ...] = ()
    arguments: tuple[Argument, ...] = ()
    headers: tuple[Input, ...] = ()
    in_url: Mapping[str, Input] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    fault: str = ""

    @property
    def summary(self) -> str:
        """How it runs, in a few words."""
        verb = {"image": "as the image", "remote": "at", "other": "by"}.get(self.by, f"by {self.by}")
        return f"{verb} {self.what}"


def launches(entry: RegistryEntry) -> Sequence[LaunchOption]:
    """All ways to run a server, in the order of the registry, those at an address last."""
    return [*map(_of_package, entry.packages), *map(_of_remote, entry.remotes)]


def missing(launch: LaunchOption, which: Callable[[str], str | None] = shutil.which) -> str:
    """What this machine lacks to run it, and how to get it; empty if nothing that can be seen from here."""
    if launch.by in _MISSING and which(launch.by) is None:
        return _MISSING[launch.by]
    if launch.by == "image" and find_spec("docker") is None:
        return f"containers need a package that is missing; `{install_command('containers')}` installs it"
    return ""


def _of_package(package: Package) -> LaunchOption:
    make = _MAKERS.get(package.kind)
    name = f"{package.identifier} {package.version}".strip()
    if make is None:
        kinds = ", ".join(_MAKERS)
        fault = f"is a package of the kind {package.kind!r}; maitred runs {kinds}"
        return LaunchOption(by="other", what=f"{package.kind or 'an unknown kind'} {name}", fault=fault)
    launch = make(package)
    steering = [
        one.name for one in package.variables if (one.value or one.default) and STEERING.fullmatch(one.name)
    ]
    if not launch.fault and steering:
        fault = f"sets {steering[0]!r}, which decides what other code is loaded, or from where"
        launch = replace(launch, fault=fault)
    if not launch.fault and package.transport != "stdio":
        fault = f"speaks {package.transport!r} on this machine, where maitred starts servers on stdio"
        launch = replace(launch, fault=fault)
    index = f"the registry says that it is published at {package.index}" if package.index else ""
    notes = (index,) if index and launch.by != "image" else ()
    return replace(
        launch, variables=(*launch.variables, *package.variables), arguments=package.arguments, notes=notes
    )


def _of_npm(package: Package) -> LaunchOption:
    what = f"{package.identifier}@{package.version}"
    fault = _package_fault(package, _NPM, _NPM_VERSION, frozenset({"-y", "--yes"}))
    return LaunchOption(by="npx", what=what, head=("-y", what), fault=fault)


def _of_pypi(package: Package) -> LaunchOption:
    what = f"{package.identifier}@{package.version}"
    fault = _package_fault(package, _PYPI, _PYPI_VERSION, frozenset())
    return LaunchOption(by="uvx", what=what, head=(what,), fault=fault)


def _package_fault(
    package: Package, form: re.Pattern[str], version: re.Pattern[str], allowed: frozenset[str]
) -> str:
    """Why a package is not taken over: its name, its version, or options for the program that fetches it."""
    if not form.fullmatch(package.identifier):
        return "has a name that no such package can have"
    if not package.version:
        return "names no version, so another package could run tomorrow"
    if not version.fullmatch(package.version):
        return "names no single version, so another package could run tomorrow"
    for argument in package.runtime_arguments:
        words = _words(argument)
        if any(word not in allowed for word in words):
            return f"passes {words[0]!r} to the program that fetches it, which maitred does not do"
    return ""


def _words(argument: Argument) -> Sequence[str]:
    own = argument.input
    words = [own.name] if argument.is_named else []
    return [*words, *([own.value or own.default] if own.value or own.default else [])] or [own.name or "?"]


def _of_image(package: Package) -> LaunchOption:
    image = package.identifier
    has_tag = ":" in image.rpartition("/")[2] or "@" in image
    if not has_tag and package.version:
        image = f"{image}:{package.version}"
    fault = "" if has_tag or package.version else "names neither a tag nor a digest"
    launch = LaunchOption(by="image", what=image, fault=fault)
    variables: list[Input] = []
    for argument in package.runtime_arguments:
        own = argument.input
        if argument.is_named and own.name in _VARIABLE_FLAGS and (pair := _PAIR.fullmatch(own.value)):
            variables.append(replace(own, name=pair[1], value=pair[2] or "", hint=""))
        elif any(word not in _FLAGS_OF_ENGINE for word in _words(argument)):
            fault = f"passes {_words(argument)[0]!r} to the engine, which maitred does not do"
            return replace(launch, fault=fault)
    return replace(launch, variables=tuple(variables))


def _of_remote(remote: Remote) -> LaunchOption:
    transport = {"streamable-http": "http", "http": "http"}.get(remote.kind, "")
    fault = "" if transport else f"speaks {remote.kind!r}, which maitred does not"
    if remote.kind == "sse":
        fault = (
            "speaks the older SSE, which no manifest may; `maitred add NAME --url` is for one that you trust"
        )
    return LaunchOption(
        by="remote",
        what=remote.url,
        transport=transport,
        headers=remote.headers,
        in_url=remote.variables,
        fault=fault,
    )


_MAKERS: Final[Mapping[str, Callable[[Package], LaunchOption]]] = {
    "npm": _of_npm,
    "pypi": _of_pypi,
    "oci": _of_image,
}
"""Makes a launch of a package, by the registry's word for its kind."""


def inputs(launch: LaunchOption) -> Iterator[Input]:
    """Everything that a launch may ask for, in order."""
    yield from launch.variables
    yield from (argument.input for argument in launch.arguments)
    yield from launch.headers
    yield from launch.in_url.values()
