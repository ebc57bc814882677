"""The file in which the server of an app finds where its pages dial in, and the dial-in token of this run.

It is beside the catalog, for its owner alone, and gone with the gateway.
"""

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from maitred.config.paths import make_folder


def dial_in_file(catalog: Path, server: str) -> Path:
    """The file of one server of the transport `pages`."""
    return catalog.with_name(f"{catalog.stem}.{quote(server, safe='')}.dial-in.json")


def write_address(file: Path, *, url: str, token: str) -> None:
    """Write the file, whole or not at all; it takes the place of one that a killed gateway left.

    Raises:
        OSError: It cannot be written.
    """
    make_folder(file.parent)
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
            json.dump({"url": url, "token": token}, written)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def read_address(file: Path) -> tuple[str, str]:
    """The URL and the token; both are empty if no gateway listens."""
    try:
        address = json.loads(file.read_text(encoding="utf-8"))
        return str(address["url"]), str(address["token"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""


def remove_address(file: Path, *, token: str) -> None:
    """Remove the file, unless another gateway has written it since."""
    if read_address(file)[1] == token:
        with suppress(OSError):
            file.unlink()
