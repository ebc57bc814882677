"""Finds undefined names before a program's first line runs, so that no call is made in vain.

It checks names, imports, functions of servers, their arguments, and calls that are used before they are
awaited. It reports all faults at once, so that the author can correct them together. Types and attributes
of values are known only at run time.
"""

import ast
import builtins
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from maitred.chains.base import ChainFault, ChainFunction, ChainProgram
from maitred.chains.hints import MODULES, with_hint
from maitred.chains.standard_library import SUPPLIED
from maitred.chains.syntax import NO_TREE, bound_names, dotted_name, read_names

_MOST: Final = 20
_LACKING: Final = frozenset((
    "aiter", "anext", "ascii", "breakpoint", "bytearray", "callable", "classmethod", "compile", "copyright",
    "credits", "delattr", "dir", "exit", "globals", "help", "input", "issubclass", "license", "memoryview",
    "open", "quit", "staticmethod", "super", "vars",
))  # fmt: skip
KNOWN: Final = frozenset(name for name in dir(builtins) if name not in _LACKING) | {"call_tool", "__name__"}
_ASYNCIO: Final = frozenset((
    "gather", "run", "sleep", "create_task", "ensure_future", "as_completed", "Semaphore", "BoundedSemaphore",
))  # fmt: skip
"""What a program may call of this module."""
_ENVELOPE: Final = frozenset(("structuredContent", "structured_content"))
_ITSELF: Final = (
    "a call gives what the tool answered itself, parsed where it is JSON: leave it out, and use the value"
)


def unknown_names(program: ChainProgram) -> Sequence[ChainFault]:
    """Every undefined name, in the order of their places; empty if the program does not parse."""
    try:
        nodes = list(ast.walk(ast.parse(program.code)))
    except NO_TREE:
        return []  # the engine's message is better
    servers = program.known or {one.name: [f.name for f in one.functions] for one in program.modules}
    found = {
        (fault.line, fault.column, fault.message): fault
        for fault in (
            *islice(_names(nodes, program, servers), _MOST),
            *islice(_imports(nodes, program, servers), _MOST),
            *islice(_members(nodes, program, servers), _MOST),
            *islice(_calls(nodes, program), _MOST),
            *islice(_envelopes(nodes), _MOST),
        )
    }
    return [found[place] for place in sorted(found)][:_MOST]


def _names(
    nodes: Sequence[ast.AST], program: ChainProgram, servers: Mapping[str, Sequence[str]]
) -> Iterator[ChainFault]:
    known = bound_names(nodes) | KNOWN | {*program.inputs, *MODULES, *SUPPLIED, *servers}
    told: set[str] = set()
    for node in read_names(nodes):
        if node.id not in known and node.id not in told and len(told) < _MOST:
            told.add(node.id)
            yield _fault(node, with_hint(f"NameError: name '{node.id}' is not defined", program))


def _imports(
    nodes: Sequence[ast.AST], program: ChainProgram, servers: Mapping[str, Sequence[str]]
) -> Iterator[ChainFault]:
    for node in nodes:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for name in names:
            first = name.partition(".")[0]
            if first not in {*MODULES, *servers, "__future__"} and name not in SUPPLIED:
                yield _fault(node, with_hint(f"ModuleNotFoundError: No module named '{first}'", program))
        if isinstance(node, ast.ImportFrom) and node.module and node.module in {*servers, *SUPPLIED}:
            for one in node.names:
                if one.name not in (*servers.get(node.module, SUPPLIED.get(node.module, ())), "*"):
                    text = f"ImportError: cannot import name '{one.name}' from '{node.module}'"
                    yield _fault(node, with_hint(text, program))


def _members(
    nodes: Sequence[ast.AST], program: ChainProgram, servers: Mapping[str, Sequence[str]]
) -> Iterator[ChainFault]:
    """Functions that a server or a module does not have; an import under another name is left to the run."""
    has = {**SUPPLIED, **servers}
    rebound = _rebound(nodes) | {*program.inputs}
    for node in nodes:
        module, dot, name = dotted_name(node).partition(".")
        lacks = module in has and name not in has[module]
        if isinstance(node, ast.Call):  # an attribute alone may never be used
            module, dot, name = dotted_name(node.func).partition(".")
            lacks = module == "asyncio" and name not in _ASYNCIO
        if dot and lacks and module not in rebound:
            text = f"AttributeError: module '{module}' has no attribute '{name}'"
            yield _fault(node, with_hint(text, program))


