"""Read the arguments of a meta-tool as a model sends them.

Input with only one possible meaning is accepted: a key under another usual name, a number or a list as a
text, the tool's own parameters beside `arguments`. An error names all other input. No key is dropped.
"""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from maitred.errors import ArgumentsError, MaitredError, UnknownDetailError
from maitred.model.details import DETAILS, Detail
from maitred.model.usage import UsageFilter, parse_age
from maitred.wording import as_code, did_you_mean

Json = Mapping[str, Any]

NAME_KEYS: Final = ("name", "tool", "tool_name")
ARGUMENT_KEYS: Final = ("arguments", "args", "params", "parameters", "input")
PHRASE_KEYS: Final = ("phrases", "phrase", "query", "queries")
NAMES_KEYS: Final = ("names", "name", "tool", "tools", "tool_name")
TAG_KEYS: Final = ("tag", "tags")
PATH_KEYS: Final = ("path", "server", "category")
MAX_OUTPUT: Final = 1_000_000
_MOST_KEYS: Final = 10


class WrongArgumentError(MaitredError):
    """A meta-tool was called with an argument that it does not know, or of the wrong kind."""


def check_keys(
    tool: str, given: Json, known: Collection[str], *same: Sequence[str], hidden: Collection[str] = ()
) -> None:
    """Refuse keys that a meta-tool does not know, and two different values for one argument.

    Args:
        tool: The name of the meta-tool.
        given: Its arguments.
        known: The keys of its schema.
        same: Groups of keys with one meaning, the key of the schema first.
        hidden: Further keys that it accepts.

    Raises:
        WrongArgumentError: It names the key, and the nearest known key or all of them.
    """
    taken = {*known, *hidden, *(key for keys in same for key in keys)}
    for key in given:
        if key not in taken:
            there = f"it takes {', '.join(map(as_code, known))}"
            hint = did_you_mean(key, known, quoted=as_code, otherwise=there)
            raise WrongArgumentError(f"`{tool}` has no argument {as_code(key)}; {hint}")
    for keys in same:
        _one_of(given, keys)


def _one_of(given: Json, keys: Sequence[str]) -> tuple[str, Any]:
    """Among keys of one meaning, the key with a value, and its value; else the first key and `None`."""
    found = [(key, given[key]) for key in keys if given.get(key) is not None]
    for key, value in found[1:]:
        if value != found[0][1]:
            raise WrongArgumentError(f"`{found[0][0]}` and `{key}` mean the same; send one of them")
    return found[0] if found else (keys[0], None)


# --- single values ----------------------------------------------------------------------------------------


def text(given: Json, *keys: str) -> str:
    """A text under one of some keys; empty if there is none."""
    key, value = _one_of(given, keys)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongArgumentError(f"`{key}` must be a text")
    return value


def texts(given: Json, keys: Sequence[str]) -> Sequence[str]:
    """A list of texts under one of some keys; a single text counts as a list of one."""
    _, value = _one_of(given, keys)
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _parsed(value, value)
    if isinstance(value, str) and value.strip():
        return [value]
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return value
    raise WrongArgumentError(f"`{keys[0]}` must be a list of texts with at least one entry")


def boolean(given: Json, key: str) -> bool:
    """True or false; false if the argument is missing."""
    value = given.get(key)
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower(), value)
    if not isinstance(value, bool | None):
        raise WrongArgumentError(f"`{key}` must be true or false")
    return value is True


def tags(given: Json) -> Sequence[str]:
    """One tag or a list of them; none if the argument is missing."""
    key, value = _one_of(given, TAG_KEYS)
    return texts(given, (key,)) if value not in (None, "", []) else ()


def number(given: Json, key: str, *, most: float | None = None) -> float | None:
    """A number from 0; `None` if the argument is missing."""
    value = given.get(key)
    if isinstance(value, str):
        value = _parsed(value, value)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or (most is not None and value > most):
        limits = "from 0" if most is None else f"from 0 to {most:g}"
        raise WrongArgumentError(f"`{key}` must be a number {limits}")
    return float(value)


