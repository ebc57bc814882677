"""The walk-through of the manual: it plays, it is of this version, and its commands still show what it shows.

It is made again by `MAITRED_WALKTHROUGH=docs .venv/bin/python -m pytest tests/walkthrough`.
"""

import json
import os
import re
import socket
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest
from tests.walkthrough.picture import picture
from tests.walkthrough.recorder import HEIGHT, Played, cast, length_s, play, screens
from tests.walkthrough.scenes import SCENES
from tests.walkthrough.terminal import WIDTH, Terminal, text_of

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"
CAST = _DOCS / "walkthrough.cast"
SVG = _DOCS / "pictures" / "walkthrough.svg"
PAGE = _DOCS / "walkthrough.md"
TITLE = "A walk-through of maitred in a terminal: each command, its real answer, and a line on what one sees"
MOST_BYTES = 300_000
SHORTEST_S, LONGEST_S = 300, 600
_MACHINE = re.compile(r"/(?:root|work|tmp/(?!demo\b)|home/(?!you\b)|usr/local/lib|opt)\b[^\s\"']*")


def shown_by(played: Played) -> str:
    """What a command showed, as one text without line ends that the width of the terminal made."""
    return "".join(
        f"{text_of(line)}\n" if len(text_of(line)) < WIDTH else text_of(line) for line in played.lines
    )


@pytest.mark.skipif("MAITRED_WALKTHROUGH" not in os.environ, reason="on demand: MAITRED_WALKTHROUGH=docs")
def test_the_walk_through_of_the_manual_is_recorded(tmp_path: Path) -> None:
    """In a pseudo-terminal, with the commands as they are installed."""
    folder = Path(os.environ["MAITRED_WALKTHROUGH"])
    played = play(tmp_path / "home")
    for one in played:
        for part in one.scene.shows:
            assert part in shown_by(one), (one.scene.command, shown_by(one))
    shown = screens(played)
    (folder / CAST.name).write_text(cast(shown), encoding="utf-8")
    (folder / "pictures" / SVG.name).write_text(picture(shown, TITLE), encoding="utf-8")
    assert SHORTEST_S <= length_s(shown) <= LONGEST_S
    assert socket.gethostname() not in CAST.read_text(encoding="utf-8")


@pytest.mark.processor_s(300, "every command of the walk-through starts a gateway")
def test_the_commands_of_the_walk_through_still_show_what_it_shows(tmp_path: Path) -> None:
    """In substance: the parts of each answer that the captions speak of."""
    for one in play(tmp_path / "home"):
        for part in one.scene.shows:
            assert part in shown_by(one), (one.scene.command, shown_by(one))


def test_the_recording_is_an_asciicast_that_plays_for_five_to_ten_minutes() -> None:
    """A header and events in order. Source: asciicast v2, the format of `asciinema play`."""
    header, *events = map(json.loads, CAST.read_text(encoding="utf-8").splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, WIDTH, HEIGHT)
    assert all(kind == "o" and isinstance(text, str) for _, kind, text in events)
    assert all(one[0] <= other[0] for one, other in pairwise(events))
    assert SHORTEST_S <= events[-1][0] <= LONGEST_S


def test_the_recording_shows_each_command_with_its_caption_and_what_it_answers() -> None:
    """Played to its end by a terminal, scene by scene."""
    _, *events = map(json.loads, CAST.read_text(encoding="utf-8").splitlines())
    scenes = "".join(text for _, _, text in events).split("\x1b[2J\x1b[H")[1:]
    assert len(scenes) == len(SCENES)
    for scene, text in zip(SCENES, scenes, strict=True):
        terminal = Terminal()
        terminal.write(text)
        said = shown_by(Played(scene=scene, lines=terminal.lines(), code=0))
        for part in (f"# {scene.caption}", f"$ {scene.command}", *scene.shows):
            assert part in said, part


def test_the_picture_is_small_moves_by_styles_alone_and_takes_nothing_from_elsewhere() -> None:
    """So a page may show it as an image, in GitHub as well."""
    text = SVG.read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    names = {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}
    assert names == {"svg", "title", "style", "rect", "circle", "g", "text", "tspan"}
    assert not re.search(r"url\(|@import|href|<script|\son\w+=", text)
    for scene in SCENES:
        assert f"#s{len(SCENES)}" in text
        assert scene.caption.split("`")[0][:30].replace("&", "&amp;") in text


@pytest.mark.parametrize("file", [CAST, SVG], ids=["recording", "picture"])
def test_nothing_of_the_machine_that_made_it_is_in_it(file: Path) -> None:
    """No path of it: paths are `~` and those of the manual. Its name is looked for when it is recorded."""
    text = file.read_text(encoding="utf-8")
    assert _MACHINE.findall(text) == []


def test_the_page_has_every_command_with_its_caption_and_the_readme_leads_to_it() -> None:
    """For who cannot see the picture, or wants to type along."""
    page = PAGE.read_text(encoding="utf-8")
    for number, scene in enumerate(SCENES, 1):
        assert f"{number}. {scene.caption}" in page
        assert f"$ {scene.command}" in page
    assert f"![{TITLE}.](pictures/walkthrough.svg)" in page
    assert "docs/walkthrough.md" in (_ROOT / "README.md").read_text(encoding="utf-8")
