"""What a registry says of servers, as bounded values; everything in it was written by strangers.

An item of the API is `{"server": ..., "_meta": ...}`, and `server` has the form of a `server.json`. What has
another form is left out, one part at a time: one bad entry does not hide the others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from maitred.config.redaction import names_a_secret

OFFICIAL: Final = "io.modelcontextprotocol.registry/official"
"""The key of `_meta` with what the registry itself says of an entry."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST_NAME: Final = 200
_LONGEST_TEXT: Final = 500
_LONGEST_VALUE: Final = 2_048
_MOST_PARTS: Final = 20
_MOST_INPUTS: Final = 60
_MOST_CHOICES: Final = 50
_MOST_NUMBER: Final = 10**18

Status = Literal["active", "deprecated", "deleted"]
_STATUSES: Final[Mapping[str, Status]] = {"deprecated": "deprecated", "deleted": "deleted"}


@dataclass(frozen=True, kw_only=True)
class Input:
    """A value that a server takes. `value` is fixed, but for `variables`, which are in it as `{name}`."""

    name: str = ""
    description: str = ""
    is_required: bool = False
    is_secret: bool = False
    default: str = ""
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    format: str = ""
    variables: Mapping[str, "Input"] = field(default_factory=dict)

    @property
    def is_bare(self) -> bool:
        """Whether nothing is said of a value, as of a flag that takes none."""
        said = (self.default, self.value, self.hint, self.choices, self.format, self.variables)
        return not (any(said) or self.is_secret or self.is_required)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A word of a command line: positional, or a flag with a value."""

    is_named: bool
    input: Input


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that runs on this machine. `kind` is the registry's word, such as `npm`."""

    kind: str
    identifier: str
    version: str = ""
    index: str = ""
    transport: str = "stdio"
    runtime: str = ""
    variables: tuple[Input, ...] = ()
    arguments: tuple[Argument, ...] = ()
    runtime_arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A running server at an address, in which variables are as `{name}`."""

    kind: str
    url: str
    headers: tuple[Input, ...] = ()
    variables: Mapping[str, Input] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RegistryEntry:
    """One version of a server in a registry."""

    name: str
    version: str
    title: str = ""
    description: str = ""
    repository: str = ""
    website: str = ""
    status: Status = "active"
    is_latest: bool = False
    published_at: str = ""
    packages: tuple[Package, ...] = ()
    remotes: tuple[Remote, ...] = ()


def read_entries(items: Iterable[Any]) -> Sequence[RegistryEntry]:
    """Read the items of an answer, or plain `server.json` objects; what is neither is left out."""
    return [entry for item in items if (entry := _entry(item)) is not None]


def latest(entries: Iterable[RegistryEntry]) -> Sequence[RegistryEntry]:
    """Return one entry a server, its latest version, without deleted servers; in the order of names."""
    newest: dict[str, RegistryEntry] = {}
    for entry in entries:
        known = newest.get(entry.name)
        if known is None or _age(entry) >= _age(known):
            newest[entry.name] = entry
    return [newest[name] for name in sorted(newest) if newest[name].status != "deleted"]


def _age(entry: RegistryEntry) -> tuple[bool, str]:
    return entry.is_latest, entry.published_at


def _entry(item: Any) -> RegistryEntry | None:
    outer = _mapping(item)
    server = _mapping(outer.get("server")) or outer
    name, version = _text(server, "name", _LONGEST_NAME), _text(server, "version", _LONGEST_NAME)
    if not NAME.fullmatch(name):
        return None
    meta = _mapping(_mapping(outer.get("_meta") or server.get("_meta")).get(OFFICIAL))
    status = str(meta.get("status") or server.get("status") or "")
    return RegistryEntry(
        name=name,
        version=version,
        title=_text(server, "title"),
        description=_text(server, "description"),
        repository=_text(_mapping(server.get("repository")), "url"),
        website=_text(server, "websiteUrl"),
        status=_STATUSES.get(status, "active"),
        is_latest=meta.get("isLatest") is True,
        published_at=_text(meta, "publishedAt", 40),
        packages=tuple(map(_package, _mappings(server, "packages", _MOST_PARTS))),
        remotes=tuple(map(_remote, _mappings(server, "remotes", _MOST_PARTS))),
    )


def _package(raw: Mapping[str, Any]) -> Package:
    return Package(
        kind=_text(raw, "registryType", 20) or _text(raw, "registry_type", 20),
        identifier=_text(raw, "identifier", _LONGEST_VALUE),
        version=_text(raw, "version", _LONGEST_NAME),
        index=_text(raw, "registryBaseUrl"),
        transport=_text(_mapping(raw.get("transport")), "type", 40) or "stdio",
        runtime=_text(raw, "runtimeHint", 40),
        variables=tuple(map(_input, _mappings(raw, "environmentVariables", _MOST_INPUTS))),
        arguments=tuple(_arguments(raw, "packageArguments")),
        runtime_arguments=tuple(_arguments(raw, "runtimeArguments")),
    )


def _remote(raw: Mapping[str, Any]) -> Remote:
    return Remote(
        kind=_text(raw, "type", 40),
        url=_text(raw, "url", _LONGEST_VALUE),
        headers=tuple(map(_input, _mappings(raw, "headers", _MOST_INPUTS))),
        variables=_variables(raw),
    )


def _arguments(raw: Mapping[str, Any], key: str) -> Iterator[Argument]:
    for one in _mappings(raw, key, _MOST_INPUTS):
        is_named = one.get("type") == "named"
        yield Argument(is_named=is_named, input=_input(one))


def _input(raw: Mapping[str, Any], name: str = "", *, is_inner: bool = False) -> Input:
    called = name or _text(raw, "name", _LONGEST_NAME) or _text(raw, "valueHint", _LONGEST_NAME)
    choices = raw.get("choices")
    texts = (
        [one[:_LONGEST_VALUE] for one in choices if isinstance(one, str)] if isinstance(choices, list) else []
    )
    return Input(
        name=called,
        description=_text(raw, "description"),
        is_required=raw.get("isRequired") is True,
        is_secret=raw.get("isSecret") is True or names_a_secret(called),
        default=_text(raw, "default", _LONGEST_VALUE),
        value=_text(raw, "value", _LONGEST_VALUE),
        hint=_text(raw, "placeholder") or _text(raw, "valueHint"),
        choices=tuple(texts[:_MOST_CHOICES]),
        format=_text(raw, "format", 20),
        variables={} if is_inner else _variables(raw),
    )


def _variables(raw: Mapping[str, Any]) -> Mapping[str, Input]:
    pairs = list(_mapping(raw.get("variables")).items())[:_MOST_INPUTS]
    return {key: _input(_mapping(value), key, is_inner=True) for key, value in pairs if isinstance(key, str)}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(raw: Mapping[str, Any], key: str, most: int) -> Sequence[Mapping[str, Any]]:
    values = raw.get(key)
    return [one for one in values[:most] if isinstance(one, dict)] if isinstance(values, list) else []


def _text(raw: Mapping[str, Any], key: str, most: int = _LONGEST_TEXT) -> str:
    """Return a text, or a number or a choice as one; too long texts lose their end."""
    value = raw.get(key)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < _MOST_NUMBER):
        return str(value)
    return value[:most].strip() if isinstance(value, str) else ""
