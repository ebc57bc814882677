"""What a program names and nothing has, told before its first line runs: else it would make its first calls.

It looks at names, imports and the functions of servers, all at once, so that the next try can mend them all.
Whether a value has a type or an attribute shows only when the program runs.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from maitred.execution.chain.advice import MODULES, advised
from maitred.execution.chain.base import ChainFault, ChainProgram
from maitred.execution.chain.usual import NO_TREE, bound_names, dotted, read_names

_MOST: Final = 20
_LACKING: Final = frozenset((
    "aiter", "anext", "ascii", "breakpoint", "bytearray", "callable", "classmethod", "compile", "copyright",
    "credits", "delattr", "dir", "exit", "globals", "help", "input", "issubclass", "license", "memoryview",
    "open", "quit", "staticmethod", "super", "vars",
))  # fmt: skip
_KNOWN: Final = frozenset(name for name in dir(builtins) if name not in _LACKING) | {"call_tool", "__name__"}
_ENVELOPE: Final = frozenset(("structuredContent", "structured_content"))
_ITSELF: Final = (
    "a call gives what the tool answered itself, parsed where it is JSON: leave it out, and use the value"
)


def unknown_names(program: ChainProgram) -> Sequence[ChainFault]:
    """Every name that means nothing, in the order of their places; none where the program does not parse."""
    try:
        nodes = list(ast.walk(ast.parse(program.code)))
    except NO_TREE:
        return []  # the engine says better what is wrong
    servers = program.known or {one.name: [f.name for f in one.functions] for one in program.modules}
    found = {
        (fault.line, fault.column, fault.message): fault
        for fault in (
            *_names(nodes, program, servers),
            *_imports(nodes, program, servers),
            *_members(nodes, program, servers),
            *_envelopes(nodes),
        )
    }
    return [found[place] for place in sorted(found)][:_MOST]


def _names(
    nodes: Sequence[ast.AST], program: ChainProgram, servers: Mapping[str, Sequence[str]]
) -> Iterator[ChainFault]:
    known = bound_names(nodes) | _KNOWN | {*program.inputs, *MODULES, *servers}
    told: set[str] = set()
    for node in read_names(nodes):
        if node.id not in known and node.id not in told and len(told) < _MOST:
            told.add(node.id)
            yield _fault(node, advised(f"NameError: name '{node.id}' is not defined", program))


def _imports(
    nodes: Sequence[ast.AST], program: ChainProgram, servers: Mapping[str, Sequence[str]]
) -> Iterator[ChainFault]:
    for node in nodes:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for name in names:
            first = name.partition(".")[0]
            if first not in {*MODULES, *servers, "uuid", "__future__"}:
                yield _fault(node, advised(f"ModuleNotFoundError: No module named '{first}'", program))
        if isinstance(node, ast.ImportFrom) and node.module and node.module in servers:
            for one in node.names:
                if one.name not in (*servers[node.module], "*"):
                    text = f"ImportError: cannot import name '{one.name}' from '{node.module}'"
                    yield _fault(node, advised(text, program))


def _members(
    nodes: Sequence[ast.AST], program: ChainProgram, servers: Mapping[str, Sequence[str]]
) -> Iterator[ChainFault]:
    """Functions that a server does not have; a server under another name is left to the run."""
    rebound = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    for node in nodes:
        module, dot, name = dotted(node).partition(".")
        if dot and module in servers and module not in rebound and name not in servers[module]:
            text = f"AttributeError: module '{module}' has no attribute '{name}'"
            yield _fault(node, advised(text, program))


def _envelopes(nodes: Sequence[ast.AST]) -> Iterator[ChainFault]:
    """What a result has on the wire, and not here."""
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
