"""`maitred docs`: pages of the documentation in a terminal."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.cli.rig import Run, runner

from maitred.surfaces.cli.docs import as_printed

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(tmp_path, monkeypatch, capsys)


def test_without_a_name_it_lists_all_pages_with_their_titles(run: Run) -> None:
    listed = dict(line.split(None, 1) for line in run("docs").fine.splitlines() if "  " in line)
    as_json = json.loads(run("docs", "--json").fine)["pages"]

    assert sorted(listed) == sorted([*PAGES, "readme", "changelog"])
    assert {one["page"]: one["title"] for one in as_json} == listed


def test_every_page_is_plain_text_of_eighty_columns(run: Run) -> None:
    """But for code, which is to be copied. Nothing is cut; no link and no control code is left."""
    for page in PAGES:
        said = run("docs", page).fine
        lines = said.splitlines()
        assert said.count("…") == (DOCS / f"{page}.md").read_text(encoding="utf-8").count("…"), page
        prose = [line for line in lines if not line.startswith("    ")]
        assert max(map(len, prose)) <= 80, page
        assert not any("](" in line for line in prose), page
        assert not any("\x1b" in line for line in lines), page


def test_the_name_may_be_that_of_the_file(run: Run) -> None:
    """As messages of other programs and the pages themselves write it."""
    assert run("docs", "docs/serve.md").fine == run("docs", "serve").fine


def test_a_wrong_name_gets_the_nearest(run: Run) -> None:
    assert (
        "there is no page 'trubleshooting'; did you mean 'troubleshooting'?"
        in run("docs", "trubleshooting").refused
    )
    assert "`maitred docs` lists all pages" in run("docs", "x").refused


def test_links_to_pages_become_commands_that_work() -> None:
    """Code in blocks stays as it is."""
    assert as_printed("See [tiers](menu.md#tiers) and [cli.md](cli.md).") == (
        "See tiers (`` `maitred docs menu` ``) and `` `maitred docs cli` ``."
    )
    assert as_printed("[here](#x), [there](https://example.com/a)") == "here, there (https://example.com/a)"
    block = "```sh\nls `a` [x](y.md)\n```"
    assert as_printed(block) == block


def test_a_terminal_gets_a_pager(tmp_path: Path) -> None:
    """The user's own, by `PAGER`; a pipe gets none."""
    ours, theirs = pty.openpty()
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\ncat > /dev/null\necho paged\n", encoding="utf-8")
    pager.chmod(0o755)
    done = subprocess.Popen(
        [sys.executable, "-m", "maitred", "docs", "connect"],
        env=os.environ | {"PAGER": str(pager), "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    try:
        assert done.wait(300) == 0
        assert os.read(ours, 65_536).decode().split() == ["paged"]
    finally:
        os.close(ours)
