"""Read what the servers of a configuration declare about visibility; every fault is told with its line."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from maitred.config.document import Document, read_document, read_text
from maitred.config.settings import Settings
from maitred.disclosure.declared import read
from maitred.disclosure.rules import RuleRegistry
from maitred.disclosure.visibility import VisibilityTable
from maitred.errors import ConfigError


def read_tables(settings: Settings, rules: RuleRegistry) -> Mapping[str, VisibilityTable]:
    """The tables of the servers that declare something, by server.

    Raises:
        ConfigError: A declaration has faults; all of all servers are listed.
    """
    faults: list[tuple[str, Sequence[Any], str]] = []

    def fault(server: str, keys: Sequence[Any], message: str) -> None:
        faults.append((server, keys, message))

    declared = {name: spec.visibility for name, spec in settings.servers.items() if spec.visibility}
    tables = {name: read(raw, rules, partial(fault, name)) for name, raw in declared.items()}
    if faults:
        document = _document(settings)
        raise ConfigError(str(settings.source), [_told(document, *one) for one in faults])
    return tables


def _document(settings: Settings) -> Document:
    """The configuration's file, for its lines; an empty one if settings were made by hand."""
    try:
        return read_document(settings.source, read_text(settings.source))
    except ConfigError:
        return Document(tree={}, root=None)


def _told(document: Document, server: str, below: Sequence[Any], message: str) -> str:
    keys = [document.servers_key, server, "visibility", *below]
    where = f"line {document.line(keys)}: " if document.root is not None else ""
    return f"{where}{'.'.join(map(str, keys))}: {message}"
