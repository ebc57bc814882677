"""Rewrites usual Python that the engine lacks into what it has; lines keep their numbers.

Models write all of Python. The rewriting never changes the meaning. It covers `del`, semaphores (a
chain's calls in flight are bounded anyway), `gather(return_exceptions=True)`, tasks that are awaited
later, and `next` of a generator.
It also covers `asdict`, generator functions that end, `map` of calls, methods as values
(`key=str.lower`), and forgotten imports. It adds the parts of `standard_library`.
"""

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from maitred.chains.generators import listable, yields_of
from maitred.chains.hints import MODULES
from maitred.chains.standard_library import ADDED, INSTEAD, OWN, SUPPLIED, prelude

NO_TREE: Final = (SyntaxError, ValueError, RecursionError, MemoryError, SystemError)
"""What Python raises for a program that has no tree, or one that is too deep."""

_TASKS: Final = ("asyncio.create_task", "asyncio.ensure_future")
_BINDING: Final = (
    *(ast.Name, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)
_TYPES: Final = frozenset(("str", "bytes", "int", "float", "list", "tuple", "dict", "set", "frozenset"))
_OF_TYPES: Final = frozenset(("fromkeys", "maketrans", "fromhex", "from_bytes"))
"""Methods of types that are called without an object."""

_SORTING: Final = frozenset(("sorted", "min", "max", "groupby", "nlargest", "nsmallest"))
_PARTS: Final = frozenset(name for names in (*SUPPLIED.values(), *ADDED.values()) for name in names)
_MOST_PASSES: Final = 20
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SEMAPHORES: Final = ("asyncio.Semaphore", "asyncio.BoundedSemaphore")


@dataclass(frozen=True, kw_only=True)
class RewrittenProgram:
    """A program for the engine; `lines_before` is the number of lines that were put before its own."""

    code: str
    lines_before: int = 0


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def usual(code: str, modules: Sequence[str] = (), inputs: Iterable[str] = ()) -> RewrittenProgram:
    """Rewrite a program for the engine; one that does not parse stays as it is.

    `modules` are the servers that it may import. One that it uses without an import is imported, unless
    `inputs`, the names of its input values, has that name.
    """
    try:
        writer = _Writer(code.replace("\r\n", "\n").replace("\r", "\n"), modules, inputs)
        for _ in range(_MOST_PASSES):
            if not writer.write():
                return writer.written()
    except NO_TREE:
        pass
    return RewrittenProgram(code=code)


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """All names that a program binds, anywhere."""
    return {name for node in nodes if isinstance(node, _BINDING) for name in _bound(node)}


def read_names(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """Where a program reads a name."""
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node


def dotted_name(node: ast.AST) -> str:
    """The text of such an expression as `asyncio.gather`; empty for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((one.asname or one.name).partition(".")[0] for one in names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            return


class _Writer:
    """Collects the edits of one program."""

    def __init__(self, code: str, modules: Sequence[str], inputs: Iterable[str]) -> None:
        self._code = code
        self._nodes = list(ast.walk(ast.parse(code)))
        self._edits: list[_Edit] = []
        self._helpers: set[str] = set()
        self._semaphores = self._bounds()
        self._fields = self._dataclasses()
        self._generators = listable(self._nodes)
        self._servers = {*modules, *_imported(self._nodes, modules)}
        bound = bound_names(self._nodes) | {*inputs}
        self._own_names = {*bound_names(_but_imports(self._nodes)), *inputs}
        self._functions = {one.name for one in self._nodes if isinstance(one, _FUNCTIONS)}
        self._called = _called_by_one_name(self._nodes)
        self._aliases = dict(_aliases(self._nodes))
        self._modules = {*MODULES, *modules} - self._own_names - bound_names(_parts_imported(self._nodes))
        self._modules |= self._aliases.keys()
        self._aliases |= {
            one.asname: f"{node.module}.{one.name}"
            for node in _parts_imported(self._nodes)
            for one in node.names
            if one.asname
        }
        forgotten = {node.id for node in read_names(self._nodes)} - bound
        self._helpers |= forgotten & {*MODULES, *modules}

    def write(self) -> bool:
        """Apply one round of edits, the innermost first; false if there was nothing left."""
        self._edits = []
        self._lines = _lines_of(self._code)
        self._inside = set(_inside_functions(self._nodes))
        for node in self._nodes:
            if write := self._ways.get(type(node)):
                write(node)
        end = len(self._code) + 1
        for edit in sorted(self._edits, key=lambda one: (one.start, one.end), reverse=True):
            if edit.end <= end:
                self._take(edit)
                end = edit.start
        if self._edits:
            self._nodes = list(ast.walk(ast.parse(self._code)))
        return bool(self._edits)

    def written(self) -> RewrittenProgram:
        header = prelude(self._helpers - {f"{OWN}asdict"})
        header += self._asdict() if f"{OWN}asdict" in self._helpers else ()
        return RewrittenProgram(code="\n".join([*header, self._code]), lines_before=len(header))

    def _take(self, edit: _Edit) -> None:
        lines = self._code.count("\n", edit.start, edit.end) - edit.text.count("\n")
        text, breaks = edit.text, "\n" * max(lines, 0)
        closing = text[-1:] if text.endswith((")", "]")) else ""  # within it, a line break ends no statement
        text = text.removesuffix(closing) + breaks + closing
        self._code = self._code[: edit.start] + text + self._code[edit.end :]

    @cached_property
    def _ways(self) -> Mapping[type[ast.AST], Callable[..., None]]:
        return {
            ast.Delete: self._delete,
            ast.AsyncWith: self._async_with,
            ast.Call: self._call,
            ast.ImportFrom: self._import_from,
            ast.Import: self._import,
            ast.Attribute: self._attribute,
            ast.Assign: self._assign,
            ast.FunctionDef: self._function,
        }

    def _bounds(self) -> set[str]:
        """The names of semaphores; one that admits a single call is a lock, and stays."""
        found = set()
        for node in self._nodes:
            if isinstance(node, ast.Assign) and self._is_semaphore(node.value):
                found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        return found

    def _dataclasses(self) -> Mapping[str, Sequence[str]]:
        """The fields of each dataclass of the program."""
        found = {}
        for node in self._nodes:
            if isinstance(node, ast.ClassDef) and any(
                "dataclass" in ast.unparse(d) for d in node.decorator_list
            ):
                own = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
                found[node.name] = [one.id for one in own if isinstance(one, ast.Name)]
        return found

    def _is_semaphore(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or dotted_name(node.func) not in _SEMAPHORES or len(node.args) != 1:
            return False
        return not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 1)

    def _delete(self, node: ast.Delete) -> None:
        parts = []
        for target in node.targets:
            if isinstance(target, ast.Name):
                parts.append(f"{target.id} = None")
            elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
                parts.append(f"{self._text(target)} = []")
            elif isinstance(target, ast.Subscript):
                key = self._text(target.slice)
                key = f"({key})" if isinstance(target.slice, ast.Tuple) else key
                parts.append(f"{self._text(target.value)}.pop({key})")
            else:
                return
        self._replace(node, "; ".join(parts))

    def _async_with(self, node: ast.AsyncWith) -> None:
        contexts = [one.context_expr for one in node.items]
        names = self._semaphores
        own = [(isinstance(one, ast.Name) and one.id in names) or self._is_semaphore(one) for one in contexts]
        if not all(own) and not (names and all(isinstance(one, ast.Name) for one in contexts)):
            return
        start, end = self._start(node), self._start(node.body[0])
        last = node.items[-1]
        colon = self._code.index(":", self._end(last.optional_vars or last.context_expr), end)
        self._edits.append(_Edit(start, colon, "if True" + "\\\n" * self._code.count("\n", start, colon)))

    def _call(self, node: ast.Call) -> None:
        name = dotted_name(node.func)
        if self._is_semaphore(node):
            self._replace(node, "None")
        elif name.startswith("asyncio.") or name == "gather":
            self._asyncio(node, name)
        elif name in self._generators:
            self._replace_call(node, "listed", name)
        elif self._is_pattern_sub(node, name):
            self._replace_call(node, "sub", name.removesuffix(".sub"))
        elif not {*name.split(".")} & self._own_names:
            self._builtin(node, name)
        if name.rpartition(".")[2] in _SORTING or _is_sort(node):
            for one in node.keywords:
                if one.arg == "key":
                    self._hand_on(one.value)

    def _is_pattern_sub(self, node: ast.Call, name: str) -> bool:
        """Whether it is `sub` of a pattern with a function; not if the program has its own `sub`."""
        of, _, last = name.rpartition(".")
        is_method = last == "sub" and of and of not in self._modules and "sub" not in self._functions
        return bool(is_method) and _is_function(node, 0, self._functions)

    def _builtin(self, node: ast.Call, name: str) -> None:
        """Rewrite a builtin function that the program does not redefine."""
        if name == "next" and node.args and isinstance(node.args[0], ast.GeneratorExp):
            inner = self._text(node.args[0])
            self._edits.append(_Edit(self._end(node.func), self._end(node.args[0]), f"(iter({inner})"))
            if len(node.args) == 1:
                self._edits.append(_Edit(self._end(node.args[0]), self._end(node), ")"))
        elif name in ("asdict", "dataclasses.asdict") and self._fields:
            self._replace(node.func, self._own("asdict"))
        elif name == "map" and len(node.args) == 2:  # noqa: PLR2004  # a function, and its arguments
            self._map(node, *node.args)
        elif name == "filter" and node.args:
            self._hand_on(node.args[0])
        elif own := self._instead(node):
            self._replace(node.func, self._own(own))
        elif self._full(node.func) in ("re.sub", "sub") and _is_function(node, 1, self._functions):
            self._replace_call(node, "sub")

    def _asyncio(self, node: ast.Call, name: str) -> None:
        if name in ("asyncio.gather", "gather"):
            self._gather(node)
        elif len(node.args) != 1:
            return
        elif name in _TASKS:
            self._replace(node, f"({self._text(node.args[0])})")
        elif name == "asyncio.as_completed" and not node.keywords:
            self._replace(node, f"(await {self._own('completed')}({self._text(node.args[0])}))")
        elif name == "asyncio.run" and node not in self._inside:
            self._replace(node, f"(await {self._text(node.args[0])})")

    def _gather(self, node: ast.Call) -> None:
        for one in node.keywords:
            if one.arg != "return_exceptions" or not isinstance(one.value, ast.Constant):
                return
            last = max(self._end(part) for part in (node.func, *node.args))
            comma = self._code.find(",", last, self._start(one))
            self._edits.append(_Edit(comma if comma >= 0 else self._start(one), self._end(one), ""))
            if one.value.value:
                self._replace(node.func, self._own("gather"))

    def _hand_on(self, node: ast.expr) -> None:
        """Wrap a method in a lambda: the engine can only call a method, not pass it as a value."""
        if not isinstance(node, ast.Attribute) or not (
            _is_dotted(node) or isinstance(node.value, ast.Constant)
        ):
            return
        of = dotted_name(node).partition(".")[0]
        if of in _TYPES - self._own_names and node.attr not in _OF_TYPES:
            self._replace(node, f"lambda {OWN}one: {OWN}one.{node.attr}()")
        elif of not in self._modules:
            self._replace(node, f"lambda {OWN}one: {self._text(node)}({OWN}one)")

    def _assign(self, node: ast.Assign) -> None:
        """Rewrite such as `add = found.append`, if `add` is called."""
        value, target = node.value, node.targets[0]
        if (
            not isinstance(value, ast.Attribute)
            or not _is_dotted(value)
            or dotted_name(target) not in self._called
        ):
            return
        of = dotted_name(value).partition(".")[0]
        if of in _TYPES - self._own_names:
            self._hand_on(value)
        elif of not in self._modules:
            every = f"*{OWN}all, **{OWN}named"
            bound = f"lambda {every}: {OWN}of.{value.attr}({every})"  # whatever the name means later
            self._replace(value, f"(lambda {OWN}of: {bound})({self._text(value.value)})")

    def _replace_call(self, node: ast.Call, own: str, first: str = "") -> None:
        """Call a part of the library with the same arguments, after `first` if there is one."""
        comma = ", " if first and (node.args or node.keywords) else ""
        self._replace(node.func, self._own(own))
        opened = self._code.index("(", self._end(node.func)) + 1
        self._edits.append(_Edit(opened, opened, f"{first}{comma}"))

    def _map(self, node: ast.Call, function: ast.expr, data: ast.expr) -> None:
        """Rewrite `map` over a tool: the engine's `map` cannot call tools."""
        text = self._text(data)
        if self._is_tool(function):
            self._replace(node, f"[{self._text(function)}({OWN}one) for {OWN}one in {text}]")
        elif isinstance(function, ast.Lambda) and any(
            isinstance(one, ast.Call) and self._is_tool(one.func) for one in ast.walk(function.body)
        ):
            takes = function.args
            if len(takes.args) == 1 and not (
                takes.defaults or takes.vararg or takes.kwarg or takes.kwonlyargs
            ):
                self._replace(node, f"[{self._text(function.body)} for {takes.args[0].arg} in {text}]")
        else:
            self._hand_on(function)

    def _is_tool(self, node: ast.AST) -> bool:
        return dotted_name(node).partition(".")[0] in {"call_tool", *self._servers}

    def _function(self, node: ast.FunctionDef) -> None:
        """Make a generator function fill a list, which `listed` makes and returns."""
        if node.name not in self._generators:
            return
        for one in yields_of(node):
            match one.value:
                case ast.YieldFrom(value=value):
                    self._replace(one, f"{OWN}out.extend({self._text(value)})")
                case ast.Yield(value=value):
                    self._replace(one, f"{OWN}out.append(({self._text(value) if value else None}))")
                case _:
                    pass
        takes = node.args
        parts = [*takes.posonlyargs, *takes.args, *takes.kwonlyargs, *takes.defaults, *takes.kw_defaults]
        ends = [self._end(one) for one in (*parts, takes.vararg) if one is not None]
        if f"{OWN}out" not in [one.arg for one in (*takes.args, *takes.kwonlyargs)]:
            at = max(ends) if ends else self._code.index("(", self._start(node)) + 1
            self._edits.append(_Edit(at, at, f"{', ' if ends else ''}{OWN}out=None"))

    def _attribute(self, node: ast.Attribute) -> None:
        name = node.attr
        module = self._full(node.value) if name in _PARTS else ""
        if name in (*SUPPLIED.get(module, ()), *ADDED.get(module, ())):
            if dotted_name(node).partition(".")[0] in {*self._aliases} or not {module} & self._own_names:
                self._replace(node, self._own(name))
        elif dotted_name(node) == "asyncio.TimeoutError":
            self._replace(node, "TimeoutError")
        elif name == "__class__":
            self._edits.append(_Edit(self._start(node), self._start(node), "type("))
            self._edits.append(_Edit(self._dot(node), self._end(node), ")"))
        elif name == "hex" and _is_identifier(node.value):
            self._edits.append(_Edit(self._dot(node), self._end(node), ".replace('-', '')"))

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if module == "__future__":  # its features are the default here
            self._replace(node, "pass")
        supplied = {*SUPPLIED.get(module, ()), *ADDED.get(module, ())}
        gone = {"asdict"} if module == "dataclasses" and self._fields else supplied
        kept = [one for one in node.names if one.name not in gone or (one.asname and not supplied)]
        if len(kept) == len(node.names):
            return
        parts = [f"from {module} import {', '.join(map(ast.unparse, kept))}"] if kept else []
        if supplied:
            lost = [one for one in node.names if one.name in gone]
            parts += [f"{one.asname or one.name} = {self._own(one.name)}" for one in lost]
        self._replace(node, "; ".join(parts) or "pass")

    def _import(self, node: ast.Import) -> None:
        kept = [one for one in node.names if one.name not in SUPPLIED]
        if len(kept) < len(node.names):
            self._replace(node, f"import {', '.join(map(ast.unparse, kept))}" if kept else "pass")

    def _instead(self, node: ast.Call) -> str:
        """The library part for a call that the engine does differently or not at all; empty if none."""
        full = self._full(node.func)
        last = full.rpartition(".")[2]
        found = INSTEAD.get(last)
        return last if found is not None and full in found.names and found.wants(node) else ""

    def _full(self, node: ast.AST) -> str:
        """A dotted name, its first part resolved to the module's own name; empty for any other expression."""
        if not _is_dotted(node):
            return ""
        first, dot, rest = ast.unparse(node).partition(".")
        return f"{self._aliases.get(first, first)}{dot}{rest}"

    def _own(self, name: str) -> str:
        """The name of a library part, which is then put before the program."""
        self._helpers.add(f"{OWN}{name}")
        return f"{OWN}{name}"

    def _asdict(self) -> Iterator[str]:
        yield f"def {OWN}asdict(one):"
        for name, fields in self._fields.items():
            pairs = ", ".join(f"{field!r}: {OWN}asdict(one.{field})" for field in fields)
            yield f"    if isinstance(one, {name}): return {{{pairs}}}"
        yield f"    if isinstance(one, (list, tuple)): return [{OWN}asdict(part) for part in one]"
        yield f"    if isinstance(one, dict): return {{key: {OWN}asdict(part) for key, part in one.items()}}"
        yield "    return one"

    def _replace(self, node: ast.AST, text: str) -> None:
        self._edits.append(_Edit(self._start(node), self._end(node), text))

    def _text(self, node: ast.AST) -> str:
        return self._code[self._start(node) : self._end(node)]

    def _start(self, node: ast.AST) -> int:
        return self._place(node.lineno, node.col_offset)  # type: ignore[attr-defined]  # all here have it

    def _end(self, node: ast.AST) -> int:
        return self._place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]  # as above

    def _dot(self, node: ast.Attribute) -> int:
        """The position of the dot before the last name."""
        return self._code.rindex(".", self._start(node), self._end(node))

    def _place(self, line: int, column: int) -> int:
        before, text = self._lines[line - 1]
        return before + len(text.encode()[:column].decode())


def _is_dotted(node: ast.AST) -> bool:
    """Whether it is a name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_function(node: ast.Call, place: int, functions: Collection[str]) -> bool:
    """Whether the replacement, by position or by name, comes from a function of the program."""
    named = next((one.value for one in node.keywords if one.arg == "repl"), None)
    one = node.args[place] if len(node.args) > place else named
    return isinstance(one, ast.Lambda) or (isinstance(one, ast.Name) and one.id in functions)


def _is_identifier(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted_name(node.func) in ("uuid.uuid4", "uuid4", f"{OWN}uuid4")


def _is_sort(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "sort"


def _called_by_one_name(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that are called and that are bound once."""
    times = Counter(name for node in nodes if isinstance(node, _BINDING) for name in _bound(node))
    called = {dotted_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    return {name for name in called if times[name] == 1}


def _but_imports(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in nodes if not isinstance(node, ast.Import | ast.ImportFrom))


def _parts_imported(nodes: Iterable[ast.AST]) -> Iterator[ast.ImportFrom]:
    return (node for node in nodes if isinstance(node, ast.ImportFrom))


def _aliases(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names that a program gives to whole modules, with the modules' own names."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for one in node.names:
                yield (one.asname, one.name) if one.asname else (one.name.partition(".")[0],) * 2


def _inside_functions(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from ast.walk(node)


def _imported(nodes: Iterable[ast.AST], modules: Sequence[str]) -> Iterator[str]:
    """The names under which a program has functions of servers."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            yield from (one.asname or one.name for one in node.names)


def _lines_of(code: str) -> Sequence[tuple[int, str]]:
    """Each line with the offset of its beginning."""
    found, at = [], 0
    for text in code.split("\n"):
        found.append((at, text))
        at += len(text) + 1
    return found
