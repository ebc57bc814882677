"""What crosses the border of a chain is plain JSON, small enough, and a copy; the rest is refused clearly."""

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cpu import cpu_within

from maitred.chains.base import ChainLimits
from maitred.chains.values import NotPlainError, TooBigError, bounded_copy, crossing

LIMITS = ChainLimits()
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.floats(allow_nan=False)
)
ANYTHING = st.recursive(
    SCALARS | st.floats() | st.binary() | st.integers() | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers() | st.text(), max_size=3)
        | st.dictionaries(st.text() | st.integers() | st.none(), inner, max_size=4)
    ),
    max_leaves=12,
)


def doubled(times: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(times):
        value = [value, value]
    return value


def test_plain_json_crosses_as_it_is_and_shares_nothing() -> None:
    value = {"a": [1, 2.5, "é", True, None, {"b": []}]}
    copy = bounded_copy(value, LIMITS)
    assert copy == value
    assert copy is not value
    assert copy["a"] is not value["a"]


def test_tuples_and_sets_become_lists_and_whole_numbers_keys_of_text() -> None:
    assert bounded_copy({1: (1, 2), "s": {3}, "f": frozenset({4})}, LIMITS) == {
        "1": [1, 2],
        "s": [3],
        "f": [4],
    }


def test_surrogates_without_their_other_half_become_a_replacement() -> None:
    assert bounded_copy(["a\ud800b", {"\udfff": 1}], LIMITS) == ["a\ufffdb", {"\ufffd": 1}]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "infinity"),
        (b"abc", "base64"),
        (2**64, "64 bits"),
        ({(1, 2): 3}, "keys must be text"),
        ({True: 3}, "keys must be text"),
        ({1: 1, "1": 2}, "the same text"),
        (1j, "complex"),
        (object(), "type object"),
    ],
)
def test_what_json_has_no_form_for_is_refused_with_what_to_do(value: Any, told: str) -> None:
    with pytest.raises(NotPlainError, match=told):
        bounded_copy([value], LIMITS)


@pytest.mark.alone
@pytest.mark.parametrize(
    "value",
    [doubled(60), {"x": doubled(60)}, [["a" * 1000] * 1000] * 1000],
    ids=["shared lists", "in a dict", "shared texts"],
)
def test_a_part_that_is_reached_twice_counts_twice(value: Any) -> None:
    with cpu_within(3), pytest.raises(TooBigError):
        bounded_copy(value, LIMITS)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    mapping: dict[str, Any] = {}
    mapping["x"] = {"y": mapping}
    for cyclic in (value, mapping):
        with pytest.raises(TooBigError, match="holds itself"):
            bounded_copy(cyclic, LIMITS)


def test_depth_counts_containers() -> None:
    limits = ChainLimits(depth=2)
    assert bounded_copy([[1]], limits) == [[1]]
    with pytest.raises(TooBigError, match="2 levels"):
        bounded_copy([[[1]]], limits)


def test_a_very_deep_value_is_refused_without_recursion() -> None:
    value: list[Any] = []
    for _ in range(200_000):
        value = [value]
    with pytest.raises(TooBigError, match="64 levels"):
        bounded_copy(value, LIMITS)


def test_size_counts_bytes_and_not_characters() -> None:
    limits = ChainLimits(call_bytes=1_000)
    assert bounded_copy("a" * 900, limits) == "a" * 900
    with pytest.raises(TooBigError, match="1,000 bytes"):
        bounded_copy("é" * 900, limits)


@pytest.mark.anyio
async def test_the_size_is_near_that_of_the_json() -> None:
    value = [{"name": f"item {i}", "number": i * 1000, "tags": ["a", "b"]} for i in range(1000)]
    copy, size = await crossing(value, LIMITS)
    assert copy == value
    assert size == pytest.approx(len(json.dumps(value)), rel=0.2)


@given(ANYTHING)
def test_whatever_comes_is_json_afterwards_or_refused(value: Any) -> None:
    try:
        copy = bounded_copy(value, LIMITS)
    except TooBigError:
        return
    assert json.loads(json.dumps(copy, allow_nan=False)) == copy
    assert bounded_copy(copy, LIMITS) == copy


@pytest.mark.anyio
@pytest.mark.parametrize(
    "value",
    [list(range(80_000)), {str(n): n for n in range(60_000)}, [[] for _ in range(90_000)]],
    ids=["a list", "an object", "many lists"],
)
async def test_others_have_their_turn_while_a_large_value_crosses(value: Any) -> None:
    """However it is built: one chain does not hold up a gateway."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        assert (await crossing(value, LIMITS))[0] == value
        tasks.cancel_scope.cancel()
    assert turns >= 10
