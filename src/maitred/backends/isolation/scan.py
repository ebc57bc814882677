"""Known faults in an image, found by Trivy if it is installed.

Trivy gets the image as an archive, by its identity. So it scans exactly what will run, whichever engine
has it and wherever that is.
Trivy reads files of strangers, and runs in no jail. So the gateway gives it no secrets, bounds its
output, and ends it when the gateway ends.
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
"""Prefixes of the variables that Trivy gets, in capitals; it needs them to fetch its list of faults."""


class Trivy:
    """Starts Trivy once for each image.

    `marks` is the environment that identifies processes of the gateway. Trivy's output may have at most
    `longest_bytes` bytes.
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
            ConnectError: Trivy is not installed, or fails.
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
            raise ConnectError(
                f"the gateway cannot read what Trivy reports of its image: {error!r}"
            ) from error

    def close(self) -> None:
        """End the processes that run, and start no more."""
        with self._lock:
            self._closed = True
            for one in self._running:
                _kill(one)

    def _ask(self, command: Sequence[str]) -> bytes:
        own = {key: value for key, value in os.environ.items() if key.upper().startswith(_SETTINGS)}
        with self._lock:
            if self._closed:
                raise ConnectError("Trivy does not scan its image any more, since the gateway ends")
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
                raise ConnectError(f"Trivy cannot scan its image: {error}") from error
            self._running.add(running)
        with running:
            try:
                told, said = _heard(running, self._longest_bytes)
            finally:
                with self._lock:  # also ends its child processes
                    _kill(running)
                    self._running.discard(running)
        if running.returncode != 0:
            words = " ".join(said.decode("utf-8", "replace").split())[-_MOST_SAID:]
            raise ConnectError(
                f"Trivy cannot scan its image: {words or f'it exits with {running.returncode}'}"
            )
        return told


def _heard(running: subprocess.Popen[bytes], longest_bytes: int) -> tuple[bytes, bytes]:
    """The standard output of a program until it ends, and the last part of its standard error.

    Raises:
        ConnectError: The output is too long, or it takes too long.
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
                raise ConnectError(f"Trivy reports more than {longest_bytes} bytes about its image")
            if time.monotonic() > until:
                raise ConnectError(f"Trivy took more than {_LONGEST_S:g} s to scan its image")
    with suppress(subprocess.TimeoutExpired):  # its output is complete, and the caller ends it
        running.wait(max(0.0, until - time.monotonic()))
    return bytes(told), bytes(said)


def _kill(running: subprocess.Popen[bytes]) -> None:
    """End a program that runs, with its child processes."""
    if running.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


def _read(report: Mapping[str, Any]) -> Sequence[str]:
    """The faults of a report, one line each; the same fault in several places counts once."""
    found = [one for result in report.get("Results") or () for one in result.get("Vulnerabilities") or ()]
    grave = [one for one in found if one["Severity"] in _SEVERITIES]
    grave.sort(key=lambda one: (_SEVERITIES.index(one["Severity"]), one["VulnerabilityID"]))
    return list(dict.fromkeys(map(_line, grave)))


def _line(fault: Mapping[str, Any]) -> str:
    fixed = f", mended in {fault['FixedVersion']}" if fault.get("FixedVersion") else ""
    name, version = fault["PkgName"], fault.get("InstalledVersion", "")
    return f"{fault['VulnerabilityID']} in {name} {version} ({fault['Severity'].lower()}{fixed})"
