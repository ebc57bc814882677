"""Word lists of packages are read as they are written."""

from pathlib import Path

from maitred.mediation.lexicon import BY_CONTEXT
from maitred.word_lists import read_rows, read_words

SOURCE = Path(__file__).parents[1] / "src" / "maitred"


def test_a_key_may_have_several_lines_and_comments_do_not_count(tmp_path: Path) -> None:
    """As reviewers write it."""
    path = tmp_path / "words.tsv"
    path.write_text("# a comment\nverb\tadd remove\n\nnoun\tbook\nverb\tlist\n", encoding="utf-8")

    assert read_words(path) == {"verb": {"add", "remove", "list"}, "noun": {"book"}}
    assert next(read_rows(path)) == ["verb", "add remove"]


def test_readings_are_tried_in_the_order_of_their_lines() -> None:
    """The first whose words are near decides."""
    assert [meaning for meaning, _ in BY_CONTEXT["apt"]] == ["appointment", "apartment"]


def test_no_list_names_a_word_twice_under_one_key() -> None:
    """A second entry is a slip, and hides that a change of the first has no effect."""
    for path in SOURCE.rglob("data/words.tsv"):
        rows = list(read_rows(path))
        listed = [(key, word) for key, words in rows for word in words.split()]
        assert len(listed) == len(set(listed)), path.name
