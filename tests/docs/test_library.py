"""The page for Python programmers: its program runs, and it names all that is public."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import maitred

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")


def test_the_program_on_the_page_finds_a_tool_and_calls_it(tmp_path: Path) -> None:
    """It is run as a reader would run it, on a real server. Source: docs/library.md."""
    program = tmp_path / "program.py"
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    program.write_text(code, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "\ntime__get_current_time\n" in done.stdout
    assert "Europe/Rome" in done.stdout


@pytest.mark.parametrize("name", [name for name in maitred.__all__ if name != "__version__"])
def test_every_public_name_is_importable_and_described(name: str) -> None:
    """A name that `maitred` exports has a line on the page. Source: docs/library.md."""
    assert getattr(maitred, name).__name__ == name
    assert f"`{name}" in PAGE


def test_a_name_that_is_not_public_is_refused() -> None:
    """The error names it, as Python's own does."""
    with pytest.raises(AttributeError, match="'maitred' has no attribute 'Pool'"):
        _ = maitred.Pool
