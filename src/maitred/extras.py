"""Say how to install the packages of an extra, by the names in the installed metadata.

A hint names the packages of the extra, and installs them in the way in which maitred was installed. In a
checkout, the metadata is as old as the last installation and may lack a newer extra; then the hint installs
the checkout again, with the extra.
"""

import re
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Final

from maitred.installation import find_installation

_REQUIREMENT = re.compile(r"""(?P<package>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]""")
_CHECKOUT: Final = Path(__file__).parents[2]


def install_command(extra: str) -> str:
    """A shell command that installs an extra's packages beside the running program.

    Raises:
        ValueError: No such extra exists.
    """
    packages = _installed_packages(extra) or _checkout_with(extra)
    if not packages:
        raise ValueError(f"there is no extra {extra!r}")
    return find_installation().add_command(extra, packages)


def _installed_packages(extra: str) -> Sequence[str]:
    """The packages of an extra by the installed metadata; empty if that does not know the extra."""
    try:
        lines = requires("maitred") or ()
    except PackageNotFoundError:  # the program runs from a checkout that was never installed
        return ()
    matches = [_REQUIREMENT.fullmatch(line) for line in lines]
    return [match["package"] for match in matches if match and match["extra"] == extra]


def _checkout_with(extra: str) -> Sequence[str]:
    """What installs the checkout of this program with an extra; empty if it has no such extra."""
    try:
        project = tomllib.loads((_CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):  # it was installed as a wheel
        return ()
    is_own = project.get("name") == "maitred" and extra in project.get("optional-dependencies", {})
    return ["-e", f"{_CHECKOUT}[{extra}]"] if is_own else ()
