"""Read what a server publishes from a file, for a scan without the server.

A file is an answer of `tools/list`, with or without its JSON-RPC envelope, which may have `prompts`,
`resourceTemplates`, `instructions` and the name of its `server` as well; a list of tools; one tool; lines of
such objects; or a manifest, whose overrides and rules of visibility models read, too.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from maitred.admission.definition import Definition, PartKey, define
from maitred.admission.judge import as_sent
from maitred.admission.manifest_reader import read_manifest
from maitred.backends.listing import LISTS, offers_as_sent, read_offers, read_tools, tools_as_sent
from maitred.errors import ConfigError

_LISTS: Final = ("tools", "prompts", "resourceTemplates")
_FORMS: Final = (
    "is neither an answer of tools/list as JSON nor a manifest; `maitred docs cli` lists the forms"
)
_MAX_FAULTS: Final = 5


@dataclass(frozen=True, kw_only=True)
class PublishedPart:
    """One part of what a server publishes, as it sent it: `kind` and `name` say which."""

    kind: str
    name: str
    definition: Mapping[str, Any]

    def __str__(self) -> str:
        """How people speak of it."""
        return f"{self.kind} {self.name!r}" if self.name else f"the {self.kind}"


@dataclass(frozen=True, kw_only=True)
class PublishedServer:
    """All parts that a server publishes; `unread` are parts too large or too deep to be looked through."""

    name: str
    parts: Sequence[PublishedPart]
    unread: Sequence[str] = ()

    @property
    def tools(self) -> list[str]:
        """The names of its tools."""
        return [part.name for part in self.parts if part.kind == "tool"]


def published_of(name: str, definition: Definition) -> PublishedServer:
    """The parts of a definition that was read from a server."""
    contents = {key: as_sent(key, part.content) for key, part in definition.parts.items()}
    parts = [_part(key, content) for key, content in contents.items()]
    unread = [
        str(key) for key, content in contents.items() if any(field.endswith("_hash") for field in content)
    ]
    return PublishedServer(name=name, parts=parts, unread=unread)


def read_published(path: Path, text: str) -> list[PublishedServer]:
    """Read a file that describes servers; it is named after the file where the text does not name it.

    Raises:
        ConfigError: The text has none of the forms.
    """
    values = _json_values(text)
    if values is None:
        return [_manifest(path, text)]
    servers = [server for value in values for server in _servers(path, value)]
    if not servers:
        raise ConfigError(str(path), [_FORMS])
    return servers


def _json_values(text: str) -> list[Any] | None:
    """The JSON values of a text: one, or one a line; `None` if it is neither."""
    for parts in ([text], [line for line in text.split("\n") if line.strip()]):
        try:
            return [json.loads(part) for part in parts]
        except (ValueError, RecursionError):
            continue
    return None


def _servers(path: Path, value: Any) -> Iterator[PublishedServer]:
    if isinstance(value, list):
        value = {"tools": value}
    if isinstance(value, dict) and isinstance(value.get("result"), dict):
        value = value["result"]
    if not isinstance(value, dict):
        raise ConfigError(str(path), [_FORMS])
    if "name" in value and not value.keys() & {*_LISTS, "command", "url", "image"}:
        value = {"tools": [value]}
    if value.keys() & {"command", "url", "image"} and "tools" not in value:
        yield _manifest(path, json.dumps(value))
        return
    if not any(isinstance(value.get(key), list) for key in _LISTS) and "instructions" not in value:
        raise ConfigError(str(path), [_FORMS])
    yield _listed(path, value)


def _listed(path: Path, value: Mapping[str, Any]) -> PublishedServer:
    about = value.get("serverInfo")
    info = about if isinstance(about, Mapping) else {}
    name = next((str(one) for one in (value.get("server"), info.get("name")) if one), path.stem)
    lists = {key: entries for key in _LISTS if isinstance(entries := value.get(key), list)}
    tools, notes = read_tools(name, lists.get("tools", []))
    offers = []
    for listed in LISTS:
        if entries := lists.get(listed.field):
            found, more = read_offers(name, listed, entries)
            offers += offers_as_sent(listed, found, entries)
            notes += more
    sent = tools_as_sent(name, tools, lists.get("tools", []))
    title, instructions = str(info.get("title") or ""), str(value.get("instructions") or "")
    published = published_of(name, define(sent, offers, title=title, instructions=instructions))
    if not published.parts:
        raise ConfigError(str(path), notes[:1] or ["lists no tools"])
    return published


def _manifest(path: Path, text: str) -> PublishedServer:
    reading = read_manifest(path, text)
    manifest = reading.manifest
    if manifest is None or any(one.severity == "refuse" for one in reading.findings):
        raise ConfigError(str(path), [_FORMS, *map(str, reading.findings[:_MAX_FAULTS])])
    texts = {"title": manifest.title, "description": manifest.description}
    more = {"overrides": manifest.overrides, "visibility": manifest.visibility}
    definition = {key: value for key, value in {**texts, **more}.items() if value}
    return PublishedServer(
        name=manifest.name, parts=[PublishedPart(kind="manifest", name="", definition=definition)]
    )


def _part(key: PartKey, content: Mapping[str, Any]) -> PublishedPart:
    return PublishedPart(kind=key.kind, name=key.name, definition=content)
