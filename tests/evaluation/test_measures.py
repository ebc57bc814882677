"""The figures of retrieval, against examples worked by hand."""

from math import log2

import pytest

from maitred.evaluation.intervals import differences, intervals
from maitred.evaluation.metrics import hit, mean, ndcg, needs_met, percentile, recall, reciprocal_rank

RANKING = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("relevant", "k", "expected"),
    [(["a"], 1, 1.0), (["b"], 1, 0.0), (["b", "x"], 3, 0.5), (["a", "b", "c"], 2, 2 / 3), (["d"], 10, 1.0)],
)
def test_recall_is_the_share_of_the_relevant_among_the_first(
    relevant: list[str], k: int, expected: float
) -> None:
    """|gold in the top k| / |gold|, also where fewer than k were found."""
    assert recall(RANKING, relevant, k) == pytest.approx(expected)


def test_gain_is_discounted_by_the_place_and_relative_to_the_best_order() -> None:
    """Places 2 and 4 are relevant: (1/log2 3 + 1/log2 5) / (1/log2 2 + 1/log2 3)."""
    expected = (1 / log2(3) + 1 / log2(5)) / (1 / log2(2) + 1 / log2(3))
    assert ndcg(RANKING, ["b", "d"]) == pytest.approx(expected)


def test_gain_of_the_best_order_is_one_even_with_more_relevant_than_places() -> None:
    """The best that two places can hold is two relevant ones."""
    assert ndcg(RANKING, ["a", "b", "x", "y"], k=2) == pytest.approx(1.0)
    assert ndcg(RANKING, ["x"]) == 0.0


@pytest.mark.parametrize(("relevant", "expected"), [(["a"], 1.0), (["c", "d"], 1 / 3), (["x"], 0.0)])
def test_the_reciprocal_rank_is_that_of_the_first_relevant_one(relevant: list[str], expected: float) -> None:
    """1 / place, and 0 if it was not found."""
    assert reciprocal_rank(RANKING, relevant) == pytest.approx(expected)


def test_nothing_relevant_has_no_figure() -> None:
    """A query that nothing serves must not count as found or missed."""
    with pytest.raises(ValueError, match="nothing is relevant"):
        recall(RANKING, [], 5)
    with pytest.raises(ValueError, match="nothing is relevant"):
        ndcg(RANKING, [])
    with pytest.raises(ValueError, match="nothing is relevant"):
        reciprocal_rank(RANKING, [])


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (0.95, 4.0), (1.0, 4.0)]
)
def test_a_percentile_is_a_value_that_occurred(share: float, expected: float) -> None:
    """The smallest that so many do not exceed, in any order."""
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == expected


def test_the_mean_and_percentile_of_nothing_are_zero() -> None:
    """A set without queries can still be printed."""
    assert (mean([]), percentile([], 0.5)) == (0.0, 0.0)
    assert mean([0.0, 0.5, 1.0]) == pytest.approx(0.5)


def test_a_better_grade_gains_more() -> None:
    """(1 + 3/log2 3) / (3 + 1/log2 3): the better tool is second."""
    expected = (1 + 3 / log2(3)) / (3 + 1 / log2(3))
    assert ndcg(RANKING, ["a", "b"], grades={"b": 3}) == pytest.approx(expected)


def test_a_hit_is_any_relevant_one() -> None:
    """One is enough, within the first k."""
    assert hit(RANKING, ["b", "x"], 2) == 1.0
    assert hit(RANKING, ["b", "x"], 1) == 0.0


def test_a_need_is_met_by_any_of_its_tools() -> None:
    """Two needs of three: one by its second tool, one by the only one."""
    assert needs_met(["a", "c"], [["b", "c"], ["a"], ["x"]]) == pytest.approx(2 / 3)


def test_an_interval_holds_the_mean_and_narrows_with_the_queries() -> None:
    """Half of the queries are right: about 1.96 * sqrt(.25 / n) to each side."""
    few = intervals([{"right": float(number % 2)} for number in range(40)])["right"]
    many = intervals([{"right": float(number % 2)} for number in range(4_000)])["right"]

    assert few.mean == many.mean == 0.5
    assert 0.5 - few.low == pytest.approx(0.155, abs=0.03)
    assert 0.5 - many.low == pytest.approx(0.0155, abs=0.003)


def test_a_difference_is_paired() -> None:
    """Each query gains the same, so the interval is that gain alone, however much the queries differ."""
    before = {str(number): {"right": number / 10, "other": 0.0} for number in range(9)}
    after = {id_: {"right": one["right"] + 0.1} for id_, one in before.items()}

    gain = differences(after, before)

    assert list(gain) == ["right"]
    assert [gain["right"].low, gain["right"].high] == pytest.approx([0.1, 0.1])
    assert differences(after, {}) == {}
