"""Check the arguments of a call against the tool's schema before the server sees them.

The schema's `$schema` selects JSON Schema draft-07, 2020-12 or a draft between them; the default is 2020-12.
The checker never fetches a remote reference, and accepts any value for it. If a schema is invalid, only the
server checks the arguments. Patterns run with a limit, and a check that would take too many tries is left
out. So no schema can stall the gateway.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs
import structlog
from cachetools import LRUCache
from pydantic_core import to_json

from maitred.catalog.snapshot import Snapshot
from maitred.errors import ArgumentsError, ToolWithheldError
from maitred.model.nesting import is_finite, size_of
from maitred.model.schema_work import MOST_TRIES, SchemaWork
from maitred.model.tools import Tool
from maitred.wording import shorten_middle

log = structlog.get_logger(__name__)

_KEPT = 512
_INFINITE = re.compile(rb"NaN|Infinity")
_MAX_FAULTS = 5
_MAX_DEPTH = 100
_MAX_TEXT = 300
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=50_000)


@dataclass(kw_only=True)
class _Compiled:
    validator: jsonschema_rs.Validator
    work: SchemaWork
    is_told: bool = field(default=False, init=False)


class ArgumentChecker:
    """Compiles schemas once and keeps the most recently used."""

    def __init__(self) -> None:
        self._compiled: LRUCache[str, _Compiled | None] = LRUCache(_KEPT)

    def check(
        self, snapshot: Snapshot, tool: Tool, arguments: Mapping[str, Any], *, read_only: bool = False
    ) -> None:
        """Check that a tool may be called with these arguments, by its definition in the catalog.

        Args:
            snapshot: The catalog that `tool` comes from.
            tool: The tool to call.
            arguments: The arguments of the call.
            read_only: Whether to refuse a tool that its server does not mark read-only.

        Raises:
            ToolWithheldError: The tool is not read-only, though the caller wants that.
            ArgumentsError: The arguments do not fit the tool's schema.
        """
        if read_only and not tool.read_only:
            reason = "its server does not mark it read-only; use `call_tool` if changing something is meant"
            raise ToolWithheldError(tool.name, reason)
        if faults := self.faults(tool.checked_hash, snapshot.schema, arguments, tool=tool.name):
            raise ArgumentsError(tool.name, faults)

    def faults(
        self, digest: str, schema_of: Callable[[str], Any], arguments: Mapping[str, Any], *, tool: str = ""
    ) -> list[str]:
        """The faults of the arguments, one a line; empty if they fit, or are not checked.

        Args:
            digest: The hash of the schema, which is the key of its compiled form.
            schema_of: Returns the schema of a hash, any JSON value. Called only if it is not compiled yet.
            arguments: The arguments of the call.
            tool: The name of the tool, for the log.
        """
        depth, nodes = size_of(arguments, _MAX_DEPTH)
        if depth > _MAX_DEPTH:
            return [f"they are nested deeper than {_MAX_DEPTH} levels"]
        try:
            text = to_json(arguments)
        except ValueError:
            return ["they contain half a character (a lone surrogate), which cannot be sent"]
        if _INFINITE.search(text) and not is_finite(arguments):
            return ["they contain a number that is not finite (NaN or Infinity), which JSON does not have"]
        compiled = self._known(digest, schema_of)
        if compiled is None:
            return []
        if compiled.work.of(nodes, depth) > MOST_TRIES:
            if not compiled.is_told:
                compiled.is_told = True
                why = "its schema would take too long to check them by"
                log.warning("arguments go to the server unchecked", tool=tool, reason=why)
            return []
        return _faults(compiled.validator, arguments)

    def _known(self, digest: str, schema_of: Callable[[str], Any]) -> _Compiled | None:
        try:
            return self._compiled[digest]
        except KeyError:
            compiled = self._compiled[digest] = _compile(schema_of(digest))
            return compiled


def _faults(validator: jsonschema_rs.Validator, arguments: Mapping[str, Any]) -> list[str]:
    if validator.is_valid(arguments):
        return []
    given = {name: value for name, value in arguments.items() if value is not None}
    if len(given) < len(arguments) and validator.is_valid(given):
        return []  # clients write null for what they do not give; the server decides what it means
    found: list[str] = []
    for error in validator.iter_errors(arguments):
        where = ".".join(str(part) for part in error.instance_path)
        message = f"{where}: {error.message}" if where else error.message
        found.append(shorten_middle(message, _MAX_TEXT))
        if len(found) == _MAX_FAULTS:
            break
    return found


def _compile(schema: Any) -> _Compiled | None:
    if not isinstance(schema, dict):
        return None
    try:
        validator = jsonschema_rs.validator_for(schema, retriever=_accept, pattern_options=_PATTERNS)
        return _Compiled(validator=validator, work=SchemaWork(schema))
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        log.debug("a schema cannot be used for checking", reason=str(error)[:200])
        return None


def _accept(_: str) -> Any:
    """The schema in place of a remote reference: any value fits."""
    return True
