"""Suggest a schema for a tool that declares no parameters, so that a caller knows what to send.

Such a schema is a guess. The tool names its parameters in `inferred`, and no call is checked by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from maitred.mediation.overrides import TEXTS

_OPEN: Final = frozenset({
    "type", "properties", "required", "additionalProperties", "$schema", "$id", *TEXTS,
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class InferredParameter:
    """A parameter that a tool probably takes: its schema, and whether calls need it."""

    schema: Mapping[str, Any] = field(default_factory=dict)
    is_required: bool = False


def is_open(schema: Mapping[str, Any] | None) -> bool:
    """Whether a schema declares no parameters and allows any."""
    own: Mapping[str, Any] = {} if schema is None else schema
    return (
        own.keys() <= _OPEN
        and own.get("type", "object") == "object"
        and own.get("properties", {}) == {}
        and own.get("additionalProperties", True) in (True, {})
    )


def infer_schema(
    schema: Mapping[str, Any] | None, parameters: Mapping[str, InferredParameter]
) -> Mapping[str, Any]:
    """An open schema with parameters; `required` names those of the server, too."""
    own: Mapping[str, Any] = {"type": "object"} if schema is None else schema
    declared = own.get("required")
    named = [
        *(declared if isinstance(declared, list) else ()),
        *(n for n, p in parameters.items() if p.is_required),
    ]
    required = list(dict.fromkeys(named))
    return {
        **own,
        "type": "object",
        "properties": {name: dict(parameter.schema) for name, parameter in parameters.items()},
        **({"required": required} if required else {}),
    }
