"""Tools as Python modules: a module for each server, a typed function for each of its tools.

Pure: names and schemas go in, names and the text of stub files come out. Nothing is imported or run, and no
text of a server but names and values of enumerations gets into a stub. The names depend on all tools of the
snapshot and not on who sees which, so a program that ran once runs again.
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
from maitred.chains.signatures import BUILTINS, NO_FUNCTION, TYPING, TypedFunction, distinct, typed, untyped
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
    """The modules of one snapshot for somebody who sees these tools; builds what is asked for, and keeps it.

    A module has the name of its server, a function the published name of its tool without the server; what
    cannot stand in a Python name becomes `_`, and none begins with `_`: engines hide such names. A name that
    the program needs for something else (a keyword, a builtin, a module of the sandbox) gets a `_` behind
    it: the server `time` is the module `time_`. Of those that come to the same name, the one that had it
    before keeps it, and the others get a hash behind it.
    """

    def __init__(self, snapshot: Snapshot, tools: Iterable[Tool]) -> None:
        self._snapshot = snapshot
        self._tools = tools
        self._named: dict[str, Mapping[str, str]] = {}
        self._built: dict[str, TypedFunction] = {}

    @cached_property
    def servers(self) -> Mapping[str, str]:
        """Module name -> server, by module name; only of servers with a tool that is seen."""
        return {name: server for name, server in sorted(self._modules.items()) if server in self._seen}

    def module(self, name: str) -> ChainModule:
        """A whole module.

        Raises:
            KeyError: No server that is seen has a module of this name.
        """
        return self._assembled(name, self._functions(self.servers[name]), types=True)

    def tool(self, module: str, function: str) -> Tool | None:
        """The tool behind a function of a module, if there is one."""
        return self._functions(self.servers[module]).get(function) if module in self.servers else None

    def used(self, code: str, *, types: bool = True) -> list[ChainModule]:
        """Those modules that a program names, with the functions that it names and the types they need.

        Without `types`, which only a check needs, it takes a tenth of the time.

        A scan of words and not a parse, so that it works on a program with faults: it may give too much, and
        gives too little only where a program hides a name from its reader. Nothing else is built.
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
        """Module name -> the names of its functions, which are looked up when they are asked for."""
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
        """Published name -> function name, of all tools of a server, seen or not."""
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
            plain = [untyped(self._snapshot, tool, function) for function, tool in sorted(functions.items())]
            return ChainModule(name=name, server=server, functions=plain)
        shadows = BUILTINS.intersection(self._names(server).values())
        built = []
        for function, tool in sorted(functions.items()):
            if tool.name not in self._built:
                self._built[tool.name] = typed(self._snapshot, tool, function, shadows)
            built.append(self._built[tool.name])
        return ChainModule(
            name=name,
            server=server,
            functions=[one.function for one in built],
            stub="\n\n".join(block for one in built for block in one.types),
        )


class _FunctionNames(Mapping[str, Sequence[str]]):
    """The names of functions by module; `of` gives those of a server."""

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
    """What a program names, read off its words."""

    def __init__(self, code: str) -> None:
        code = code if code.isascii() else unicodedata.normalize("NFKC", code)
        self.words = frozenset(_WORD.findall(code))
        self._all = bool(self.words & _EVASIVE or _ALL.search(code))

    def of(self, functions: Iterable[str]) -> list[str]:
        """Those functions of a module that are named; all, where a name could be made up on the way."""
        return [name for name in functions if self._all or name in self.words]
