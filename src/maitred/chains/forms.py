"""Two short forms of a chain that is no program: calls as JSON, and a single call.

    {"tool": "github__search", "arguments": {"query": "x"}}     one call, or a list of them in their order
    github__search({"query": "x"})                              also `await call_tool("github__search", {…})`
    github.search(query="x", limit=5)

They are parsed, never run: arguments are literals. A text with more than literals goes to the engine.
"""

import ast
import json
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from maitred.chains.base import ChainFault, ChainFunction, ChainLimits, ChainModule
from maitred.chains.hints import MODULES

_MOST_CHARS = 64_000
_MOST_DEEP = ChainLimits().depth
_CALL = re.compile(r"(?:await\s+)?(?P<name>[\w.-]{1,200})\s*(?P<rest>\(.*\))", re.ASCII | re.DOTALL)
_CALL_TOOL = "call_tool"
_SHAPE = '{"tool": "server__tool", "arguments": {…}}'
_FENCE = re.compile(r"\s*```[a-zA-Z]*\n(.*?)\n?```\s*", re.DOTALL)
_KEYS = frozenset({"tool", "arguments"})
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, kw_only=True)
class DirectCall:
    """One call as it was written; `tool` is the name as written, not looked up yet."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class DirectCalls:
    """Calls to be made one after the other. A list of calls gives a list of results, else one result."""

    calls: Sequence[DirectCall]
    many: bool = False


class _FormError(Exception):
    """The text is a short form, but a faulty one."""


def strip_fence(code: str) -> str:
    """A program without the Markdown fence around it."""
    found = _FENCE.fullmatch(code)
    return found[1] if found else code


def read_form(code: str, modules: Sequence[ChainModule] = ()) -> DirectCalls | ChainFault | None:
    """The calls that a text means; a fault if it is nearly a short form; `None` if it is a program.

    Args:
        code: Any text. More than 64,000 characters are no short form.
        modules: Resolve `server.tool(…)`; what is not in them means `server__tool`.
    """
    text = code.strip()
    if not text or len(text) > _MOST_CHARS:
        return None
    try:
        if text[0] in "{[":
            return _calls(text)
        found = _CALL.fullmatch(text)
        return _written(found["name"], found["rest"], modules) if found else None
    except _FormError as error:
        message = str(error)
    except RecursionError:
        message = "The arguments are nested too deeply."
    return ChainFault(kind="syntax", message=message, line=code[: code.index(text)].count("\n") + 1)


def _calls(text: str) -> DirectCalls | None:
    try:
        value = json.loads(text)
    except ValueError:
        try:
            value = _literal(_parsed(text))
        except ValueError:
            return None
    if isinstance(value, dict):
        return DirectCalls(calls=[_call(value, "the call")])
    if not isinstance(value, list):
        return None
    if not value:
        raise _FormError(f"The list holds no call. Write {_SHAPE}.")
    calls = [_call(item, f"call {place} of {len(value)}") for place, item in enumerate(value, 1)]
    return DirectCalls(calls=calls, many=True)


def _call(value: Any, which: str) -> DirectCall:
    if isinstance(value, dict) and "tool" not in value and "name" in value:
        value = {"tool" if key == "name" else key: item for key, item in value.items()}
    if not isinstance(value, dict) or not isinstance(value.get("tool"), str):
        raise _FormError(f"In {which}, `tool` must name a tool. Write {_SHAPE}.")
    arguments = value.get("arguments")
    if not isinstance(arguments, dict | None):
        raise _FormError(f"In {which}, `arguments` must be an object.")
    if others := [key for key in value if key not in _KEYS]:
        named = repr(others[0][:80]) if isinstance(others[0], str) else "a key that is no string"
        raise _FormError(f"In {which}, {named} means nothing. Write {_SHAPE}.")
    return DirectCall(tool=value["tool"], arguments=_json(arguments or {}, which))


def _written(name: str, rest: str, modules: Sequence[ChainModule]) -> DirectCalls | None:
    """Parse a call; `rest` is the text from the opening parenthesis on, and the name may contain a hyphen."""
    module, dot, member = name.partition(".")
    is_call = name == _CALL_TOOL or (dot and module and member) or "__" in name.strip("_")
    if not is_call or (_is_of_python(module, member) and all(one.name != module for one in modules)):
        return None  # `print("x")` is a program, and so is `math.sqrt(2)`
    try:
        node = _parsed(f"f{rest}")
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        given = [_literal(argument) for argument in node.args]
        named = {str(one.arg): _literal(one.value) for one in node.keywords if one.arg}
    except ValueError:
        return None
    if len(named) < len(node.keywords):
        return None
    if name == _CALL_TOOL:
        named = {"tool" if key == "name" else key: value for key, value in named.items()}
        return DirectCalls(calls=[_call(_bind(name, ("tool", "arguments"), given, named), "the call")])
    function = _function(modules, module, member)
    tool = function.tool if function else f"{module}__{member}" if dot else name
    if len(given) == 1 and isinstance(given[0], dict) and not named:
        arguments = given[0]
    else:
        names = dict(function.parameters) if function else {}
        bound = _bind(name, tuple(names), given, named)
        arguments = {names.get(key, key): value for key, value in bound.items()}
    return DirectCalls(calls=[DirectCall(tool=tool, arguments=_json(arguments, "the call"))])


def _is_of_python(module: str, member: str) -> bool:
    """Whether a module of the engine's library has this member."""
    return module in MODULES and hasattr(import_module(module), member.partition(".")[0])


def _function(modules: Sequence[ChainModule], module: str, name: str) -> ChainFunction | None:
    functions = (f for one in modules if one.name == module for f in one.functions)
    return next((f for f in functions if f.name == name), None)


def _bind(function: str, names: Sequence[str], given: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """Positional arguments under their parameters' names, then the named ones."""
    if len(given) > len(names):
        raise _FormError(f"Name the arguments of {function}: one object, or NAME=VALUE for each.")
    bound = dict(zip(names, given, strict=False))
    if twice := bound.keys() & named.keys():
        raise _FormError(f"{function} is given {min(twice)!r:.80} twice.")
    return bound | named


class _JsonWords(ast.NodeTransformer):
    """Reads `true`, `false` and `null` as in JSON."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Constant(_WORDS[node.id]), node) if node.id in _WORDS else node


def _parsed(text: str) -> ast.expr:
    """The tree of one expression; raises `ValueError` if it is none, or too deep."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on escapes that mean nothing
            return ast.parse(text, mode="eval").body
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("it is no expression") from error


def _literal(node: ast.expr) -> Any:
    """The value of an expression of literals only; raises `ValueError` if it is not."""
    try:
        return ast.literal_eval(_JsonWords().visit(node))
    except (TypeError, SyntaxError, MemoryError, RecursionError) as error:  # such as a list as a key
        raise ValueError("it is no literal") from error


def _json(value: Any, which: str, depth: int = 0) -> Any:
    """A value of literals as plain JSON, as deep as one of a program may be; tuples become lists."""
    if depth > _MOST_DEEP:
        raise _FormError(f"In {which}, the arguments are nested over {_MOST_DEEP} levels deep.")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise _FormError(f"In {which}, the keys of an object must be strings.")
        return {key: _json(member, which, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item, which, depth + 1) for item in value]
    if isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value)):
        return value
    what = (
        "number that is not finite" if isinstance(value, float) else f"value of type {type(value).__name__}"
    )
    raise _FormError(f"In {which}, there is a {what}, which JSON does not have.")
