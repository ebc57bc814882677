"""Queries changed as people change them: with values, with typing errors; the same in every run."""

from tests.evaluation.makers import query

from maitred.evaluation.perturbations import perturb

ASKED = [query(str(number), "translate the summary of a long document", "a") for number in range(60)]


def test_a_value_is_appended() -> None:
    """The phrase stays as it is, and values of several kinds follow it."""
    phrases = [one.text for one in perturb(ASKED, "values")]

    assert all(phrase.startswith(f"{ASKED[0].text} ") for phrase in phrases)
    assert len(set(phrases)) > 10


def test_some_longer_words_are_mistyped() -> None:
    """At least one word of each phrase; short words and first letters stay."""
    for one in perturb(ASKED, "typos"):
        words = one.text.split()
        pairs = [pair for pair in zip(ASKED[0].text.split(), words, strict=True) if pair[0] != pair[1]]
        assert 1 <= len(pairs) <= 3
        assert all(len(right) >= 5 and right[0] == wrong[0] for right, wrong in pairs)


def test_a_query_is_changed_alike_in_any_part_of_a_set() -> None:
    """The id of a query decides, not the queries around it."""
    assert perturb(ASKED, "typos")[7] == perturb(ASKED[7:8], "typos")[0]
    assert perturb(ASKED, "none") == ASKED
