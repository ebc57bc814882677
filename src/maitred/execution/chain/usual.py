"""Usual Python that the engine lacks, written with what it has; the lines of a program stay where they are.

Models write all of Python. What can be said otherwise without changing what it means is: a `del`, a semaphore
(the calls of a chain in flight are bounded already), `gather(return_exceptions=True)`, a task that is awaited
later, the next of a generator, `asdict`, random identifiers, and imports that were forgotten.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from maitred.execution.chain.advice import MODULES

NO_TREE: Final = (SyntaxError, ValueError, RecursionError, MemoryError, SystemError)
"""What Python raises for a program that has no tree, or one that is too deep."""

_OWN: Final = "maitred_"
_SETTLED: Final = (
    f"async def {_OWN}settled(one):",
    "    try:",
    "        return await one",
    "    except Exception as error:",
    "        return error",
    f"async def {_OWN}gather(*all):",
    f"    return await asyncio.gather(*[{_OWN}settled(one) for one in all])",
)
_UUID: Final = (
    f"def {_OWN}uuid4():",
    "    word = ''.join(random.choice('0123456789abcdef') for _ in range(32))",
    "    word = word[:12] + '4' + word[13:16] + random.choice('89ab') + word[17:]",
    "    return '-'.join([word[:8], word[8:12], word[12:16], word[16:20], word[20:]])",
)
_TASKS: Final = ("asyncio.create_task", "asyncio.ensure_future")
_BINDING: Final = (
    *(ast.Name, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)
_MOST_PASSES: Final = 20
_SEMAPHORES: Final = ("asyncio.Semaphore", "asyncio.BoundedSemaphore")


@dataclass(frozen=True, kw_only=True)
class Usual:
    """A program as the engine takes it; `before` are the lines that stand before its own."""

    code: str
    before: int = 0


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def usual(code: str, modules: Sequence[str] = ()) -> Usual:
    """Write a program with what the engine has; one that does not parse stays as it is.

    `modules` are the servers that it may import; one that it uses and does not import is imported.
    """
    try:
        writer = _Writer(code.replace("\r\n", "\n").replace("\r", "\n"), modules)
        for _ in range(_MOST_PASSES):
            if not writer.write():
                return writer.written()
    except NO_TREE:
        pass
    return Usual(code=code)


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """All names that a program gives a meaning to, wherever it does."""
    return {name for node in nodes if isinstance(node, _BINDING) for name in _bound(node)}


def read_names(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """Where a program asks for the meaning of a name."""
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node


def dotted(node: ast.AST) -> str:
    """`asyncio.gather` of such an expression; empty for any other."""
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
    """Collects what is to be written otherwise in one program."""

    def __init__(self, code: str, modules: Sequence[str]) -> None:
        self._code = code
        self._nodes = list(ast.walk(ast.parse(code)))
        self._edits: list[_Edit] = []
        self._wanted: set[str] = set()
        self._semaphores = self._bounds()
        self._fields = self._dataclasses()
        forgotten = {node.id for node in read_names(self._nodes)} - bound_names(self._nodes)
        self._wanted |= forgotten & {*MODULES, *modules}

    def write(self) -> bool:
        """Write otherwise what can be, the innermost first; false if there was nothing left."""
        self._edits = []
        self._lines = _lines_of(self._code)
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

    def written(self) -> Usual:
        header = [f"import {name}" for name in sorted(self._wanted) if not name.startswith(_OWN)]
        header += _SETTLED if f"{_OWN}gather" in self._wanted else ()
        header += _UUID if f"{_OWN}uuid4" in self._wanted else ()
        header += self._asdict() if f"{_OWN}asdict" in self._wanted else ()
        return Usual(code="\n".join([*header, self._code]), before=len(header))

    def _take(self, edit: _Edit) -> None:
        lines = self._code.count("\n", edit.start, edit.end) - edit.text.count("\n")
        text = edit.text + "\n" * max(lines, 0)
        self._code = self._code[: edit.start] + text + self._code[edit.end :]

    @cached_property
    def _ways(self) -> Mapping[type[ast.AST], Callable[..., None]]:
        return {
            ast.Delete: self._delete,
            ast.AsyncWith: self._async_with,
            ast.Call: self._call,
            ast.ImportFrom: self._import_from,
            ast.Import: self._import,
        }

    def _bounds(self) -> set[str]:
        """The names of what bounds calls in flight; one that lets a single call pass is a lock, and stays."""
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
        if not isinstance(node, ast.Call) or dotted(node.func) not in _SEMAPHORES or len(node.args) != 1:
            return False
        return not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 1)

    # --- what is written otherwise ------------------------------------------------------------------------

    def _delete(self, node: ast.Delete) -> None:
        parts = []
        for target in node.targets:
            if isinstance(target, ast.Name):
                parts.append(f"{target.id} = None")
            elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
                parts.append(f"{self._text(target)} = []")
            elif isinstance(target, ast.Subscript):
                parts.append(f"{self._text(target.value)}.pop({self._text(target.slice)})")
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
        colon = self._code.rindex(":", start, end)
        self._edits.append(_Edit(start, colon, "if True" + "\\\n" * self._code.count("\n", start, colon)))

    def _call(self, node: ast.Call) -> None:
        name = dotted(node.func)
        if name in _TASKS and len(node.args) == 1:
            self._replace(node, f"({self._text(node.args[0])})")
        elif name == "asyncio.run" and len(node.args) == 1 and node not in _inside_functions(self._nodes):
            self._replace(node, f"(await {self._text(node.args[0])})")
        elif self._is_semaphore(node):
            self._replace(node, "None")
        elif name in ("asyncio.gather", "gather"):
            self._gather(node)
        elif name == "next" and node.args and isinstance(node.args[0], ast.GeneratorExp):
            inner = self._text(node.args[0])
            self._edits.append(_Edit(self._end(node.func), self._end(node.args[0]), f"(iter({inner})"))
            if len(node.args) == 1:
                self._edits.append(_Edit(self._end(node.args[0]), self._end(node), ")"))
        elif name in ("asdict", "dataclasses.asdict") and self._fields:
            self._replace(node.func, f"{_OWN}asdict")
            self._wanted.add(f"{_OWN}asdict")
        elif name in ("uuid.uuid4", "uuid4"):
            self._replace(node.func, f"{_OWN}uuid4")
            self._wanted |= {f"{_OWN}uuid4", "random"}

    def _gather(self, node: ast.Call) -> None:
        for one in node.keywords:
            if one.arg != "return_exceptions" or not isinstance(one.value, ast.Constant):
                return
            before = max(self._end(part) for part in (node.func, *node.args))
            comma = self._code.find(",", before, self._start(one))
            self._edits.append(_Edit(comma if comma >= 0 else self._start(one), self._end(one), ""))
            if one.value.value:
                self._replace(node.func, f"{_OWN}gather")
                self._wanted |= {f"{_OWN}gather", "asyncio"}

    def _import_from(self, node: ast.ImportFrom) -> None:
        gone = {"dataclasses": {"asdict"}, "uuid": {"uuid4"}}.get(node.module or "", set())
        kept = [one for one in node.names if one.name not in gone or one.asname]
        if len(kept) == len(node.names) or (node.module == "dataclasses" and not self._fields):
            return
        text = f"from {node.module} import {', '.join(map(ast.unparse, kept))}" if kept else "pass"
        self._replace(node, text)

    def _import(self, node: ast.Import) -> None:
        kept = [one for one in node.names if one.name != "uuid" or one.asname]
        if len(kept) < len(node.names):
            self._replace(node, f"import {', '.join(map(ast.unparse, kept))}" if kept else "pass")

    # --- text ---------------------------------------------------------------------------------------------

    def _asdict(self) -> Iterator[str]:
        yield f"def {_OWN}asdict(one):"
        for name, fields in self._fields.items():
            pairs = ", ".join(f"{field!r}: {_OWN}asdict(one.{field})" for field in fields)
            yield f"    if isinstance(one, {name}): return {{{pairs}}}"
        yield f"    if isinstance(one, (list, tuple)): return [{_OWN}asdict(part) for part in one]"
        yield f"    if isinstance(one, dict): return {{key: {_OWN}asdict(part) for key, part in one.items()}}"
        yield "    return one"

    def _replace(self, node: ast.AST, text: str) -> None:
        self._edits.append(_Edit(self._start(node), self._end(node), text))

    def _text(self, node: ast.AST) -> str:
        return self._code[self._start(node) : self._end(node)]

    def _start(self, node: ast.AST) -> int:
        return self._place(node.lineno, node.col_offset)  # type: ignore[attr-defined]  # all that come here have

    def _end(self, node: ast.AST) -> int:
        return self._place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]  # as above

    def _place(self, line: int, column: int) -> int:
        before, text = self._lines[line - 1]
        return before + len(text.encode()[:column].decode())


def _inside_functions(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from ast.walk(node)


def _lines_of(code: str) -> Sequence[tuple[int, str]]:
    """Each line with where it begins."""
    found, at = [], 0
    for text in code.split("\n"):
        found.append((at, text))
        at += len(text) + 1
    return found
