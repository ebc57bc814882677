"""Podman for the tests: a service of its own, with storage of its own, and an image made of this machine.

`make test` installs podman and runc from the system's packages. Where they cannot run, the tests that need
them are skipped, and say why. Nothing here touches containers or images that are on the machine already.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support import image
from tests.support.registry import Registry

IMAGE = "localhost/maitred-test:1"
"""The image of the tests; see `tests/support/image.py`."""

PROXY = "http://operator:s3cret-of-the-proxy@proxy.invalid:3128"
"""What the service is told to fetch by; it does not, since the registry of the tests is on loopback."""

_KEPT = Path(__file__).resolve().parents[2] / ".servers"
_START_S = 120.0
_CONFIGURATION = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
log_driver = "k8s-file"
[network]
network_config_dir = "{folder}/networks"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{folder}/state"
"""
_REGISTRIES = """
[[registry]]
location = "{host}"
insecure = true
"""


class Podman:
    """One service, which may fetch from `registry`; its socket stays where it is when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "networks").mkdir()
        (folder / "tmp").mkdir()
        (folder / "containers.conf").write_text(_CONFIGURATION.format(folder=folder), encoding="utf-8")
        self.registry = Registry()
        text = _REGISTRIES.format(host=self.registry.host)
        (folder / "registries.conf").write_text(text, encoding="utf-8")
        policy = folder / ".config" / "containers" / "policy.json"
        policy.parent.mkdir(parents=True)
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}', encoding="utf-8")
        self.socket = str(folder / "podman.sock")
        self.address = f"unix://{self.socket}"

    def start(self) -> None:
        """Start the service, and wait until it answers."""
        said = self._folder / "service.log"
        with said.open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command, "system", "service", "--time=0", self.address],
                env=self._environment,
                cwd=self._folder,  # where the monitor of a container that needs too much memory leaves a file
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + _START_S
        while not Path(self.socket).exists():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise RuntimeError(said.read_text(encoding="utf-8", errors="replace")[-500:])
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the service; containers run on without it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        Path(self.socket).unlink(missing_ok=True)

    def pause(self, *, on: bool) -> None:
        """Have the service answer nothing any more, or again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def run(self, *arguments: str, check: bool = True) -> str:
        """Run `podman` on the same storage, and return what it printed."""
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"podman {' '.join(arguments)}: {done.stderr[-500:]}")
        return done.stdout.strip()

    def containers(self) -> Sequence[str]:
        """The names of all containers that are there, running or not."""
        return self.run("ps", "-a", "--format", "{{.Names}}").split()

    def inspect(self, name: str) -> dict[str, Any]:
        """All that is known of a container."""
        found: list[dict[str, Any]] = json.loads(self.run("inspect", name))
        return found[0]

    def close(self) -> None:
        """End the service, all of its containers, and remove its storage."""
        self.run("rm", "--all", "--force", "--time=0", check=False)
        self.kill()
        self.registry.close()
        subprocess.run(["umount", str(self._folder / "root" / "overlay")], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _command(self) -> list[str]:
        return ["podman", f"--root={self._folder}/root", f"--runroot={self._folder}/run"]

    @property
    def _environment(self) -> dict[str, str]:
        files = {
            "CONTAINERS_CONF": str(self._folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self._folder / "registries.conf"),
        }
        own = {"HOME": str(self._folder), "TMPDIR": str(self._folder / "tmp"), "http_proxy": PROXY}
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        return {**inherited, **files, **own}


@contextmanager
def podman_service() -> Iterator[Podman]:
    """A service with the image of the tests, for as long as the context is open; takes some seconds to make.

    Skips the test where Podman is not installed or cannot run.
    """
    if missing := [name for name in ("podman", "runc") if shutil.which(name, path=_PATH) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed: `make test` does that")
    podman = Podman(Path(tempfile.mkdtemp(prefix="mt-")))  # short: sockets' paths may not be long
    try:
        try:
            podman.start()
            _make_image(podman)
            podman.run("run", "--rm", "--network=none", "--entrypoint=/usr/bin/id", IMAGE)
        except RuntimeError as error:
            pytest.skip(f"Podman cannot run containers here: {error}")
        yield podman
    finally:
        podman.close()


_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _make_image(podman: Podman) -> None:
    with tempfile.TemporaryDirectory(prefix="mt-") as folder:
        podman.run("import", *image.CHANGES, str(image.archive(_KEPT, Path(folder))), IMAGE)
