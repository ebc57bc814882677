"""What a program needs to see of the place that it is installed in, besides the system itself.

Of a Python environment that is the environment and the Python that it was made with; of a package of Node the
folder `node_modules` that it lies in; of what lies under /opt, its folder there; of anything else, the file
alone. What runs a script belongs to it, as its first line says. Links stay links, since programs ask where
they lie; all that they lead over is seen as well. A whole home is never seen.

It reads names and first lines, runs nothing, and guesses nothing: a program that needs more is granted it.
What the program may change is not asked: it could say that it needs whatever else is installed here.
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
    """What a program needs: real files and folders, links as they stand, and folders to look for programs.

    `writable` are the real paths of what it may change.
    """

    writable: Collection[Path] = ()
    parts: list[Path] = field(default_factory=list)
    links: dict[Path, str] = field(default_factory=dict)
    path: list[Path] = field(default_factory=list)

    def has(self, path: Path) -> bool:
        """Whether it is seen already."""
        return any(path.is_relative_to(place) for place in (*map(Path, SYSTEM), *self.parts))

    def trusts(self, path: Path) -> bool:
        """Whether what is at a path, which has no link above it, cannot be changed by the program."""
        return not any(path.is_relative_to(place) for place in self.writable)


def installed(program: Path, search: str, writable: Collection[Path] = ()) -> Installation:
    """What a program needs, by its absolute path; on the path `search` is looked for what runs it.

    What lies in `writable`, which it may change, leads nowhere and needs nothing.
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
    """Where a path is, and where it leads to if it is a link, and so on; links on the way are noted.

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
    """The same path without links among its folders, or the first that the program may change."""
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
    """Note what is needed where a program or a link lies; yields programs that it needs in turn."""
    if found.has(place):
        return
    prefix = _prefix(place, found)
    if prefix is not None:
        found.parts += [prefix / part for part in _OF_PYTHON] if _is_home(prefix) else [prefix]
        yield from _pythons(prefix, found)
    elif not place.is_symlink():
        found.parts.append(place)


def _file(path: Path, found: Installation) -> bool:
    """Whether there is a file, and the program neither put it there nor may change it."""
    *_, end = (None, *_way(path, Installation(writable=found.writable)))
    return end is not None and not end.is_symlink() and end.is_file()


def _prefix(place: Path, found: Installation) -> Path | None:
    """The folder that a program is installed in together with what it needs."""
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
    """The Python that an environment was made with."""
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
    """What runs a script, as its first line says: a path, or a name that `env` looks for."""
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
