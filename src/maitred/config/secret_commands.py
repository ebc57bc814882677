"""Secrets that a command prints, such as `op read op://vault/item`; the operator has to allow the command.

A command runs without a shell, with the environment of the gateway, under limits of time and size. It runs
once in a process: its output is kept in memory, and never written or logged.
"""

import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from maitred.config.redaction import SECRETS, redact

ANY: Final = "*"
"""The entry of `secrets.commands` that allows every program."""

TIMEOUT_S: Final = 30.0
MOST_BYTES: Final = 65_536
_MOST_SHOWN: Final = 200
_CHUNK: Final = 16_384
_TICK_S: Final = 0.1
"""How soon the end of a command is noticed whose streams another process keeps open."""


class SecretCommandError(Exception):
    """A command may not run, or failed; the text says why, and has nothing that it printed as a result."""


class SecretCommands:
    """Runs commands and keeps what they printed. One object is for the process; it may be used by threads."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._values: dict[str, str] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def read(self, text: str, allowed: Sequence[str], environ: Mapping[str, str]) -> str:
        """Return what a command prints, without its last newline; it runs at most once with success.

        `allowed` are programs as the operator wrote them; `*` is any.

        Raises:
            SecretCommandError: The operator does not allow the program, or the command failed.
        """
        words = _words(text)
        _check_allowed(words[0], allowed)
        with self._lock:
            lock = self._locks.setdefault(text, threading.Lock())
        with lock:
            if text not in self._values:
                self._values[text] = _run(words, environ, self._timeout_s)
            value = self._values[text]
        SECRETS.learn(value)
        return value


def _words(text: str) -> Sequence[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SecretCommandError(f"it cannot be read as a command: {error}") from None
    if not words:
        raise SecretCommandError("it names no command")
    return words


def _check_allowed(program: str, allowed: Sequence[str]) -> None:
    if not allowed:
        raise SecretCommandError(
            "commands are off, and variables of editors are not known; list the program"
            f" {program!r} in `secrets.commands` if it prints a secret"
        )
    if ANY not in allowed and program not in allowed:
        raise SecretCommandError(f"{program!r} is not in `secrets.commands`")


def _run(words: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> str:
    """Run a command to its end; what it writes to standard error is only for the reason of a failure."""
    if sys.platform == "win32":
        raise SecretCommandError("commands cannot be read from on Windows; use the keyring or a file")
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        raise SecretCommandError(f"there is no program {words[0]!r}; install it, or write its whole path")
    try:
        process = subprocess.Popen(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            start_new_session=True,  # so that all that it started can be ended, too
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its arguments cannot be passed on"
        raise SecretCommandError(f"{words[0]!r} cannot be started: {why}") from None
    with process:
        try:
            printed, complaint = _communicate(process, time.monotonic() + timeout_s)
        except TimeoutError:
            raise SecretCommandError(f"{words[0]!r} did not end within {timeout_s:g} seconds") from None
        finally:
            _end(process)
    return _value(words[0], process.returncode, printed, complaint)


def _communicate(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Read both streams up to the bound until the command ends.

    Raises:
        TimeoutError: It did not end in time.
    """
    texts = {"out": bytearray(), "err": bytearray()}
    has_ended = False
    with selectors.DefaultSelector() as selector:
        for name, stream in (("out", process.stdout), ("err", process.stderr)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, name)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            ready = selector.select(0 if has_ended else min(left, _TICK_S))
            if not ready and has_ended:  # something that it started keeps the streams open
                break
            if not ready:  # if it has ended, one more look: it may have written meanwhile
                has_ended = process.poll() is not None
            _read_ready(selector, ready, texts)
            if len(texts["out"]) > MOST_BYTES:
                return bytes(texts["out"]), bytes(texts["err"])
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return bytes(texts["out"]), bytes(texts["err"])


def _read_ready(
    selector: selectors.BaseSelector,
    ready: Sequence[tuple[selectors.SelectorKey, int]],
    texts: Mapping[str, bytearray],
) -> None:
    """Add what streams have to their texts, one byte over the bound at most; drop those that ended."""
    for key, _ in ready:
        stream: IO[bytes] = key.fileobj  # type: ignore[assignment]  # as registered
        chunk = os.read(stream.fileno(), _CHUNK)
        if not chunk:
            selector.unregister(key.fileobj)
        text = texts[key.data]
        text += chunk[: MOST_BYTES + 1 - len(text)]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command with all processes of its group, if it still runs."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)


def _value(program: str, code: int | None, printed: bytes, complaint: bytes) -> str:
    if len(printed) > MOST_BYTES:
        raise SecretCommandError(f"{program!r} printed more than {MOST_BYTES:,} bytes")
    if code != 0:
        SECRETS.learn(printed.decode("utf-8", "replace"))
        raise SecretCommandError(f"{program!r} ended with code {code}{_complaint_text(complaint)}")
    try:
        value = printed.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretCommandError(f"{program!r} printed what is not UTF-8 text") from None
    value = value.removesuffix("\n").removesuffix("\r")
    if not value.strip():
        raise SecretCommandError(f"{program!r} printed nothing{_complaint_text(complaint)}")
    if "\0" in value:
        raise SecretCommandError(f"{program!r} printed NUL, which no variable can hold")
    return value


def _complaint_text(complaint: bytes) -> str:
    """Return what a command wrote to standard error, on one line and without known secrets, for a reason."""
    text = " ".join(redact(complaint.decode("utf-8", "replace")).split())
    shown = "".join(one if one.isprintable() else "?" for one in text)
    return f": {shown[:_MOST_SHOWN]}{'…' if len(shown) > _MOST_SHOWN else ''}" if shown else ""


COMMANDS: Final = SecretCommands()
"""What the commands of this process printed."""
