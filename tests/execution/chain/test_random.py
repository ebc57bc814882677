"""Random programs over tools that answer anything end in a value within limits or a fault."""

import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.server.lowlevel import Server
from tests.gateway.rig import settings_of
from tests.support.viewers import agent

from maitred.calls.outline import compact
from maitred.config.settings import Search
from maitred.disclosure.budget import estimate
from maitred.wiring import open_gateway

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("chain")]

ANY = {"type": "object"}
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
CALLS = st.one_of(
    NAMES.map(lambda n: f"await call_tool('notes__tool', {{'x': {n}}})"),
    NAMES.map(lambda n: f"await notes.search(**{{'query': {n}, 'per_page': 1}})"),
    NAMES.map(lambda n: f"await asyncio.gather(call_tool('notes__tool', {{'x': {n}}}), notes.search(q={n}))"),
)
EXPRESSIONS = st.one_of(
    CALLS,
    CALLS,
    st.integers(-3, 10**20).map(repr),
    st.text(alphabet="ab é\n", max_size=4).map(repr),
    NAMES,
    st.tuples(NAMES, st.sampled_from(["+", "*", "==", "in", "and"]), NAMES).map(" ".join),
    NAMES.map(lambda n: f"[{n}, {n}]"),
    NAMES.map(lambda n: f"{{'k': {n}}}"),
    NAMES.map(lambda n: f"{n}['k']"),
    st.just("call_tool('never')"),
)
SIMPLE = st.one_of(
    st.tuples(NAMES, EXPRESSIONS).map(" = ".join),
    EXPRESSIONS.map(lambda e: f"print({e})"),
    EXPRESSIONS.map(lambda e: f"return {e}"),
)
STATEMENTS = st.one_of(
    SIMPLE,
    SIMPLE.map(lambda s: f"for c in range(3):\n    {s}"),
    SIMPLE.map(lambda s: f"try:\n    {s}\nexcept Exception as e:\n    a = str(e)"),
    st.tuples(NAMES, SIMPLE).map(lambda p: f"if {p[0]}:\n    {p[1]}"),
)


PROGRAMS = st.tuples(CALLS, st.lists(STATEMENTS, min_size=2, max_size=8)).map(
    lambda parts: "\n".join(["import asyncio, notes", "a, b, c = 1, 'x', []", f"a = {parts[0]}", *parts[1]])
)


class Notes:
    """A server whose tools answer whatever is next, and their arguments when nothing is left."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def sdk(self) -> Server[Any]:
        async def list_tools(_: object, __: object) -> types.ListToolsResult:
            return types.ListToolsResult(
                tools=[types.Tool(name=n, input_schema=ANY) for n in ("search", "tool")]
            )

        async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
            value = self.answers.pop() if self.answers else params.arguments
            if isinstance(value, dict):
                return types.CallToolResult(content=[], structured_content=value)
            text = value if isinstance(value, str) else json.dumps(value)
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=value is None)

        return Server("notes", on_list_tools=list_tools, on_call_tool=call_tool)


async def test_random_programs_over_random_results_end_within_the_limit(tmp_path: Path) -> None:
    """In a value or a fault; and the gateway goes on."""
    seen: list[tuple[str, list[Any], int]] = []

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        CALLS, st.lists(STATEMENTS, min_size=2, max_size=8), st.lists(VALUES, max_size=4), st.integers(0, 400)
    )
    def gather(call: str, statements: list[str], answers: list[Any], size: int) -> None:
        seen.append(
            (
                "\n".join(["import asyncio, notes", "a, b, c = 1, 'x', []", f"a = {call}", *statements]),
                answers,
                size,
            )
        )

    gather()
    notes = Notes()
    configured = settings_of(tmp_path, "notes", search=Search(mode="lexical"))
    async with open_gateway(configured, in_process={"notes": notes.sdk()}) as gateway:
        assert await gateway.settled(120)
        for code, answers, size in seen:
            notes.answers = list(answers)
            answer = await gateway.run_chain(code, viewer=agent("ann"), max_output_size=size)
            told = answer.to_result()
            assert json.loads(json.dumps(told)) == told, code
            assert len(answer.details) <= size, code
            assert len(compact(answer.result)) <= max(size, len("false")), code
            assert estimate(answer.summary) <= 500, code
            assert answer.fault is None or (answer.fault.message and answer.fault.kind != "crashed"), code
