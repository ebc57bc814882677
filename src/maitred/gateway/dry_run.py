"""Finds faults of a chain by the catalog, without a call: names of tools, and arguments.

The engine checks a program against the types of the modules that it imports. This module checks the calls of
the short forms, and `call_tool("name", {...})` in a program.
"""

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread

from maitred.chains.base import ChainFault, ChainLimits, ChainProgram, FaultKind
from maitred.chains.forms import DirectCalls
from maitred.chains.plain import reason
from maitred.chains.saved_backend import read_saved
from maitred.chains.values import TooBigError, crossing
from maitred.errors import ArgumentsError, MaitredError
from maitred.gateway.held_calls import HeldCallService
from maitred.gateway.lookup import ToolLookup
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer

_MOST_FAULTS = 10
_NAME_CHARS = 200
_CALL_TOOL = "call_tool"


@dataclass(frozen=True, kw_only=True)
class _Written:
    """A call in a text. If the program computes `arguments`, at most their `keys` are known."""

    tool: str
    arguments: Mapping[str, Any] | None
    keys: frozenset[Any] | None = None
    which: str = ""
    line: int = 0
    column: int = 0


class DryRun:
    """Checks chains. `named` returns the published name of a tool from its form in a chain."""

    def __init__(
        self,
        context: GatewayState,
        lookup: ToolLookup,
        holder: HeldCallService,
        *,
        named: Callable[[str, Viewer], str],
        limits: Callable[[], ChainLimits],
    ) -> None:
        self._limits = limits
        self._context = context
        self._lookup = lookup
        self._named = named
        self._holder = holder

    async def of_calls(self, form: DirectCalls, viewer: Viewer) -> Sequence[ChainFault]:
        """The first faults of a list of calls, for the viewer who will make them."""
        count, most_calls = len(form.calls), self._limits().calls
        if count > most_calls:
            message = f"A chain may make {most_calls:,} calls; here are {count:,}."
            return [ChainFault(kind="calls", message=message)]
        numbered = enumerate(form.calls, 1)
        written = (
            _Written(
                tool=call.tool,
                arguments=call.arguments,
                which=f"Call {place} of {count}: " if form.many else "",
            )
            for place, call in numbered
        )
        return await self._faults(written, viewer)

    async def held_lines(self, written: DirectCalls | ChainProgram, viewer: Viewer) -> Sequence[str]:
        """The calls of a chain without faults that would wait for a person, as lines for the caller.

        Only those are judged whose arguments are known before the chain runs.
        """
        if not self._holder.has_rules:
            return ()
        if isinstance(written, DirectCalls):
            calls = [_Written(tool=call.tool, arguments=call.arguments) for call in written.calls]
        else:
            calls = await to_thread.run_sync(lambda: list(_written(written.code)))
        lines = []
        for call in calls:
            tool = await self._lookup.callable_tool(self._named(call.tool, viewer), viewer)
            if call.arguments is not None and (why := self._holder.would_hold(tool, call.arguments, viewer)):
                where = f"line {call.line}: " if call.line else ""
                lines.append(f"{where}{tool.name} would wait for a person, by the rule {why}")
        return lines[:_MOST_FAULTS]

    async def of_program(
        self, program: ChainProgram, found: Sequence[ChainFault], viewer: Viewer
    ) -> Sequence[ChainFault]:
        """The faults that the engine found, and those of calls by name, by line.

        The program is read only if the engine could read it.
        """
        if any(fault.kind != "type" for fault in found):
            return found
        more = await self._faults(await to_thread.run_sync(lambda: list(_written(program.code))), viewer)
        return sorted([*found, *more], key=lambda fault: (fault.line, fault.column))

    async def _faults(self, calls: Iterable[_Written], viewer: Viewer) -> Sequence[ChainFault]:
        faults: list[ChainFault] = []
        for call in calls:
            await anyio.lowlevel.checkpoint()
            try:
                await self._look_at(call, viewer)
            except (MaitredError, TooBigError) as error:
                kind, message = _told(error, call)
                faults.append(ChainFault(kind=kind, message=message, line=call.line, column=call.column))
            if len(faults) == _MOST_FAULTS:
                break
        return faults

    async def _look_at(self, call: _Written, viewer: Viewer) -> None:
        tool = await self._lookup.callable_tool(self._named(call.tool, viewer), viewer)
        if self._context.is_composed(tool.server):  # as `Chains.run_saved` does, also in what it raises
            spec = self._context.spec(tool.server)
            await to_thread.run_sync(read_saved, spec, tool.key.name)
        if call.arguments is not None:
            arguments, _ = await crossing(dict(call.arguments), self._limits())
            self._lookup.check(tool, arguments)
        elif call.keys is not None:
            schema = self._context.snapshot.schema(tool.input_hash)
            needed = schema.get("required") if isinstance(schema, dict) else None
            names = [key for key in needed if isinstance(key, str)] if isinstance(needed, list) else []
            missing = [key for key in names if key not in call.keys]
            if missing:
                faults = [f"{key!r} is a required property" for key in missing]
                raise ArgumentsError(tool.name, faults, schema=self._lookup.parameters(tool))


def _told(error: MaitredError | TooBigError, call: _Written) -> tuple[FaultKind, str]:
    """The kind of a fault and its text, in the words of a real run."""
    if isinstance(error, TooBigError):
        return "type", f"{call.which}The arguments of {call.tool[:_NAME_CHARS]} cannot be sent: {error}."
    kind: FaultKind = "type" if isinstance(error, ArgumentsError) else "runtime"
    return kind, f"{call.which}{reason(error, call.tool[:_NAME_CHARS])}"


def _written(code: str) -> Iterator[_Written]:
    """The calls of `call_tool` with a literal name; none if the program gives `call_tool` another meaning."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return
    if any(_gives_meaning(node) for node in nodes):
        return
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _CALL_TOOL:
            given = dict(zip(("name", "arguments"), node.args, strict=False))
            given |= {one.arg: one.value for one in node.keywords if one.arg}
            name = given.get("name")
            spread = any(one.arg is None for one in node.keywords) or any(
                isinstance(one, ast.Starred) for one in node.args
            )
            if spread:  # its arguments are known only when it runs
                continue
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                arguments, keys = _arguments(given.get("arguments"))
                yield _Written(
                    tool=name.value,
                    arguments=arguments,
                    keys=keys,
                    line=node.lineno,
                    column=node.col_offset + 1,
                )


def _gives_meaning(node: ast.AST) -> bool:
    """Whether the name `call_tool` is set here."""
    if isinstance(node, ast.Name):
        return node.id == _CALL_TOOL and isinstance(node.ctx, ast.Store)
    named = getattr(node, "asname", None) or getattr(node, "name", None) or getattr(node, "arg", None)
    return named == _CALL_TOOL and not isinstance(node, ast.keyword)


def _arguments(node: ast.expr | None) -> tuple[Mapping[str, Any] | None, frozenset[Any] | None]:
    """The arguments if they are literals, else their names if those are."""
    if node is None:
        return {}, None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = None
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value, None
    if isinstance(node, ast.Dict):
        keys = [
            key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
        return None, frozenset(keys) if len(keys) == len(node.keys) else None
    return None, None
