"""Chains that an operator has written, read and approved: a program with a name, called like a tool.

This module has values only: parsing a chain, its hash for the approval, and making a program from
arguments. Other modules store the texts and the approvals.
"""

import hashlib
import json
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from maitred.calls.arguments import ArgumentChecker
from maitred.chains.base import ChainLimits, ChainModule, ChainProgram
from maitred.chains.forms import read_form, strip_fence
from maitred.chains.values import TooBigError, bounded_copy
from maitred.errors import ArgumentsError, ConfigError, ToolWithheldError
from maitred.model.tools import canonical

_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}", re.ASCII)
_KEYS = ("description", "parameters", "code", "read_only")
_MOST_CHARS = 200_000
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_RESERVED = frozenset({*keyword.kwlist, "call_tool"})
_SHOWN = 12
_JSON_STARTS = ("{", "[")


@dataclass(frozen=True, kw_only=True)
class SavedChain:
    """A chain that can be called by name. `parameters` is a JSON Schema of the type object."""

    name: str
    description: str
    code: str
    parameters: Mapping[str, Any]
    read_only: bool = False

    @property
    def hash(self) -> str:
        """The SHA-256 of the whole chain, as 64 hex digits: two chains with one hash are the same."""
        whole = {key: getattr(self, key) for key in ("name", *_KEYS)}
        return hashlib.sha256(canonical(whole)).hexdigest()

    def verify(self, reviewed: str) -> None:
        """Check that this is the reviewed chain, by the hash of the review.

        Raises:
            ToolWithheldError: It is not.
        """
        if self.hash != reviewed:
            what = "was changed since it was reviewed" if reviewed else "was not reviewed yet"
            raise ToolWithheldError(
                self.name,
                f"this saved chain {what} (its hash is now {self.hash[:_SHOWN]}…); its operator must read it"
                f" and save it again: `maitred chains add {self.name} FILE --replace`",
            )

    def program(
        self,
        arguments: Mapping[str, Any],
        modules: Sequence[ChainModule] = (),
        *,
        known: Mapping[str, Sequence[str]] | None = None,
    ) -> ChainProgram:
        """The program with a variable for each parameter: its argument, else its default, else None.

        Raises:
            ArgumentsError: The arguments do not fit the parameters.
        """
        properties = self.parameters.get("properties", {})
        faults = ArgumentChecker().faults(self.hash, lambda _: dict(self.parameters), arguments)
        faults += [f"{key[:80]}: there is no such parameter" for key in arguments if key not in properties]
        if faults:
            schema = canonical(dict(self.parameters)).decode("utf-8", "replace")
            raise ArgumentsError(self.name, faults, schema=schema)
        inputs = {key: arguments.get(key, _default(schema)) for key, schema in properties.items()}
        return ChainProgram(code=self.code, modules=modules, known=known or {}, inputs=inputs)


def parse_saved(name: str, text: str) -> SavedChain:
    """Read a chain from YAML or JSON with `description`, `code`, and optional `parameters` and `read_only`.

    Raises:
        ConfigError: Lists every fault by its key.
    """
    source = f"saved chain {name[:80]!r}"
    tree, faults = _read(text)
    if tree is None:
        raise ConfigError(source, faults)
    if not _NAME.fullmatch(name):
        faults.append("name: must be lower-case letters, digits and _, at most 48, a letter first")
    faults += [
        f"{str(key)[:80]}: is not known; there are {', '.join(_KEYS)}" for key in tree if key not in _KEYS
    ]
    for key in ("description", "code"):
        if not isinstance(tree.get(key), str) or not tree[key].strip():
            faults.append(f"{key}: must be a text that is not empty")
        elif len(tree[key].encode("utf-8", "surrogatepass")) > ChainLimits().source_bytes:
            faults.append(f"{key}: is longer than {ChainLimits().source_bytes:,} bytes")
    if not isinstance(tree.get("read_only", False), bool):
        faults.append("read_only: must be true or false")
    if not faults and tree["code"].lstrip()[:1] in _JSON_STARTS and read_form(tree["code"]) is not None:
        faults.append("code: must be a program; calls in a short form cannot be saved")
    parameters = tree.get("parameters") or dict(_NO_PARAMETERS)
    faults += [f"parameters: {fault}" for fault in _schema_faults(parameters)]
    if faults:
        raise ConfigError(source, faults)
    return SavedChain(
        name=name,
        description=tree["description"].strip(),
        code=strip_fence(tree["code"]),
        parameters=parameters,
        read_only=tree.get("read_only", False),
    )


def _read(text: str) -> tuple[dict[str, Any] | None, list[str]]:
    """The top level as plain values, or `None` with the reason."""
    if len(text) > _MOST_CHARS:
        return None, [f"it is longer than {_MOST_CHARS:,} characters"]
    try:
        tree = _loaded(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return None, [f"line {mark.line + 1 if mark else 1}: {error.problem or error.context}"]
    except (YAMLError, ValueError) as error:
        return None, [" ".join(str(error).split())[:200]]
    except RecursionError:
        return None, ["it is nested too deeply"]
    return (tree, []) if isinstance(tree, dict) else (None, ["the top level must be a mapping"])


def _loaded(text: str) -> Any:
    """Load a text; aliases are refused, since a few lines of them can expand to a billion values."""
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        try:
            return bounded_copy(json.loads(text), ChainLimits())
        except json.JSONDecodeError:
            pass  # it may be a YAML mapping in braces
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        if isinstance(event, AliasEvent):
            raise YAMLError("an alias (`*name`) cannot be used here")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > ChainLimits().depth:  # reading on takes time in the square of the depth
            raise RecursionError
    try:
        return bounded_copy(YAML(typ="safe", pure=True).load(text), ChainLimits())
    except TooBigError as error:
        raise ValueError(f"it cannot be said in JSON: {error}") from error


def _schema_faults(parameters: Any) -> list[str]:
    """Why a schema cannot describe the parameters of a chain; empty if it can."""
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        return ["must be a JSON Schema with `type: object`"]
    properties = parameters.get("properties", {})
    if not isinstance(properties, dict):
        return ["`properties` must be a mapping"]
    faults = [
        f"{key[:80]!r} cannot be the name of a variable"
        for key in properties
        if not key.isidentifier() or not key.isascii() or key.startswith("_") or key in _RESERVED
    ]
    required = parameters.get("required", [])
    if isinstance(required, list):
        missing = [key for key in required if key not in properties]
        faults += [
            f"`required` names {str(key)[:80]!r}, which is not among the properties" for key in missing
        ]
    try:
        jsonschema_rs.meta.validate(parameters)
        given = {key: schema["default"] for key, schema in properties.items() if _has_default(schema)}
        defaults = {**parameters, "required": []}
        faults += [f"default of {error.message[:200]}" for error in _misfits(defaults, given)]
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        faults.append(f"is not a valid JSON Schema: {str(error).splitlines()[0][:200]}")
    return faults


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _misfits(schema: Mapping[str, Any], value: Any) -> list[Any]:
    return list(jsonschema_rs.validator_for(dict(schema)).iter_errors(value))


def _default(schema: Any) -> Any:
    return schema.get("default") if isinstance(schema, dict) else None
