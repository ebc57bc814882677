"""Say how to install the packages of an extra, by the names in the installed metadata.

No package index has a package named maitred. A hint to install `maitred[extra]` from there would fail, or run
the code of a stranger who registers that name.
"""

import re
import shlex
import sys
from importlib.metadata import requires
from importlib.util import find_spec

_REQUIREMENT = re.compile(r"""(?P<package>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def install_command(extra: str) -> str:
    """A shell command that installs an extra's packages for the running interpreter.

    Raises:
        ValueError: No such extra exists.
    """
    matches = [_REQUIREMENT.fullmatch(line) for line in requires("maitred") or ()]
    packages = [match["package"] for match in matches if match and match["extra"] == extra]
    if not packages:
        raise ValueError(f"there is no extra {extra!r}")
    pip = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # uv creates environments without pip
        pip = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*pip, *packages])