def use(given: Json) -> UsageFilter:
    """The limits of the use of a tool.

    Raises:
        WrongArgumentError: A value is of the wrong kind.
    """
    age = text(given, "used_within")
    try:
        span = parse_age(age) if age else None
    except ValueError as error:
        raise WrongArgumentError(f"`used_within` {error}") from None
    return UsageFilter(
        max_latency_ms=number(given, "max_latency_ms"),
        min_success=number(given, "min_success", most=1),
        used_within=span,
    )


def integer(given: Json, key: str, default: int, *, most: int) -> int:
    """A whole number from 1; a number above `most` counts as `most`."""
    value = given.get(key)
    if value is None:
        return default
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}\s*", value, re.ASCII):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        limits = f"from 1 to {most:,}; more counts as {most:,}"
        raise WrongArgumentError(f"`{key}` must be a number without a fraction, {limits}")
    return min(value, most)


def detail(given: Json) -> Detail:
    """How much of each tool the answer shows.

    Raises:
        UnknownDetailError: There is no such level.
    """
    value = text(given, "detail") or "brief"
    if value not in DETAILS:
        raise UnknownDetailError(value, list(DETAILS))
    return value


def path(given: Json) -> str:
    """A path of the menu; `server` or `category` alone also names one."""
    found = {key: text(given, key) for key in PATH_KEYS if text(given, key)}
    if len(found) > 1:
        raise WrongArgumentError(f"{' and '.join(map(as_code, found))} say where to look; send one of them")
    for key, value in found.items():
        return value if key == "path" else f"{key}/{value.removeprefix(f'{key}/')}"
    return ""


def code(given: Json) -> str:
    """A program; the calls of a chain may come as JSON values instead of JSON text."""
    value = given.get("code")
    found = json.dumps(value) if isinstance(value, dict | list) else text(given, "code")
    if not found.strip():
        raise WrongArgumentError("`code` is missing: a program, or a JSON list of calls")
    return found


def _parsed(written: str, otherwise: Any) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return otherwise


# --- calls ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RequestedCall:
    """A call as the model sent it: the tool, its arguments, and all other keys beside them."""

    name: str
    arguments: Json
    beside: Json


def asked_call(given: Json) -> RequestedCall:
    """The call that the arguments of `call_tool` ask for; models sometimes send `arguments` as a JSON text.

    Raises:
        WrongArgumentError: The name is missing, or a value is of the wrong kind.
    """
    name = text(given, *NAME_KEYS)
    if not name:
        raise WrongArgumentError("`name` is missing: the full name of the tool, as search_tools shows it")
    own = (*NAME_KEYS, ARGUMENT_KEYS[0])
    beside = {key: value for key, value in given.items() if key not in own and value is not None}
    return RequestedCall(name=name, arguments=_object(given.get(ARGUMENT_KEYS[0])), beside=beside)


def _object(value: Any) -> Json:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError) as error:
            raise WrongArgumentError(
                f"`arguments` must be an object; its JSON does not parse: {error}"
            ) from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise WrongArgumentError("`arguments` must be an object: the tool's parameters by name")
    return value


def merge_arguments(asked: RequestedCall, *, tool: str, schema: Any, parameters: str) -> Json:
    """The arguments of a call, joined with keys beside them where the tool's schema makes the meaning clear.

    Args:
        asked: The call.
        tool: The tool's full name.
        schema: Its input schema.
        parameters: Its parameters in short, for the error.

    Raises:
        ArgumentsError: It names the keys that were sent beside `arguments`, and shows the parameters.
    """
    beside = {k: v for k, v in asked.beside.items() if k not in asked.arguments or asked.arguments[k] != v}
    if not beside:
        return asked.arguments
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    properties = found if isinstance(found, Mapping) else {}
    if not asked.arguments:
        if beside.keys() <= properties.keys():
            return beside
        if len(beside) == 1 and beside.keys() <= set(ARGUMENT_KEYS):
            return _object(next(iter(beside.values())))
    names = ", ".join(map(as_code, list(beside)[:_MOST_KEYS]))
    names += f" and {len(beside) - _MOST_KEYS:,} more" if len(beside) > _MOST_KEYS else ""
    place = "`arguments`" if asked.arguments else "`name`"
    fault = f"you sent {names} beside {place}; put the tool's parameters into `arguments`"
    raise ArgumentsError(tool, [fault], schema=parameters)
