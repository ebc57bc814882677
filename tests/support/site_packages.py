"""The packages of the tests' environment without maitred, for environments that install none."""

import sysconfig
from pathlib import Path


def link_packages(folder: Path) -> Path:
    """Fill a folder with links to all packages but maitred; `PYTHONPATH` or a `.pth` file may name it."""
    folder.chmod(0o755)  # another user reads it in a container
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "maitred" not in path.name and path.suffix != ".pth" and path.name != "__pycache__":
            (folder / path.name).symlink_to(path)
    return folder
