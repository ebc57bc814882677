"""`maitred edit`: the configuration in the user's editor, on a copy that replaces the file if it is right."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer
from rich.text import Text

from maitred.config.document import JSON_SUFFIXES
from maitred.config.file_rewrite import folder_lock, replace_content
from maitred.config.load import parse
from maitred.config.paths import make_folder
from maitred.errors import ConfigError
from maitred.surfaces.cli.console import ConfigOption, config_path, err, fail, may_configure, out
from maitred.wording import count_of

_EMPTY: Final = b"servers: {}\n"
_EMPTY_JSON: Final = b'{\n  "servers": {}\n}\n'
_EDITORS: Final = ("VISUAL", "EDITOR")
_DEFAULT: Final = "notepad" if sys.platform == "win32" else "vi"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(edit)


def edit(config: ConfigOption = None) -> None:
    """Edit the configuration with $VISUAL or $EDITOR, and check it before it is used.

    A file with a fault is not used: you edit again, or the changes are left beside it.
    """
    may_configure(config)
    path, editor = config_path(config), _editor()
    target = path.resolve()
    before = _content(target)
    empty = _EMPTY_JSON if path.suffix in JSON_SUFFIXES else _EMPTY
    begun = empty if before is None else before
    copy = _copied(target, begun)
    try:
        after = _edited(copy, path, editor)
        if after == begun:
            copy.unlink()
            out.note("Nothing was changed.")
            return
        with folder_lock(target.parent):
            is_written = replace_content(target, before, after)
    except OSError as error:
        raise ConfigError(
            str(path), [f"the file cannot be changed: {error.strerror}; {_kept(copy)}"]
        ) from None
    if not is_written:
        raise ConfigError(str(path), [f"another program changed the file meanwhile; {_kept(copy)}"])
    copy.unlink()
    settings = parse(path, after.decode("utf-8"))
    out.note(Text(f"Wrote {path}: fine, {count_of(len(settings.servers), 'server')}."))
    out.note("A running gateway takes it over at once.")


def _content(target: Path) -> bytes | None:
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(str(target), [f"the file cannot be read: {error.strerror}"]) from None


def _copied(target: Path, content: bytes) -> Path:
    """A copy beside the file, for the owner alone, with the same ending, by which editors know the syntax."""
    try:
        make_folder(target.parent)
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f"{target.stem[:40]}.edit.", suffix=target.suffix
        )
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(str(target), [f"no copy can be made beside it: {error.strerror}"]) from None
    return Path(name)


def _edited(copy: Path, path: Path, editor: Sequence[str]) -> bytes:
    """What the user wrote, once it is right; ends the command if the user gives up.

    Raises:
        ConfigError: The editor cannot be run, or left nothing.
    """
    before = copy.read_bytes()
    while True:
        _run_editor(copy, before, editor)
        content = _left(copy)
        try:
            parse(path, content.decode("utf-8"))
        except UnicodeDecodeError:
            fault = ConfigError(str(path), ["the text is not UTF-8"])
        except ConfigError as error:
            fault = error
        else:
            return content
        fail(fault)
        asks = sys.stdin.isatty()
        if not asks or not typer.confirm("Edit it again?", default=True, err=True):
            err.print(Text(f"The file is unchanged; {_kept(copy)}."))
            raise typer.Exit(1 if asks else 2)


def _editor() -> Sequence[str]:
    """The words of the user's editor.

    Raises:
        ConfigError: They are no command.
    """
    name = next((one for one in _EDITORS if os.environ.get(one, "").strip()), "")
    try:
        return shlex.split(os.environ[name]) if name else [_DEFAULT]
    except ValueError:
        raise ConfigError("edit", [f"{name} is no command: a quote or an escape is not closed"]) from None


def _left(copy: Path) -> bytes:
    """What the editor left.

    Raises:
        ConfigError: The copy is gone, or cannot be read.
    """
    try:
        return copy.read_bytes()
    except FileNotFoundError:
        fault = "the editor removed the copy that it was to change; the file is unchanged"
        raise ConfigError("edit", [fault]) from None


def _run_editor(copy: Path, before: bytes, words: Sequence[str]) -> None:
    try:
        code = subprocess.run([*words, str(copy)], check=False).returncode  # the user's own editor
    except OSError as error:
        copy.unlink()
        fault = f"the editor {words[0]!r} cannot be run: {error.strerror}; set VISUAL or EDITOR"
        raise ConfigError("edit", [fault]) from None
    if not code:
        return
    kept = f"; {_kept(copy)}"
    if _left(copy) == before:  # as after `:cq` in vi
        copy.unlink()
        kept = ", and nothing was changed"
    raise ConfigError("edit", [f"the editor ended with code {code}; the file is unchanged{kept}"])


def _kept(copy: Path) -> str:
    return f"your changes are in {copy}"
