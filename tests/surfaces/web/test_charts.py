"""Pictures: well-formed, with a title and a description, true to their numbers, without a style."""

import re
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from maitred.surfaces.web import charts
from maitred.surfaces.web.charts import Cell, Series

DAYS = [f"11-{day:02}" for day in range(1, 31)]
ROWS = [
    Series(name="raw", values=[day * 100.0 for day in range(30)], tone=2),
    Series(name="spent", values=[day * 7.0 for day in range(30)]),
]
HOSTILE = '"><script>\u202e&'
TREE = Cell(
    name="all",
    parts=[
        Cell(
            name=HOSTILE,
            parts=[Cell(name="a", weight=30, tone=1), Cell(name="b", weight=10)],
        ),
        Cell(name="rest", weight=60),
        Cell(name="nothing", weight=0),
    ],
)
TITLE, DESC = f"Tokens {HOSTILE}", f"By day {HOSTILE}"
PICTURES = {
    "line": charts.line(DAYS, ROWS, title=TITLE, desc=DESC),
    "filled line": charts.line(DAYS, ROWS, filled=True, title=TITLE, desc=DESC),
    "bars": charts.bars([HOSTILE, *DAYS[1:]], ROWS, title=TITLE, desc=DESC),
    "stacked bars": charts.bars(DAYS, ROWS, stacked=True, title=TITLE, desc=DESC),
    "no days": charts.line([], [Series(name="x", values=[])], title=TITLE, desc=DESC),
    "one day": charts.line(["a"], [Series(name="x", values=[3])], title=TITLE, desc=DESC),
    "nothing but zero": charts.bars(["a", "b"], [Series(name="x", values=[0, 0])], title=TITLE, desc=DESC),
    "icicle": charts.icicle(TREE, title=TITLE, desc=DESC),
    "empty icicle": charts.icicle(Cell(name="x"), title=TITLE, desc=DESC),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_a_picture_is_well_formed_and_says_what_it_shows(picture: Markup) -> None:
    root = ElementTree.fromstring(str(picture))  # our own
    assert root.get("role") == "img"
    assert (root.findtext("title") or "").startswith("Tokens ")
    assert (root.findtext("desc") or "").startswith("By day ")
    assert "script" not in {element.tag for element in root.iter()}
    assert "\u202e" not in picture
    for element in root.iter():
        assert not {name for name in element.attrib if name == "style" or name.startswith("on")}
        assert "nan" not in str(element.attrib).lower()


def test_bars_are_as_high_as_their_numbers() -> None:
    picture = charts.bars(["a", "b"], [Series(name="x", values=[50, 100])], title="t", desc="d")
    heights = [float(height) for height in re.findall(r'<rect[^>]* height="([\d.]+)"', picture)]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert charts.figures(["a", "b"], [Series(name="x", values=[50, 100])]) == [("a", [50]), ("b", [100])]


def test_a_cell_of_an_icicle_is_as_wide_as_its_share() -> None:
    widths = [
        float(width)
        for width in re.findall(r'<rect[^>]* width="([\d.]+)"', charts.icicle(TREE, title="t", desc=""))
    ]
    assert widths[0] == 720
    assert sorted(widths[1:]) == pytest.approx([72, 216, 288, 432], abs=0.2)


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.3, 0.5), (7, 10), (10, 10), (11, 20), (2_400, 2_500), (99_999, 100_000)]
)
def test_an_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert charts.ceiling(value) == pytest.approx(top)


def test_numbers_on_an_axis_are_short() -> None:
    numbers = (0, 950, 12_000, 1_250, 3_400_000, 2.5)
    assert [charts.short_number(n) for n in numbers] == ["0", "950", "12k", "1.2k", "3.4M", "2.5"]
