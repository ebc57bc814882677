"""Where the pages of the documentation are: in the package, or in the checkout that the program runs from."""

from pathlib import Path

import maitred
from maitred.errors import ConfigError


def pages() -> dict[str, Path]:
    """The pages by their names: those of the package, or of the checkout that the program runs from.

    Raises:
        ConfigError: There are none.
    """
    package = Path(maitred.__file__).parent
    for folder, others in (
        (package / "docs", ()),
        (package.parents[1] / "docs", ("README.md", "CHANGELOG.md")),
    ):
        files = [*folder.glob("*.md"), *(folder.parent / name for name in others)]
        found = {path.stem.lower(): path for path in sorted(files) if path.is_file()}
        if found:
            return found
    raise ConfigError("docs", [f"no pages are installed below {package}; install maitred again"])
