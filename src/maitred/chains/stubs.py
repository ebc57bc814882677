"""Tools as Python modules: a module for each server, a typed function for each of its tools.

Pure: names and schemas go in, names and the text of stub files come out. Nothing is imported or run. Of a
server's texts, only names and enumeration values get into a stub.
The names depend on all tools of the snapshot and not on the viewer, so a program that ran once runs again.
"""

import builtins
import keyword
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from maitred.catalog.names import prefix
from maitred.catalog.snapshot import Snapshot
from maitred.chains.base import ChainModule
from maitred.chains.signatures import (
    BUILTINS,
    NO_FUNCTION,
    TYPING,
    TypedFunction,
    distinct,
    plain_function,
    typed_function,
)
from maitred.model.tools import Tool

_SANDBOX_MODULES = frozenset((
    "asyncio", "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal", "enum",
    "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "os", "pathlib", "random", "re",
    "statistics", "string", "sys", "time", "tomllib", "typing", "urllib",
))  # fmt: skip
_NO_MODULE = _SANDBOX_MODULES | frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"call_tool"}
_WORD = re.compile(r"\w+", re.ASCII)
_EVASIVE = frozenset(("getattr", "vars", "dir", "eval", "exec", "__dict__", "__getattribute__", "attrgetter"))
_ALL = re.compile(r"\bimport\s*\(?\s*\*")


def stub_text(module: ChainModule) -> str:
    """The text of a whole stub file (`.pyi`), which always parses."""
    body = "\n\n".join(part for part in (module.stub, "\n".join(f.stub for f in module.functions)) if part)
    words = set(_WORD.findall(body))
    lines = ["import builtins"] if "builtins" in words else []
    if imported := [name for name in TYPING if name in words]:
        lines.append(f"from typing import {', '.join(imported)}")
    return "\n\n".join(part for part in ("\n".join(lines), body) if part) + "\n"


class ModuleIndex:
    """The modules of one snapshot for a viewer who sees these tools, built on demand.

    A module has the name of its server. A function has the published name of its tool without the server.
    Characters that no Python name may have become `_`. No name begins with `_`, since engines hide such
    names.
    A name that the program needs otherwise (a keyword, a builtin, a module of the sandbox) gets a `_` at
    its end: the server `time` is the module `time_`. If several names would become the same, the one that
    needed no change keeps it, and the others get a hash at their end.
    """

    def __init__(self, snapshot: Snapshot, tools: Iterable[Tool]) -> None:
        self._snapshot = snapshot
        self._tools = tools
        self._named: dict[str, Mapping[str, str]] = {}
        self._built: dict[str, TypedFunction] = {}

    @cached_property
    def servers(self) -> Mapping[str, str]:
        """Module name -> server, by module name; only of servers with a visible tool."""
        return {name: server for name, server in sorted(self._modules.items()) if server in self._seen}

    def module(self, name: str) -> ChainModule:
        """A whole module.

        Raises:
            KeyError: No visible server has a module of this name.
        """
        return self._assembled(name, self._functions(self.servers[name]), types=True)

    def tool(self, module: str, function: str) -> Tool | None:
        """The tool behind a function of a module, if there is one."""
        return self._functions(self.servers[module]).get(function) if module in self.servers else None

    def used(self, code: str, *, types: bool = True) -> list[ChainModule]:
        """The modules that a program names, with the functions that it names and the types they need.

        Without `types`, which only a check needs, it takes a tenth of the time.

        It scans words and does not parse, so that it works on a program with faults. It may return too
        much. It returns too little only if a program hides a name from its reader. Nothing else is built.
        """
        names = _Named(code)
        found = []
        for name in sorted(names.words & self.servers.keys()):
            functions = self._functions(self.servers[name])
            chosen = {one: functions[one] for one in names.of(functions)}
            found.append(self._assembled(name, chosen, types=types))
        return found

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        """Module name -> the names of its functions, which are looked up on demand."""
        return _FunctionNames(self.servers, lambda server: sorted(self._functions(server)))

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        return {name: server for server, name in self._module_of.items()}

    @cached_property
    def _module_of(self) -> Mapping[str, str]:
        return distinct({server: server for server in self._snapshot.by_server}, _NO_MODULE, "server")

    @cached_property
    def _seen(self) -> Mapping[str, Sequence[Tool]]:
        groups: dict[str, list[Tool]] = defaultdict(list)
        for tool in self._tools:
            groups[tool.server].append(tool)
        return groups

    def _names(self, server: str) -> Mapping[str, str]:
        """Published name -> function name, of all tools of a server, visible or not."""
        if server not in self._named:
            start = prefix(server)
            plain = {tool.name: tool.name.removeprefix(start) for tool in self._snapshot.by_server[server]}
            self._named[server] = distinct(plain, NO_FUNCTION, "tool")
        return self._named[server]

    def _functions(self, server: str) -> Mapping[str, Tool]:
        names = self._names(server)
        return {names[tool.name]: tool for tool in self._seen[server]}

    def _assembled(self, name: str, functions: Mapping[str, Tool], *, types: bool) -> ChainModule:
        server = self.servers[name]
        if not types:
            plain = [
                plain_function(self._snapshot, tool, function) for function, tool in sorted(functions.items())
            ]
            return ChainModule(name=name, server=server, functions=plain)
        shadows = BUILTINS.intersection(self._names(server).values())
        built = []
        for function, tool in sorted(functions.items()):
            if tool.name not in self._built:
                self._built[tool.name] = typed_function(self._snapshot, tool, function, shadows)
            built.append(self._built[tool.name])
        return ChainModule(
            name=name,
            server=server,
            functions=[one.function for one in built],
            stub="\n\n".join(block for one in built for block in one.types),
        )


class _FunctionNames(Mapping[str, Sequence[str]]):
    """The names of functions by module; `of` returns those of a server."""

    def __init__(self, servers: Mapping[str, str], of: Callable[[str], Sequence[str]]) -> None:
        self._servers = servers
        self._of = of

    def __getitem__(self, module: str) -> Sequence[str]:
        return self._of(self._servers[module])

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)


class _Named:
    """The names in a program, read from its words."""

    def __init__(self, code: str) -> None:
        code = code if code.isascii() else unicodedata.normalize("NFKC", code)
        self.words = frozenset(_WORD.findall(code))
        self._all = bool(self.words & _EVASIVE or _ALL.search(code))

    def of(self, functions: Iterable[str]) -> list[str]:
        """The functions of a module that are named; all of them if a name could be computed at run time."""
        return [name for name in functions if self._all or name in self.words]
