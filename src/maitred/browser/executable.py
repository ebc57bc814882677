"""Finds the browser of this machine, and reads its version without starting it for pages."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from maitred.browser.errors import AttachError

_NAMES: Final = (
    "chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge",
    "brave-browser",
)  # fmt: skip
_MAC: Final = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_VERSION: Final = re.compile(r"\b(\d+)\.\d+\.\d+\.\d+\b")
_VERSION_S: Final = 20.0


def find_chrome(executable: str = "", search: str | None = None) -> str:
    """The path of the browser: as given, else the first known one on PATH.

    Raises:
        AttachError: There is none.
    """
    path = os.environ.get("PATH", os.defpath) if search is None else search
    for name in (executable,) if executable else _NAMES:
        if found := shutil.which(str(Path(name).expanduser()) if os.sep in name else name, path=path):
            return found
    if executable:
        raise AttachError("no_browser", f"there is no program {executable!r}; correct `executable`")
    if sys.platform == "darwin" and (installed := [one for one in _MAC if Path(one).exists()]):
        return installed[0]
    raise AttachError(
        "no_browser",
        "no browser is installed: install Chromium, as by `apt-get install chromium`, or name a program in"
        " `executable`",
    )


def version_of(executable: str) -> str:
    """What the browser says of its version, such as `Chromium 156.0.8078.79`; empty if it says nothing."""
    try:
        done = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = [line.strip() for line in done.stdout.splitlines() if _VERSION.search(line)]
    return lines[-1].split(" built on ")[0] if lines else ""
