"""Say how to install the packages of an extra: by their own names, as the installed metadata has them.

The name of this program stands on no package index. A hint that told to install it from there would fail,
or run the code of whoever takes the name.
"""

import re
import shlex
import sys
from importlib.metadata import requires
from importlib.util import find_spec

_REQUIREMENT = re.compile(r"""(?P<package>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def install_command(extra: str) -> str:
    """A shell command that installs an extra's packages beside the interpreter that runs now.

    Raises:
        ValueError: There is no such extra.
    """
    found = [_REQUIREMENT.fullmatch(line) for line in requires("maitred") or ()]
    packages = [one["package"] for one in found if one and one["extra"] == extra]
    if not packages:
        raise ValueError(f"there is no extra {extra!r}")
    pip = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # environments that uv makes are without pip
        pip = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*pip, *packages])
