"""Definitions and parameters in the form that the SDK gives them, as long as they are plain.

The SDK checks what clients send, and drops fields that a protocol revision does not know. Its models are slow
to load. This module does the same for values whose every part is of the usual type, and refuses all others:
the SDK then has to decide. `tests/surfaces/mcp/test_first_answers.py` compares both, byte for byte.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from maitred.model.log_levels import LEVELS

Shape = Callable[[Any], Any]
"""Returns a value as the SDK would, or raises `UnusualValueError`."""


class UnusualValueError(Exception):
    """A value needs the SDK."""


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """The entries of lists in one era, by the field of the list that has them."""

    tools: Shape
    resources: Shape
    resource_templates: Shape
    prompts: Shape

    def of(self, field: str) -> Shape:
        """The shape of the entries of a field."""
        fields = {"resourceTemplates": self.resource_templates, "resources": self.resources}
        return fields.get(field) or {"tools": self.tools, "prompts": self.prompts}[field]


def _expect(fits: bool) -> None:  # noqa: FBT001  # it is the only argument
    if not fits:
        raise UnusualValueError


def _text(value: Any) -> str:
    _expect(isinstance(value, str))
    return str(value)


def _flag(value: Any) -> bool:
    _expect(isinstance(value, bool))
    return bool(value)


def _integer(value: Any) -> int:
    _expect(isinstance(value, int) and not isinstance(value, bool))
    return int(value)


def _share(value: Any) -> float:
    _expect(isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1)
    return float(value)


def _one_of(known: tuple[str, ...], value: Any) -> str:
    _expect(isinstance(value, str) and value in known)
    return str(value)


def _each(shape: Shape, value: Any) -> list[Any]:
    _expect(isinstance(value, list))
    return [shape(one) for one in value]


def _open(value: Any) -> dict[str, Any]:
    """An object of any fields; the SDK drops a null in some of them."""
    _expect(isinstance(value, dict) and None not in value.values())
    return dict(value)


def _fields(known: Mapping[str, Shape], needed: tuple[str, ...], value: Any) -> dict[str, Any]:
    """An object without unknown fields and nulls, its fields in the order of the SDK's models."""
    _expect(isinstance(value, dict) and all(value.get(name) is not None for name in needed))
    return {name: known[name](value[name]) for name in sorted(known) if value.get(name) is not None}


