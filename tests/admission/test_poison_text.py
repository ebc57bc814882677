"""The texts of a definition, cut into sentences, decoded and quoted."""

from hypothesis import given
from hypothesis import strategies as st

from maitred.poisoning.confusables import fold
from maitred.poisoning.passages import decode_parts, passages, quote_text, sentences


def test_names_of_properties_are_texts_and_pictures_are_none() -> None:
    """What no client shows to a model is not read. Source: issue 7."""
    definition = {
        "name": "sum",
        "icons": [{"src": "data:image/png;base64,AAAAAAAAAAAAAAAA"}],
        "inputSchema": {"type": "object", "properties": {"a long name of it": {"type": "string"}}},
    }

    assert [(one.where, one.text, one.label) for one in passages(definition)] == [
        ("/inputSchema/properties/a long name of it", "a long name of it", True)
    ]


def test_a_line_break_ends_no_sentence_but_a_list_does() -> None:
    """Servers break lines at a width. Source: maitred."""
    text = "Adds two\nnumbers. Use v1.2 of it\n- first\n- second <b>third</b>"

    assert [" ".join(part.split()) for _, part in sentences(text)] == [
        "Adds two numbers.",
        "Use v1.2 of it",
        "- first",
        "- second <b>",
        "third</b>",
    ]


def test_a_long_sentence_is_cut_into_pieces_that_overlap() -> None:
    """No phrase is lost at a cut. Source: maitred."""
    text = " ".join(map(str, range(1_000)))

    pieces = list(sentences(text))

    assert max(len(part) for _, part in pieces) <= 600
    assert all(any(f" {number} {number + 1} " in f" {part} " for _, part in pieces) for number in range(999))


def test_only_what_is_prose_when_decoded_is_told() -> None:
    """Pictures, hashes and identifiers are in code as well. Source: issue 7."""
    codes = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ "
    codes += "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b78"

    assert list(decode_parts(codes)) == []
    assert [one.text for one in decode_parts("aSBhbSBhIHNlbnRlbmNlIG9mIHdvcmRz")] == [
        "i am a sentence of words"
    ]


def test_words_of_one_alphabet_are_not_changed_by_folding() -> None:
    """Only a word that mixes alphabets is a disguise. Source: maitred."""
    assert fold("Пароль p\u0430ss \u2019s \uff21\uff22") == "пароль pass 's ab"


@given(st.text())
def test_any_text_can_be_quoted_and_cut(text: str) -> None:
    """Whatever a server sends, the quotation is one printable line of bounded length."""
    assert quote_text(text) == "" or quote_text(text).isprintable()
    assert len(quote_text(text)) <= 160
    assert "".join(part for _, part in sentences(text)).strip() is not None
