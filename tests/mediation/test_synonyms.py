"""Forms of one word have one root, and words of a group stand for each other."""

import pytest

from maitred.mediation.synonyms import alike, root


@pytest.mark.parametrize(
    ("one", "other"),
    [("invite", "invitation"), ("deletes", "deleted"), ("replies", "reply"), ("reserve", "reservation")],
)
def test_forms_of_a_word_have_one_root(one: str, other: str) -> None:
    """Whatever the form in a name or a text."""
    assert root(one) == root(other)


def test_words_of_one_group_are_alike_and_opposites_are_not() -> None:
    """As the list of the lexicon has them."""
    assert root("removes") in alike("delete")
    assert root("import") not in alike("export")
    assert root("get") not in alike("delete")
