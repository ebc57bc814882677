"""Change a file as a whole: it is never seen half written, and no change of another program is lost."""

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from maitred.config.paths import make_folder
from maitred.errors import ConfigError

if sys.platform != "win32":
    import fcntl

_LOCK_WAIT_S: Final = 10.0
_ATTEMPTS: Final = 20
_held = threading.local()
"""The folders that this thread keeps locked."""


def rewrite(path: Path, edit: Callable[[str], str], *, create: bool) -> tuple[bytes | None, bytes]:
    """Read, edit and write the file; if another program changed it meanwhile, start again from its text.

    Returns the content before (`None` for no file) and after.

    Raises:
        ConfigError: The file cannot be read or written. It is then unchanged.
    """
    try:
        target = path.resolve()
        if create:
            make_folder(target.parent)
        with folder_lock(target.parent):
            for _ in range(_ATTEMPTS):
                before = target.read_bytes() if target.exists() or not create else None
                text = (before or b"").decode("utf-8")
                mark = "\ufeff" if text.startswith("\ufeff") else ""
                after = (mark + edit(text.removeprefix(mark))).encode("utf-8")
                if replace_content(target, before, after):
                    return before, after
    except FileNotFoundError:
        raise ConfigError(str(path), ["the file does not exist"]) from None
    except UnicodeError as error:
        raise ConfigError(str(path), ["the text or an entry is not valid UTF-8"]) from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(str(path), [f"the file cannot be changed: {reason}"]) from error
    raise ConfigError(str(path), ["another program keeps changing the file; try again"])


def replace_content(target: Path, before: bytes | None, after: bytes) -> bool:
    """Replace the content at once; `False` if another program changed the file meanwhile."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.")
    new = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            state = target.stat()
            new.chmod(state.st_mode & 0o7777)
            if sys.platform != "win32" and (state.st_uid, state.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):
                    os.chown(new, state.st_uid, state.st_gid)
        if (target.read_bytes() if target.exists() else None) != before:
            return False
        new.replace(target)
        return True
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keep other maitred processes out of the folder; if it cannot be locked, the comparison must suffice.

    Within it, the same thread may lock the folder again.
    """
    held: set[Path] = vars(_held).setdefault("folders", set())
    if sys.platform == "win32" or folder in held:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        give_up = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise ConfigError(
                        str(folder), ["another maitred is changing files here; try again"]
                    ) from None
                time.sleep(0.02)
                continue
            except OSError:  # some network file systems cannot lock a folder
                pass
            break
        held.add(folder)
        yield
    finally:
        held.discard(folder)
        os.close(descriptor)
