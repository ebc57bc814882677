"""Texts of strangers as a page prints them: what does not show becomes a mark, and all else stays."""

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from maitred.surfaces.web.templates import environment
from maitred.surfaces.web.text import (
    area_text,
    as_markup,
    as_words,
    field_text,
    mark_hidden,
    safe_text,
    shorten,
)

HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "two\nlines\tand a tab",
        "größer, señor, 日本語, العربية, עברית",
        "⚠️ careful",
        "👩‍💻 works",
        "á",
        "e\u0301",
    ],
)
def test_honest_texts_stay_as_they_are(text: str) -> None:
    """In any language; emoji too, which are made with a joiner or a selector."""
    assert mark_hidden(text) == text
    assert as_markup(text) == f"<bdi>{text}</bdi>"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("pay\u200bpal", "pay⟦U+200B⟧pal"),
        ("\x1b[31m", "⟦U+001B⟧[31m"),
        ("a\r\nb", "a⟦U+000D⟧\nb"),
        ("a\u00a0b\u2003c", "a⟦U+00A0⟧b⟦U+2003⟧c"),
        ("\u3164\u2800\u115f", "⟦U+3164⟧⟦U+2800⟧⟦U+115F⟧"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("x\ufe0f", "x⟦U+FE0F⟧"),
        ("\ud800", "⟦U+D800⟧"),
        ("Z\u0301\u0301\u0301\u0301", "Z\u0301\u0301\u0301⟦U+0301⟧"),
    ],
)
def test_what_does_not_show_is_a_mark(text: str, marked: str) -> None:
    assert mark_hidden(text) == marked


def test_a_mark_has_the_name_of_its_character() -> None:
    assert 'title="Right-to-left override">U+202E</span>' in as_markup("\u202e")


def test_a_text_is_not_without_end_and_says_how_much_is_left_out() -> None:
    assert shorten("x" * 1_000_000, 10) == "x" * 10 + "… and 999,990 more characters"
    assert len(as_markup("<" * 1_000_000)) < 20_000


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_leaves_a_hidden_character_or_an_element(text: str) -> None:
    """Whatever it is; and a template prints it the same way by itself."""
    for printed in (str(as_markup(text)), environment().from_string("{{ x }}").render(x=text)):
        assert not {c for c in printed if unicodedata.category(c) in HIDDEN} - {"\n", "\t"}
        assert set(re.findall(r"<(\w+)", printed)) <= {"bdi", "span"}
        assert not re.search(r"<(?!/?(bdi|span)\b)", printed)


def test_a_template_prints_own_markup_and_numbers_as_they_are_meant() -> None:
    assert safe_text(Markup("<b>")) == "<b>"
    assert safe_text(1_234_567) == "1,234,567"
    assert safe_text("<b>") == "<b>"  # the template escapes it afterwards
    page = environment().from_string('<a title="{{ x }}">{{ x }}</a>').render(x='"><script>\u202e')
    assert page.count("<") == 2
    assert page.count('"') == 2


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "a\u00a0b",
        "\u0645\u06cc\u200c\u062e",
        "\U000e0041\u202e",
        "👩‍💻",
        "e\u0301",
        "x" * 9_000,
        '"><&amp;\r\n',
    ],
)
def test_a_field_of_a_form_has_every_character(text: str) -> None:
    """A browser sends back what was typed, and the page itself has nothing invisible."""
    written = field_text(text)
    assert html.unescape(str(written)) == text
    assert not set(written) & {"\u00a0", "\u200c", "\u202e", "\U000e0041", "\r", "<", ">", '"'}
    assert html.unescape(str(area_text(f"\n{text}"))) == f"\n\n{text}"


def test_what_no_page_can_carry_is_a_mark_in_a_field_too() -> None:
    assert field_text("a\x00\x85\ud800") == "a⟦U+0000⟧⟦U+0085⟧⟦U+D800⟧"


def test_code_in_our_own_texts_is_marked_and_escaped() -> None:
    assert as_words("Type `a <b>` & go, `c`.") == "Type <code>a &lt;b&gt;</code> &amp; go, <code>c</code>."
    assert as_words("no code") == "no code"
