"""The files that a program needs from the place where it is installed, besides the system itself.

For a Python environment that is the environment and its base Python. For a Node package it is the
`node_modules` folder around it, under /opt the program's folder there, and else the file alone. The
interpreter in a script's first line belongs to it. Links stay links, and their targets are visible too. A
whole home is never shown. This module reads names and first lines, and runs nothing; the operator grants what
else a program needs. What the program may change is not followed: it could make other installed files
visible.
"""

import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
"""What every program sees."""

_WHOLE: Final = ("/home/linuxbrew/.linuxbrew",)
_OF_PYTHON: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
_MOST_LINKS: Final = 40
_FIRST_LINE: Final = 256


@dataclass(kw_only=True)
class Installation:
    """What a program needs: real files and folders, links with their targets, and folders for its PATH.

    `writable` are the real paths that the program may change.
    """

    writable: Collection[Path] = ()
    parts: list[Path] = field(default_factory=list)
    links: dict[Path, str] = field(default_factory=dict)
    path: list[Path] = field(default_factory=list)

    def has(self, path: Path) -> bool:
        """Whether the program already sees the path."""
        return any(path.is_relative_to(place) for place in (*map(Path, SYSTEM), *self.parts))

    def trusts(self, path: Path) -> bool:
        """Whether the program cannot change what is at a path; the path must have no link above it."""
        return not any(path.is_relative_to(place) for place in self.writable)


def installation_of(program: Path, search: str, writable: Collection[Path] = ()) -> Installation:
    """What a program needs, by its absolute path; `search` is the PATH on which its interpreter is found.

    Links and files in `writable`, which the program may change, are not followed.
    """
    found = Installation(writable=writable)
    waiting = [program]
    seen: set[Path] = set()
    while waiting:
        if (one := waiting.pop(0)) in seen:
            continue
        seen.add(one)
        if one.parent not in found.path:
            found.path.append(one.parent)
        place = None
        for place in _way(one, found):
            waiting += _add(place, found)
        if place is not None and not place.is_symlink():
            waiting += _interpreter(place, search)
    return found


def _way(path: Path, found: Installation) -> Iterator[Path]:
    """Follow a path through its links, step by step, and note each link.

    It ends before what the program may change.
    """
    for _ in range(_MOST_LINKS):
        path = _place(path, found)
        if not found.trusts(path):
            return
        yield path
        if not path.is_symlink():
            return
        target = str(path.readlink())
        if not found.has(path):
            found.links[path] = target
        path = path.parent / target


def _place(path: Path, found: Installation) -> Path:
    """The same path without links among its folders, or the first link that the program may change."""
    parts = list(Path(os.path.normpath(path)).parent.parts[1:])
    place = Path("/")
    for _ in range(_MOST_LINKS * len(path.parts)):
        if not parts:
            break
        place /= parts.pop(0)
        if place.is_symlink():
            if not found.trusts(place):
                return place
            target = str(place.readlink())
            if not found.has(place):
                found.links[place] = target
            joined = Path(os.path.normpath(place.parent / target))
            parts = [*joined.parts[1:], *parts]
            place = Path("/")
    return place / path.name


def _add(place: Path, found: Installation) -> Iterator[Path]:
    """Note what is needed for a program or a link; yields the programs that it needs in turn."""
    if found.has(place):
        return
    prefix = _prefix(place, found)
    if prefix is not None:
        found.parts += [prefix / part for part in _OF_PYTHON] if _is_home(prefix) else [prefix]
        yield from _pythons(prefix, found)
    elif not place.is_symlink():
        found.parts.append(place)


def _file(path: Path, found: Installation) -> bool:
    """Whether the path is a file that the program can neither create nor change."""
    *_, end = (None, *_way(path, Installation(writable=found.writable)))
    return end is not None and not end.is_symlink() and end.is_file()


def _prefix(place: Path, found: Installation) -> Path | None:
    """The folder in which a program is installed together with what it needs."""
    for top in _WHOLE:
        if place.is_relative_to(top):
            return Path(top)
    if place.is_relative_to("/opt") and len(place.parts) > len(("/", "opt", "program")):
        return Path(*place.parts[:3])
    if "node_modules" in place.parts:
        return Path(*place.parts[: place.parts.index("node_modules") + 1])
    above = place.parent.parent
    signs = (above / "pyvenv.cfg", *above.glob("lib/python3*/os.py"))
    is_python = any(_file(sign, found) for sign in signs)
    return above if place.parent.name == "bin" and is_python else None


def _is_home(prefix: Path) -> bool:
    homes = (Path.home(), Path("/root"), Path("/home"), Path("/srv"))
    return any(home.is_relative_to(prefix) for home in homes) or prefix.parent == Path("/home")


def _pythons(prefix: Path, found: Installation) -> Iterator[Path]:
    """The base Python of an environment."""
    if not _file(prefix / "pyvenv.cfg", found):
        return
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home":
            yield from (one for name in ("python3", "python") if (one := Path(value.strip()) / name).exists())


def _interpreter(script: Path, search: str) -> Iterator[Path]:
    """The interpreter in a script's first line: a path, or a name that `env` looks up."""
    try:
        with script.open("rb") as file:
            head = file.read(_FIRST_LINE)
    except OSError:
        return
    if not head.startswith(b"#!"):
        return
    words = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        named = (word for word in words[1:] if not word.startswith("-") and "=" not in word)
        words = [found] if (found := shutil.which(next(named, ""), path=search)) else []
    if words and Path(words[0]).is_absolute() and Path(words[0]).exists():
        yield Path(words[0])
