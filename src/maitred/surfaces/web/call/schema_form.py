"""A form for the arguments of a tool, from its JSON Schema, and the arguments from what a person typed.

Simple values have fields of their own. What has parts is typed as JSON. A value of another type than the
schema wants is passed on as it is: only the check of the gateway says what is wrong.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from maitred.model.nesting import depth_within
from maitred.surfaces.web.screen import Form

Kind = Literal["line", "text", "number", "switch", "choice", "json"]

PREFIX: Final = "arg:"
"""What the name of a field begins with, before the name of the argument."""
_MOST_FIELDS: Final = 100
_MOST_CHOICES: Final = 200
_MOST_LEVELS: Final = 100
_TOO_DEEP: Final = f"it is nested in more than {_MOST_LEVELS} levels"
_LONG: Final = re.compile(
    r"body|code|content|description|message|prompt|query|script|sql|text", re.IGNORECASE
)
_REQUIRED: Final = re.compile(r'"(.+)" is a required property')
_SIMPLE: Final[Mapping[str, Kind]] = {
    "string": "line",
    "integer": "number",
    "number": "number",
    "boolean": "switch",
}

_LIMITS: Final = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "pattern": "pattern",
    "format": "format",
    "default": "default",
}


class ArgumentsTextError(Exception):
    """What was typed as arguments cannot be read; `faults` begin with the argument that they are about."""

    def __init__(self, text: str, faults: Sequence[str] = ()) -> None:
        self.faults = faults
        super().__init__(text)


@dataclass(frozen=True, kw_only=True)
class ArgumentField:
    """One argument: `choices` are its values as JSON, `hint` says its type, limits and default."""

    name: str
    kind: Kind
    required: bool
    about: str
    hint: str
    choices: Sequence[str] = ()
    value: str = ""
    faults: Sequence[str] = ()

    @property
    def field(self) -> str:
        """The name of its field in the form."""
        return f"{PREFIX}{self.name}"


def fields_of(
    schema: Mapping[str, Any] | None, typed: Mapping[str, str], faults: Sequence[str]
) -> Sequence[ArgumentField]:
    """The fields for a schema, the required ones first, with what was typed and what is wrong with it."""
    properties = (schema or {}).get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    wanted = (schema or {}).get("required")
    required = {str(one) for one in wanted} if isinstance(wanted, list) else set()
    names = [str(name) for name in known][:_MOST_FIELDS]
    return [
        _field(name, known[name], name in required, typed.get(name, ""), faults)
        for name in sorted(names, key=lambda one: one not in required)
    ]


def _field(name: str, schema: Any, required: bool, value: str, faults: Sequence[str]) -> ArgumentField:  # noqa: FBT001  # private
    own = schema if isinstance(schema, Mapping) else {}
    choices = own.get("enum")
    kind = _kind(name, own)
    return ArgumentField(
        name=name,
        kind=kind,
        required=required,
        about=str(own.get("description") or own.get("title") or ""),
        hint=_hint(own),
        choices=[_as_json(one) for one in choices[:_MOST_CHOICES]] if kind == "choice" and choices else (),
        value=value,
        faults=[fault for fault in faults if is_about(fault, name)],
    )


def _type_of(schema: Mapping[str, Any]) -> str:
    types = schema.get("type")
    every = types if isinstance(types, list) else [types]
    return next((one for one in every if isinstance(one, str) and one != "null"), "")


def _kind(name: str, schema: Mapping[str, Any]) -> Kind:
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= _MOST_CHOICES:
        return "choice"
    kind = _SIMPLE.get(_type_of(schema), "json")
    return "text" if kind == "line" and _LONG.search(name) else kind


def _hint(schema: Mapping[str, Any]) -> str:
    """The type of a value with its limits, in short."""
    words = [_type_of(schema) or ("one of these" if schema.get("enum") else "any JSON")]
    words += [f"{text} {_as_json(schema[key])}" for key, text in _LIMITS.items() if key in schema]
    return ", ".join(words)[:300]


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def is_about(fault: str, name: str) -> bool:
    """Whether a fault of the argument check is about one argument."""
    missing = _REQUIRED.fullmatch(fault)
    if missing:
        return missing[1] == name
    where, colon, _ = fault.partition(": ")
    return bool(colon) and (where == name or where.startswith(f"{name}."))


def typed_values(form: Form) -> Mapping[str, str]:
    """What a person typed, by argument; empty fields are left out."""
    names = dict.fromkeys(name for name in form.names() if name.startswith(PREFIX))
    found = {name.removeprefix(PREFIX): form.raw(name) for name in names}
    return {name: value for name, value in found.items() if value != ""}


def arguments_of(typed: Mapping[str, str], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments that the typed texts mean.

    Raises:
        ArgumentsTextError: A text that begins like an object or a list is no JSON.
    """
    fields = {one.name: one for one in fields_of(schema, {}, ())}
    found, faults = dict[str, Any](), list[str]()
    for name, text in typed.items():
        try:
            found[name] = _value(text, fields.get(name))
        except ValueError as error:
            faults.append(f"{name}: this is not JSON: {error}")
    if faults:
        raise ArgumentsTextError("The arguments cannot be read, so the tool was not called.", faults)
    return found


def _value(text: str, field: ArgumentField | None) -> Any:
    if field is not None and field.kind in ("line", "text"):
        return text
    try:
        return read_json(text)
    except ValueError:
        if text.lstrip()[:1] in ("{", "["):
            raise
        return text


def read_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is no JSON, or it is nested too deeply to be passed on and shown.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if not depth_within(value, _MOST_LEVELS):
        raise ValueError(_TOO_DEEP)
    return value
