"""Random programs over tools that answer anything end in a value within limits or a fault."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maitred.execution.chain.base import ChainFunction, ChainLimits, ChainModule, ChainProgram
from maitred.execution.chain.bounds import bounded
from maitred.execution.chain.monty import MontySandbox

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("chain")]

LIMITS = ChainLimits(cpu_s=2.0, wall_s=5.0)
SEARCH = ChainFunction(
    name="search", tool="search", parameters=[("query", "query"), ("per_page", "per-page")]
)
NOTES = ChainModule(name="notes", server="notes", functions=[SEARCH])
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
EXPRESSIONS = st.one_of(
    st.integers(-3, 10**20).map(repr),
    st.text(alphabet="ab é\n", max_size=4).map(repr),
    NAMES,
    st.tuples(NAMES, st.sampled_from(["+", "*", "==", "in", "and"]), NAMES).map(" ".join),
    NAMES.map(lambda n: f"[{n}, {n}]"),
    NAMES.map(lambda n: f"{{'k': {n}}}"),
    NAMES.map(lambda n: f"await call_tool('tool', {{'x': {n}}})"),
    NAMES.map(lambda n: f"await notes.search({n}, per_page={n})"),
    NAMES.map(lambda n: f"await asyncio.gather(call_tool('t', {{'x': {n}}}), notes.search({n}))"),
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


async def test_random_programs_over_random_results_end_with_a_value_or_a_fault() -> None:
    seen: list[tuple[str, list[Any]]] = []

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(STATEMENTS, max_size=8), st.lists(VALUES, max_size=4))
    def gather(statements: list[str], answers: list[Any]) -> None:
        seen.append(("\n".join(["import asyncio, notes", "a, b, c = 1, 'x', []", *statements]), answers))

    gather()
    async with MontySandbox() as sandbox:
        for code, answers in seen:
            left = list(answers)

            async def call(_tool: str, arguments: Mapping[str, Any], left: list[Any] = left) -> Any:
                return left.pop() if left else arguments

            outcome = await sandbox.run(ChainProgram(code=code, modules=[NOTES]), call, LIMITS)
            assert outcome.fault is None or outcome.fault.kind != "crashed", code
            assert outcome.fault is None or outcome.fault.message
            assert bounded(outcome.value, LIMITS) == outcome.value
