"""Token budgets: the quick estimate is a bound that is not too loose, and packing keeps to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalog.makers import definitions

from maitred.catalog.token_count import count_tokens
from maitred.disclosure.budget import estimate, pack

BOUND_SHARE = 0.99
MEDIAN_RATIO = 1.35


@pytest.mark.parametrize("kind", ["generated", "recorded"])
def test_the_estimate_is_an_upper_bound_and_close(kind: str) -> None:
    """At least the o200k count for 99 of 100 definitions, at most 1.35 of it in the median."""
    texts = definitions(kind)
    if texts is None:
        pytest.skip("the recorded definitions are not here; the generated ones are tested")
    ratios = sorted(estimate(text) / count for text, count in zip(texts, count_tokens(texts), strict=True))

    assert sum(ratio >= 1 for ratio in ratios) >= BOUND_SHARE * len(ratios)
    assert ratios[len(ratios) // 2] <= MEDIAN_RATIO


@pytest.mark.parametrize(
    "text",
    ["天気予報を取得します。", "🎉🎊" * 20, "x" * 500, "1234567890" * 20, "{}[]()" * 40, "Größe ändern"],
    ids=ascii,
)
def test_odd_texts_are_not_estimated_too_low(text: str) -> None:
    """Other scripts, pictures, numbers and brackets cannot be used to slip past a budget."""
    [count] = count_tokens([text])

    assert estimate(text) >= count


items = st.lists(st.text(max_size=80), max_size=30)


@given(items, st.integers(0, 200))
def test_packing_takes_whole_items_from_the_front_within_the_budget(texts: list[str], budget: int) -> None:
    """Nothing shown was cut, and only an only item costs more than allowed. Source: DESIGN 5, rule 3."""
    packed = pack(texts, budget)

    assert list(packed.items) == texts[: len(packed.items)]
    assert packed.left == len(texts) - len(packed.items)
    assert len(packed.items) <= 1 or sum(estimate(item) for item in packed.items) <= budget


@given(items, st.integers(0, 200))
def test_packing_leaves_nothing_that_would_fit_and_always_moves_on(texts: list[str], budget: int) -> None:
    """The next item would have gone over; the first is shown even so, or a reader would never get past it."""
    packed = pack(texts, budget)

    assert packed.items or not texts
    if packed.left:
        shown = [*packed.items, texts[len(packed.items)]]
        assert sum(estimate(item) + 1 for item in shown) > budget
