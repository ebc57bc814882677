"""docs/glossary.md has each word once, in a plain sentence or two, with the package where it lives."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`[^|]+`) \|$", PAGE, re.MULTILINE)
MAX_WORDS = 25


def test_words_are_in_alphabetical_order_and_have_one_meaning() -> None:
    """A reader finds a word at its place, once."""
    words = [word for word, _, _ in ROWS]
    assert words == sorted(set(words))
    assert len(words) == len(re.findall(r"^\| (?!word |-)", PAGE, re.MULTILINE))


def test_meanings_are_short_and_plain() -> None:
    """At most 25 words a sentence, and none of the words that are not used. Source: CONTRIBUTING.md."""
    house = tomllib.loads((Path(__file__).parent / "house.toml").read_text(encoding="utf-8"))
    unused = "|".join(house["words"]["instead"])
    for word, meaning, _ in ROWS:
        sentences = re.split(r"(?<=[.;:])\s", meaning)
        assert max(len(sentence.split()) for sentence in sentences) <= MAX_WORDS, word
        assert not re.search(rf"\b(?:{unused})\b", meaning), word


def test_each_word_names_a_package_that_there_is() -> None:
    """A reader of the code knows where to begin."""
    packages = {name for _, _, cell in ROWS for name in re.findall(r"`([^`]+)`", cell)}
    assert {
        name for name in packages if not (ROOT / "src" / "maitred" / name / "__init__.py").exists()
    } == set()
