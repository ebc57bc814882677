"""Check the arguments of a call against the tool's schema before the server sees them.

JSON Schema draft-07 and 2020-12 (and the drafts between) by the schema's `$schema`, 2020-12 by default. No
reference is ever fetched: what a remote reference stands for is accepted. A schema that is itself invalid
checks nothing; its server will. Patterns run with a limit, so no schema can stall the gateway.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
import structlog
from pydantic_core import to_json

log = structlog.get_logger(__name__)

_KEPT = 512
_MAX_FAULTS = 5
_MAX_DEPTH = 100
_MAX_TEXT = 300
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=50_000)


class ArgumentChecker:
    """Compiles schemas once and keeps the most recently used."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, jsonschema_rs.Validator | None] = OrderedDict()

    def faults(self, digest: str, schema_of: Callable[[str], Any], arguments: Mapping[str, Any]) -> list[str]:
        """What is wrong with the arguments, one fault a line; empty when they fit.

        Args:
            digest: The hash of the schema, by which its compiled form is kept.
            schema_of: Gives the schema of a hash, any JSON value; asked only when it is not compiled yet.
            arguments: What the caller wants to send.
        """
        if _depth(arguments) > _MAX_DEPTH:
            return [f"they are nested deeper than {_MAX_DEPTH} levels"]
        try:
            to_json(arguments)
        except ValueError:
            return ["they contain half a character (a lone surrogate), which cannot be sent"]
        validator = self._validator(digest, schema_of)
        if validator is None or validator.is_valid(arguments):
            return []
        found = []
        for error in validator.iter_errors(arguments):
            where = ".".join(str(part) for part in error.instance_path)
            found.append(f"{where}: {error.message}"[:_MAX_TEXT] if where else error.message[:_MAX_TEXT])
            if len(found) == _MAX_FAULTS:
                break
        return found

    def _validator(self, digest: str, schema_of: Callable[[str], Any]) -> jsonschema_rs.Validator | None:
        if digest in self._compiled:
            self._compiled.move_to_end(digest)
            return self._compiled[digest]
        validator = _compile(schema_of(digest))
        self._compiled[digest] = validator
        if len(self._compiled) > _KEPT:
            self._compiled.popitem(last=False)
        return validator


def _compile(schema: Any) -> jsonschema_rs.Validator | None:
    if not isinstance(schema, dict):
        return None
    try:
        return jsonschema_rs.validator_for(schema, retriever=_accept, pattern_options=_PATTERNS)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        log.debug("a schema cannot be used for checking", reason=str(error)[:200])
        return None


def _accept(_: str) -> Any:
    """Stand in for a remote reference: anything fits."""
    return True


def _depth(value: Any) -> int:
    """How deep a JSON value is nested, without recursion."""
    depth = 0
    level: list[Any] = [value]
    while level and depth <= _MAX_DEPTH:
        depth += 1
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                deeper.extend(item.values())
            elif isinstance(item, list | tuple):
                deeper.extend(item)
        level = deeper
    return depth
