"""Phrases in other languages are read as English words of tools, and the answer says so."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalog.makers import raw, snapshot_of

from maitred.search import foreign
from maitred.search.engine import SearchEngine
from maitred.search.foreign import ForeignReading, may_be_foreign, read_foreign
from maitred.search.results import Filter
from maitred.word_lists import read_rows

pytestmark = pytest.mark.anyio

INVOICE = raw("office", "delete_invoice", description="Delete an invoice.")
CALENDAR = raw("office", "create_event", description="Create an event in a calendar.")
WEATHER = raw("sky", "get_forecast", description="Get the weather forecast of a city.")
TOOLS = snapshot_of([INVOICE, CALENDAR, WEATHER])
GLOSSARIES = sorted((Path(foreign.__file__).parent / "data" / "languages").glob("*.tsv"))
OPEN = Filter(visible=frozenset({"office", "sky"}))


@pytest.mark.parametrize(
    ("phrase", "language", "words"),
    [
        ("Rechnung löschen", "German", {"invoice", "delete"}),
        ("alle Kalendertermine", "German", {"calendar"}),  # a compound in the plural
        ("borrar una factura", "Spanish", {"invoice", "delete"}),
        ("supprimer les fichiers", "French", {"file", "delete"}),
        ("apagar uma fatura", "Portuguese", {"invoice", "delete"}),
        ("請求書を削除", "Japanese", {"invoice", "delete"}),
        ("删除发票", "Chinese", {"invoice", "delete"}),
        ("Gmailの下書きを保存", "Japanese", {"Gmail", "draft", "save"}),  # a name between
        ("busca la previsión del tiempo en Sevilla", "Spanish", {"search", "forecast", "sevilla"}),
    ],
)
def test_a_phrase_is_read_in_english(phrase: str, language: str, words: set[str]) -> None:
    """With the words of tools for its own; names stay."""
    read = read_foreign(phrase)
    assert read.language == language
    assert words <= set(read.text.split())


@pytest.mark.parametrize(
    "phrase",
    [
        "",
        "delete an invoice",
        "weather in boston in fahrenheit",  # has the form of a German compound
        "fetch the eventstream of a kubernetes pod",
        "jira",
        "translate “la maison” into english for me and send it to the team",
        "stop a running AI model job",
        "what is the meaning of 漢字 in this sentence for the reader",
        "Tôi cần một chuyến xe cho tôi",  # no glossary has it
    ],
)
def test_english_and_unknown_languages_stay(phrase: str) -> None:
    """As they are typed."""
    assert read_foreign(phrase) == ForeignReading(text=phrase)


async def test_the_answer_finds_the_tool_and_says_what_was_searched_for() -> None:
    """So that an agent knows which words were used."""
    async with SearchEngine(mode="lexical") as engine:
        await engine.update(TOOLS)
        hits, _ = await engine.search(["请删除发票"], OPEN, 3)
    assert hits.hits[0].tool.key == INVOICE.key
    assert "invoice" in hits.corrections["请删除发票"]


@pytest.mark.parametrize("path", GLOSSARIES, ids=lambda path: path.stem)
def test_a_glossary_has_the_form_that_is_read(path: Path) -> None:
    """Its language, its writing, and words with English ones, each word once."""
    rows = list(read_rows(path))
    assert rows[0][0] == ":language"
    assert rows[0][2] in ("spaced", "compounds", "unspaced")
    entries = [row for row in rows if not row[0].startswith(":")]
    assert all(len(row) == 2 and re.fullmatch(r"[a-z0-9-]+( [a-z0-9-]+)*", row[1]) for row in entries)
    assert len({row[0] for row in entries}) == len(entries)


@given(st.text(max_size=200))
def test_any_phrase_can_be_read(phrase: str) -> None:
    """Nothing that somebody types is an error, or leaves nothing to search for."""
    may_be_foreign(phrase)
    assert read_foreign(phrase).text or not phrase


def test_the_longest_compounds_take_no_time_that_is_felt() -> None:
    """Any caller may send any phrase."""
    phrase = " ".join(
        f"rechnungskalenderterminverwalt{chr(97 + at % 26)}{chr(97 + at // 26)}" for at in range(30)
    )
    read_foreign("Rechnung")
    start = time.process_time()
    read_foreign(phrase)
    assert time.process_time() - start < 1