def _calls(nodes: Sequence[ast.AST], program: ChainProgram) -> Iterator[ChainFault]:
    """Calls of tools with wrong arguments, and calls that are used without being awaited."""
    functions = _functions(nodes, program)
    tools = {*functions, *({"call_tool"} - _rebound(nodes) - {*program.inputs})}
    yield from _calls_used_like_results(nodes, tools, program)
    for node in nodes:
        if isinstance(node, ast.Call) and (function := functions.get(dotted_name(node.func))):
            yield from _arguments(node, function)
        match node:
            case (
                ast.For(iter=ast.Call() as call)
                | ast.comprehension(iter=ast.Call() as call)
                | ast.Subscript(value=ast.Call() as call)
                | ast.Attribute(value=ast.Call() as call)
            ) if dotted_name(call.func) in tools:
                text = f"TypeError: `{dotted_name(call.func)}(...)` gives a 'coroutine' object"
                yield _fault(call, with_hint(text, program))
            case _:
                pass


def _calls_used_like_results(
    nodes: Sequence[ast.AST], tools: Collection[str], program: ChainProgram
) -> Iterator[ChainFault]:
    """Calls that were assigned without being awaited, if the name is then used like a result.

    A name that is assigned once, and that is never awaited or passed on, can be nothing else.
    """
    calls = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Call) and dotted_name(node.value.func) in tools
    }
    times = Counter(name for node in nodes for name in bound_names([node]))
    reads = Counter(node.id for node in read_names(nodes))
    used = Counter(name for node in nodes if (name := _used_as_value(node)))
    for name, call in calls.items():
        if times[name] == 1 and used[name] and reads[name] == used[name]:
            text = f"TypeError: `{dotted_name(call.func)}(...)` gives a 'coroutine' object"
            yield _fault(call, with_hint(text, program))


def _used_as_value(node: ast.AST) -> str:
    """The name whose value is looped over, indexed or asked for an attribute."""
    match node:
        case (
            ast.For(iter=ast.Name(id=name))
            | ast.comprehension(iter=ast.Name(id=name))
            | ast.Subscript(value=ast.Name(id=name))
            | ast.Attribute(value=ast.Name(id=name))
        ):
            return name
        case _:
            return ""


def _functions(nodes: Sequence[ast.AST], program: ChainProgram) -> Mapping[str, ChainFunction]:
    """The functions of servers by their names in the program, unless a name has another meaning too."""
    known = {(one.name, function.name): function for one in program.modules for function in one.functions}
    found = {f"{module}.{name}": function for (module, name), function in known.items()}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                if function := known.get((node.module or "", one.name)):
                    found[one.asname or one.name] = function
    rebound = _rebound(nodes) | {*program.inputs}
    return {name: function for name, function in found.items() if name.partition(".")[0] not in rebound}


def _arguments(call: ast.Call, function: ChainFunction) -> Iterator[ChainFault]:
    known = [name for name, _ in function.parameters]
    named = [one.arg for one in call.keywords if one.arg]
    wrong = [f"has no argument {one[:100]!r}" for one in named if one not in known and not function.more]
    if len(named) == len(call.keywords) and not any(isinstance(one, ast.Starred) for one in call.args):
        given = {*known[: len(call.args)], *named}
        wrong += [f"needs {one}" for one in function.required if one not in given]
    if wrong:
        takes = ", ".join(known[:_MOST]) or "no arguments"
        takes = (
            f". It takes: {function.stub.removesuffix(': ...')}" if function.stub else f"; it takes {takes}"
        )
        yield _fault(call, f"TypeError: {function.name}() {' and '.join(wrong[:_MOST])}{takes}")


def _rebound(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that a program binds other than by an import."""
    own = [node for node in nodes if not isinstance(node, ast.Import | ast.ImportFrom)]
    return bound_names(own)


def _envelopes(nodes: Sequence[ast.AST]) -> Iterator[ChainFault]:
    """Fields of a result on the wire, which the value in a program does not have."""
    for node in nodes:
        match node:
            case (
                ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Load())
                | ast.Attribute(attr=name, ctx=ast.Load())
            ) if name in _ENVELOPE:
                yield _fault(node, f"There is no `{name}` here: {_ITSELF}.")
            case ast.Attribute(attr="text", value=ast.Subscript(value=ast.Attribute(attr="content"))):
                yield _fault(node, f"There is no `.content[...].text` here: {_ITSELF}.")
            case _:
                pass


def _fault(node: ast.AST, message: str) -> ChainFault:
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1
    return ChainFault(kind="type", message=message, line=line, column=column)