def _schema(known: Mapping[str, Shape], needed: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A JSON schema: the fields that the SDK knows come first."""
    rest = {name: one for name, one in _open(value).items() if name not in known}
    return _fields(known, needed, value) | rest


def _property(value: Any) -> Any:
    _expect(isinstance(value, dict | bool))
    return value


def _properties(value: Any) -> dict[str, Any]:
    _expect(isinstance(value, dict))
    return {name: _property(one) for name, one in value.items()}


_ICON: Final = partial(
    _fields,
    {
        "mimeType": _text,
        "sizes": partial(_each, _text),
        "src": _text,
        "theme": partial(_one_of, ("dark", "light")),
    },
    ("src",),
)
_ABOUT: Final[Mapping[str, Shape]] = {
    "_meta": _open,
    "description": _text,
    "icons": partial(_each, _ICON),
    "name": _text,
    "title": _text,
}
_AUDIENCE: Final = partial(_each, partial(_one_of, ("user", "assistant")))
_NOTES: Final = partial(_fields, {"audience": _AUDIENCE, "lastModified": _text, "priority": _share}, ())
_HINTS: Final = partial(
    _fields,
    {
        "destructiveHint": _flag,
        "idempotentHint": _flag,
        "openWorldHint": _flag,
        "readOnlyHint": _flag,
        "title": _text,
    },
    (),
)
_OBJECT: Final = partial(_one_of, ("object",))
_ARGUMENT: Final = partial(
    _fields, {"description": _text, "name": _text, "required": _flag, "title": _text}, ("name",)
)
_RESOURCE: Final[Mapping[str, Shape]] = {**_ABOUT, "annotations": _NOTES, "mimeType": _text}
_TOOL: Final[Mapping[str, Shape]] = {**_ABOUT, "annotations": _HINTS}
_FULL_SCHEMA: Final = partial(
    _schema,
    {"$schema": _text, "properties": _properties, "required": partial(_each, _text), "type": _OBJECT},
    ("type",),
)
_EXECUTION: Final = partial(
    _fields, {"taskSupport": partial(_one_of, ("forbidden", "optional", "required"))}, ()
)
_OFFERS: Final[Mapping[str, Shape]] = {
    "resources": partial(_fields, {**_RESOURCE, "size": _integer, "uri": _text}, ("name", "uri")),
    "resource_templates": partial(_fields, {**_RESOURCE, "uriTemplate": _text}, ("name", "uriTemplate")),
    "prompts": partial(_fields, {**_ABOUT, "arguments": partial(_each, _ARGUMENT)}, ("name",)),
}

HANDSHAKE: Final = Shapes(
    **_OFFERS,
    tools=partial(
        _fields,
        {**_TOOL, "execution": _EXECUTION, "inputSchema": _FULL_SCHEMA, "outputSchema": _FULL_SCHEMA},
        ("name", "inputSchema"),
    ),
)
"""For clients of revisions up to 2025-11-25, which the SDK serves by the models of the last of them."""

STATELESS: Final = Shapes(
    **_OFFERS,
    tools=partial(
        _fields,
        {
            **_TOOL,
            "inputSchema": partial(_schema, {"$schema": _text, "type": _OBJECT}, ("type",)),
            "outputSchema": partial(_schema, {"$schema": _text}, ()),
        },
        ("name", "inputSchema"),
    ),
)
"""For clients of revision 2026-07-28."""


# --- parameters of clients --------------------------------------------------------------------------------

_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
_OPEN_CAPABILITIES: Final = ("experimental", "extensions")
_KNOWN_CAPABILITIES: Final = ("elicitation", "roots", "sampling", "tasks", *_OPEN_CAPABILITIES)


def check_client(info: Any) -> tuple[str, str]:
    """The name and the version of a client in what it says of itself.

    Raises:
        UnusualValueError: It has parts besides texts.
    """
    texts = {"description": _text, "name": _text, "title": _text, "version": _text, "websiteUrl": _text}
    _expect(isinstance(info, dict) and info.keys() <= texts.keys())
    read = _fields(texts, ("name", "version"), info)
    return str(read["name"]), str(read["version"])


def check_capabilities(declared: Any) -> None:
    """Check that a client declares its capabilities by names alone.

    Raises:
        UnusualValueError: It gives details, or an unknown capability.
    """
    _expect(isinstance(declared, dict) and declared.keys() <= set(_KNOWN_CAPABILITIES))
    for name, value in declared.items():
        if name in _OPEN_CAPABILITIES:
            _expect(isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()))
        else:
            _check_names(value)


def _check_names(value: Any) -> None:
    _expect(isinstance(value, dict))
    for name, below in value.items():
        if name == "listChanged":
            _flag(below)
        else:
            _check_names(below)


def check_meta(meta: Any) -> None:
    """Check the `_meta` of a request of the handshake era.

    Raises:
        UnusualValueError: It belongs to the other era, or its progress token is malformed.
    """
    _expect(isinstance(meta, dict) and _VERSION not in meta)
    _check_token(meta)


def _check_token(meta: Mapping[str, Any]) -> None:
    token = meta.get("progressToken", 0)
    _expect(isinstance(token, int | str) and not isinstance(token, bool))


def check_envelope(meta: Any, version: str) -> tuple[str, str]:
    """Name and version of the client in the `_meta` of a stateless request; empty if it gives none.

    Raises:
        UnusualValueError: Its version is another, or a part is malformed or unusual.
    """
    _expect(isinstance(meta, dict) and meta.get(_VERSION) == version)
    check_capabilities(meta.get(_CAPABILITIES))
    _check_token(meta)
    if _LOG_LEVEL in meta:
        _one_of(LEVELS, meta[_LOG_LEVEL])
    return check_client(meta[_CLIENT]) if _CLIENT in meta else ("", "")
