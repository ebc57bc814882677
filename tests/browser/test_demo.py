"""`maitred demo browser`: a page's tools and the debugger's states, in a real browser; or what to install."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.chromium import SOON_S, chromium

from maitred.surfaces.cli.demo_browser import PAGE_TOOLS


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "maitred", *words],
        env={**os.environ, "COLUMNS": "160", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * SOON_S,
    )


def test_the_demonstration_shows_a_page_and_the_states_of_the_debugger(tmp_path: Path) -> None:
    """What an agent sees, finds and calls, then its tools by state. Source: issue 19, point 6."""
    chromium()
    done = run("demo", "browser", TMPDIR=str(tmp_path))
    text = done.stdout

    assert done.returncode == 0, done.stderr + text
    assert re.search(rf"has {PAGE_TOOLS} tools; each .* waits for a person", text)
    assert re.search(rf"[\d,]+ tokens for {PAGE_TOOLS} tools, [\d,]+ tokens as 3 categories", text)
    assert re.search(r"search_tools .*\n(?:.*\n){1,4}.*_list_orders", text)
    assert "[page-supplied, untrusted · http://127.0.0.1:" in text
    assert "a person has to agree to each call of it" in text
    states = re.findall(r"^(no browser|connected|debugger on|paused|runs again) +(\d+)", text, re.MULTILINE)
    assert [int(count) for _, count in states] == [3, 12, 15, 17, 15, 3]
    assert "debugger_step_over" in text
    assert list(tmp_path.iterdir()) == []


def test_without_a_browser_it_says_what_to_install(tmp_path: Path) -> None:
    """Before anything is started; the demonstration without a browser is named."""
    done = run("demo", "browser", PATH=str(tmp_path))

    assert done.returncode == 2
    assert "`apt-get install chromium`" in done.stderr
    assert "`maitred demo` needs no browser" in done.stderr
    assert done.stdout == ""
