"""Known faults in an image, as Trivy tells them, where that program is installed.

The image is handed over as an archive, by its identity: so what is looked at is what will run, whichever
engine has it and wherever that is. The program reads what a stranger made, and runs in no cage. So it sees
none of the gateway's secrets, what it says is bounded, and it ends with the gateway.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from maitred.backends.base import ConnectError
from maitred.backends.isolation.engine_api import Engine
from maitred.backends.process import environment

PROGRAM: Final = "trivy"
_LONGEST_S: Final = 900.0
_LONGEST_BYTES: Final = 64 * 2**20
_SEVERITIES: Final = ("CRITICAL", "HIGH")
_ARGUMENTS: Final = ("image", "--quiet", "--format", "json", "--scanners", "vuln", "--severity")
_MOST_SAID: Final = 300
_CHUNK: Final = 2**16
_SETTINGS: Final = ("TRIVY_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "XDG_CACHE_HOME")
"""What the names of its own settings begin with, in capitals: it fetches what is known of faults."""


class Trivy:
    """Starts the program once for each image.

    `marks` is the environment by which processes of the gateway are known from outside. It may not say more
    than `longest_bytes`.
    """

    def __init__(self, marks: Mapping[str, str], *, longest_bytes: int = _LONGEST_BYTES) -> None:
        self._marks = marks
        self._longest_bytes = longest_bytes
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def faults(self, engine: Engine, identity: str) -> Sequence[str]:
        """The faults of high or critical severity, the worst first.

        Raises:
            ConnectError: The program is not installed, or fails.
        """
        if (program := shutil.which(PROGRAM)) is None:
            raise ConnectError("Trivy is not installed, so known faults of its image cannot be found")
        with tempfile.TemporaryDirectory(prefix="maitred-scan-") as folder:
            archive = Path(folder, "image.tar")
            engine.export(identity, archive)
            told = self._ask([program, *_ARGUMENTS, ",".join(_SEVERITIES), "--input", str(archive)])
        try:
            return _read(json.loads(told))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConnectError(f"what Trivy says of its image cannot be read: {error!r}") from error

    def close(self) -> None:
        """End what runs, and start nothing more."""
        with self._lock:
            self._closed = True
            for one in self._running:
                _kill(one)

    def _ask(self, command: Sequence[str]) -> bytes:
        own = {key: value for key, value in os.environ.items() if key.upper().startswith(_SETTINGS)}
        with self._lock:
            if self._closed:
                raise ConnectError("its image is not looked at any more, since the gateway ends")
            try:
                running = subprocess.Popen(
                    command,
                    env=environment({**own, **self._marks}),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                raise ConnectError(f"Trivy cannot look at its image: {error}") from error
            self._running.add(running)
        with running:
            try:
                told, said = _heard(running, self._longest_bytes)
            finally:
                with self._lock:  # whatever it started ends as well
                    _kill(running)
                    self._running.discard(running)
        if running.returncode != 0:
            words = " ".join(said.decode("utf-8", "replace").split())[-_MOST_SAID:]
            raise ConnectError(
                f"Trivy cannot look at its image: {words or f'it exits with {running.returncode}'}"
            )
        return told


def _heard(running: subprocess.Popen[bytes], longest_bytes: int) -> tuple[bytes, bytes]:
    """All that a program says until it ends, and the last of its complaints.

    Raises:
        ConnectError: It says too much, or takes too long.
    """
    until = time.monotonic() + _LONGEST_S
    told, said = bytearray(), bytearray()
    with selectors.DefaultSelector() as pipes:
        for pipe, kept in ((running.stdout, told), (running.stderr, said)):
            if pipe is not None:
                pipes.register(pipe, selectors.EVENT_READ, kept)
        while pipes.get_map():
            for key, _ in pipes.select(max(0.0, until - time.monotonic())):
                if data := os.read(key.fd, _CHUNK):
                    key.data.extend(data)
                else:
                    pipes.unregister(key.fileobj)
            del said[:-_CHUNK]
            if len(told) > longest_bytes:
                raise ConnectError(f"Trivy says more than {longest_bytes} bytes of its image")
            if time.monotonic() > until:
                raise ConnectError(f"Trivy took more than {_LONGEST_S:g} s to look at its image")
    with suppress(subprocess.TimeoutExpired):  # it said all there is, and is ended
        running.wait(max(0.0, until - time.monotonic()))
    return bytes(told), bytes(said)


def _kill(running: subprocess.Popen[bytes]) -> None:
    """End a program that runs, and what it started."""
    if running.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


def _read(report: Mapping[str, Any]) -> Sequence[str]:
    """The faults of a report, each in a line; the same fault in several places counts once."""
    found = [one for result in report.get("Results") or () for one in result.get("Vulnerabilities") or ()]
    grave = [one for one in found if one["Severity"] in _SEVERITIES]
    grave.sort(key=lambda one: (_SEVERITIES.index(one["Severity"]), one["VulnerabilityID"]))
    return list(dict.fromkeys(map(_line, grave)))


def _line(fault: Mapping[str, Any]) -> str:
    fixed = f", mended in {fault['FixedVersion']}" if fault.get("FixedVersion") else ""
    name, version = fault["PkgName"], fault.get("InstalledVersion", "")
    return f"{fault['VulnerabilityID']} in {name} {version} ({fault['Severity'].lower()}{fixed})"
