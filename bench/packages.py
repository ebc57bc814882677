"""Peers that are not among the dependencies: where they are looked for, and how they get there.

Nothing is installed unless `--install-peers` asks for it, and then into a folder of the bench. A peer that
is not there is a row of its table that says how to get it.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bench.values import PeerError

_LIMIT_S: Final = 600.0
HOW: Final = "python -m bench --install-peers"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A peer at the version that it is measured at; its program has its name."""

    name: str
    registry: Literal["PyPI", "npm"]
    version: str

    def program(self, folder: Path) -> Path | None:
        """Its program below a folder of peers, else wherever `PATH` finds it."""
        there = folder / self.name / ("bin" if self.registry == "PyPI" else "node_modules/.bin") / self.name
        on_path = shutil.which(self.name)
        return there if there.exists() else Path(on_path) if on_path else None

    def install(self, folder: Path) -> None:
        """Install it below a folder of peers.

        Raises:
            PeerError: An installer fails; the text has its last words.
        """
        own = folder / self.name
        exact = f"{self.name}{'==' if self.registry == 'PyPI' else '@'}{self.version}"
        if self.registry == "PyPI":
            _run(sys.executable, "-m", "venv", str(own))
            _run(str(own / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", exact)
        else:
            _run("npm", "install", "--no-audit", "--no-fund", "--prefix", str(own), exact)


MCP_PROXY: Final = Package(name="mcp-proxy", registry="PyPI", version="0.13.0")
MCP_HUB: Final = Package(name="mcp-hub", registry="npm", version="4.2.1")
PACKAGES: Final[Mapping[str, Package]] = {one.name: one for one in (MCP_PROXY, MCP_HUB)}


def _run(*command: str) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        words = str(getattr(error, "stderr", "") or error).strip()[-300:]
        raise PeerError(f"{' '.join(command[-2:])} could not be installed: {words}") from None
