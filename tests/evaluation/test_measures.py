"""The figures of retrieval, against examples worked by hand."""

from math import log2

import pytest

from maitred.evaluation.metrics import mean, ndcg, percentile, recall, reciprocal_rank

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
