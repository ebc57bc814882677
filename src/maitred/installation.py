"""Find out how maitred was installed, and name the commands that fit: add packages, upgrade, start it again.

Hints name packages, or the wheel or checkout that was installed. No package index has a package named
maitred: a hint with that name alone would fail, or run the code of a stranger who registers it. `uvx` runs
a program from a folder of its cache, which `uv cache clean` empties; so what starts maitred later names uv.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

Way = Literal["checkout", "image", "pip", "pipx", "uv", "uv tool", "uvx"]
IMAGE_MARK: Final = "maitred-image"
"""A file that the Containerfile writes into the environment of the image; it names the extras."""
_NAME: Final = "maitred"
_CACHES: Final = ("archive-v", "environments-v")
"""How folders of environments in the cache of uv begin."""
_BUILD: Final = ("docker", "build", "-f", "deploy/Containerfile", "-t", _NAME)
_TITLES: Final[Mapping[Way, str]] = {
    "checkout": "pip, from the checkout",
    "image": "the image",
    "pip": "pip, into",
    "pipx": "pipx, into",
    "uv": "uv, into",
    "uv tool": "uv tool, into",
    "uvx": "uvx, for this run only, from",
}


@dataclass(frozen=True, kw_only=True)
class OwnInstallation:
    """How maitred was installed into the environment of `python`.

    `source` is the wheel, checkout or address that it came from, or empty if an index supplied it.
    `additions` are the extras of an image, or the requirements that `uv tool install` got by `--with`.
    """

    way: Way
    python: Path
    prefix: Path
    source: str = ""
    additions: tuple[str, ...] = ()
    uv: str = "uv"

    @property
    def title(self) -> str:
        """A phrase for a person: the way, and the place."""
        place = {"checkout": self.source, "image": "", "uvx": self.source}.get(self.way, str(self.prefix))
        return f"{_TITLES[self.way]} {place}".strip()

    @property
    def is_lasting(self) -> bool:
        """Whether the files of the program stay where they are."""
        return self.way != "uvx"

    def add_command(self, extra: str, packages: Sequence[str]) -> str:
        """A shell command that installs the packages of an extra beside maitred."""
        if self.way == "image":
            extras = ",".join(sorted({*self.additions, extra}))
            return in_shell([*_BUILD, "--build-arg", f"EXTRAS={extras}", "."])
        if self.way == "pipx":
            return in_shell(["pipx", "inject", self.prefix.name, *packages])
        if self.way == "uv tool" and self.source:
            additions = _with([*self.additions, *packages])
            return in_shell(["uv", "tool", "install", "--force", *additions, self.source])
        if self.way == "uvx" and self.source:
            return in_shell(["uvx", *_with(packages), "--from", self.source, _NAME])
        return in_shell([*self._pip, "install", *self._target, *packages])

    def upgrade_command(self, wheel: str) -> str:
        """A shell command that replaces maitred by a wheel, which is a file or an address."""
        if self.way == "image":
            return in_shell([*_BUILD, "."])
        if self.way == "checkout":
            pull = in_shell(["git", "-C", self.source, "pull"])
            return f"{pull} && {in_shell([*self._pip, 'install', *self._target, '-e', self.source])}"
        if self.way == "pipx":
            suffix = self.prefix.name.removeprefix(_NAME)
            return in_shell(["pipx", "install", "--force", *(["--suffix", suffix] if suffix else []), wheel])
        if self.way == "uv tool":
            return in_shell(["uv", "tool", "install", "--force", *_with(self.additions), wheel])
        if self.way == "uvx":
            return in_shell(["uvx", "--from", wheel, _NAME])
        return in_shell([*self._pip, "install", *self._target, "--upgrade", wheel])

    def start_words(self) -> Sequence[str]:
        """The words that start maitred where no file of it stays; empty where its program does."""
        if self.is_lasting or not self.source:
            return ()
        return [self.uv, "tool", "run", "--from", self.source, _NAME]

    @property
    def _pip(self) -> Sequence[str]:
        has_pip = self.way in ("pip", "checkout") and find_spec("pip") is not None
        return [str(self.python), "-m", "pip"] if has_pip else ["uv", "pip"]

    @property
    def _target(self) -> Sequence[str]:
        return [] if self._pip[0] == str(self.python) else ["--python", str(self.python)]


def find_installation(
    prefix: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    origin: Mapping[str, Any] | None = None,
) -> OwnInstallation:
    """The installation of the running program, or of an environment.

    `origin` is what the installer recorded of where maitred came from (PEP 610).
    """
    folder = prefix or Path(sys.prefix)
    recorded = _origin() if origin is None else origin
    source, python = _source(recorded), Path(sys.executable)
    if (folder / IMAGE_MARK).is_file():
        return OwnInstallation(way="image", python=python, prefix=folder, additions=_image_extras(folder))
    if (folder / "pipx_metadata.json").is_file():
        return OwnInstallation(way="pipx", python=python, prefix=folder, source=source)
    if (folder / "uv-receipt.toml").is_file():
        additions = _receipt(folder / "uv-receipt.toml")
        return OwnInstallation(
            way="uv tool", python=python, prefix=folder, source=source, additions=additions
        )
    if folder.parent.name.startswith(_CACHES) and _made_by_uv(folder):
        uv = environ.get("UV") or shutil.which("uv") or "uv"
        return OwnInstallation(way="uvx", python=python, prefix=folder, source=source, uv=uv)
    if recorded.get("dir_info", {}).get("editable"):
        return OwnInstallation(way="checkout", python=python, prefix=folder, source=source)
    way: Way = "pip" if find_spec("pip") is not None else "uv"
    return OwnInstallation(way=way, python=python, prefix=folder, source=source)


def in_shell(words: Sequence[str]) -> str:
    """Words as a line for the shell of this system."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def _with(packages: Sequence[str]) -> list[str]:
    return [word for package in packages for word in ("--with", package)]


def _origin() -> Mapping[str, Any]:
    """What the installer recorded of where maitred came from (PEP 610); empty if an index supplied it."""
    try:
        text = distribution(_NAME).read_text("direct_url.json")
        found = json.loads(text) if text else {}
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _source(origin: Mapping[str, Any]) -> str:
    """A path or an address; addresses lose the name and password of a user."""
    url = str(origin.get("url", ""))
    parts = urlsplit(url)
    if parts.scheme == "file":
        return url2pathname(parts.path)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _image_extras(folder: Path) -> tuple[str, ...]:
    text = (folder / IMAGE_MARK).read_text(encoding="utf-8")
    return tuple(word for word in text.replace(",", " ").split() if word)


def _made_by_uv(folder: Path) -> bool:
    try:
        lines = (folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in lines)


def _receipt(path: Path) -> tuple[str, ...]:
    """The requirements beside maitred, as `--with` takes them; empty if the receipt has another form."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        entries = table["tool"]["requirements"]
        return tuple(_requirement(entry) for entry in entries if unquote(entry["name"]) != _NAME)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _requirement(entry: Mapping[str, Any]) -> str:
    extras = f"[{','.join(entry['extras'])}]" if entry.get("extras") else ""
    place = entry.get("path") or entry.get("directory") or entry.get("url")
    return (
        f"{entry['name']}{extras} @ {place}"
        if place
        else f"{entry['name']}{extras}{entry.get('specifier', '')}"
    )
