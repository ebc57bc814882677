"""Texts of servers lose what deceives a reader, however long they are."""

import pytest
from tests.support.cpu import cpu_within

from maitred.backends.listing import clean, is_text


@pytest.mark.alone
def test_a_long_text_is_cleaned_soon() -> None:
    """The event loop of all clients waits for it. Source: issue "What broke", 4, elsewhere."""
    with cpu_within(3):
        shown = clean("Lists files\u202e, für \u200balle.\x1b[2J " * 150_000)

    assert shown == "Lists files, für alle.[2J " * 150_000


def test_half_a_character_is_no_text() -> None:
    """It could not be sent to anybody."""
    assert is_text("für 🙂 \x00")
    assert not is_text("half a \ud83d face")
