"""What the tests of the jail share: backends in it, as those of a gateway are, of the probe server."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from tests.support import probe_server
from tests.support.jails import require_jail

from maitred.backends.isolation.jail import JailMeans, ProgramJail
from maitred.backends.process import Warden
from maitred.backends.stdio import StdioBackend
from maitred.config.interpolate import resolver
from maitred.config.settings import Limits
from maitred.model.servers import Cage, Mount, ServerSpec

PROBE = str(Path(probe_server.__file__))
CAGE = Cage(memory=96 * 2**20, pids=24, disk=8 * 2**20)
SOON_S = 120.0


class Found(ProgramJail):
    """A jail whose means are known, whatever the machine has."""

    def __init__(self, means: JailMeans, **fields: Any) -> None:
        super().__init__(**fields)
        self._found = means

    async def means(self) -> JailMeans:
        return self._found


class JailRig:
    """Makes backends that share a jail and a warden."""

    def __init__(self, means: JailMeans | None = None) -> None:
        self.warden = Warden("c0ffee00")
        marks: Mapping[str, Any] = {"mark": self.warden.mark, "marks": self.warden.environment}
        self.jail = Found(means, **marks) if means else ProgramJail(**marks)

    def backend(self, *mounts: Mount, cage: Mapping[str, Any] | None = None, **fields: Any) -> StdioBackend:
        """The backend of the probe server, unless `fields` say otherwise."""
        mounts = (Mount(path=PROBE, at=PROBE), *mounts)
        probe: dict[str, Any] = {"name": "probe", "command": sys.executable, "args": ("-IS", PROBE)}
        probe |= {"cage": replace(CAGE, mounts=mounts, **(cage or {})), "era": "handshake"}
        spec = ServerSpec(**{**probe, "registered": True, **fields})
        resolve = resolver(os.environ)
        return StdioBackend(spec, resolve=resolve, limits=Limits(), warden=self.warden, jail=self.jail)


@contextmanager
def jail_rig(means: JailMeans | None = None) -> Iterator[JailRig]:
    """The test is skipped where there is no jail."""
    require_jail()
    rig = JailRig(means)
    try:
        yield rig
    finally:
        rig.warden.close()


def inside(backend: StdioBackend) -> psutil.Process:
    """The process of the program, as it is seen from outside: the last of the line that begins with ours."""
    process = psutil.Process(backend.pid)
    while children := process.children():
        (process,) = children
    return process
