"""The page on categories is true: its program runs and prints what is written below it."""

import re
import subprocess
import sys
from pathlib import Path

from maitred.catalog.result_tools import MOST_BYTES, MOST_TOOLS

PAGE = (Path(__file__).parents[2] / "docs" / "categories.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_program_of_the_page_prints_what_the_page_says(tmp_path: Path) -> None:
    """A stranger can paste it. Source: issue 6."""
    blocks = _BLOCK.findall(PAGE)
    [program] = [text for kind, text in blocks if kind == "python"]
    [printed] = [text for kind, text in blocks if kind == "text"]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "[debug" not in line]  # what structlog adds
    assert lines == printed.splitlines()


def test_the_limits_on_the_page_are_those_that_hold() -> None:
    """Source: maitred."""
    assert f"up to {MOST_TOOLS} tools, of {MOST_BYTES // 1_000_000} MB in all" in PAGE
