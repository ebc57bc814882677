"""What a container of a registered server is made with: its limits, its user, its environment, its folders.

Only what was approved reaches it. Of the machine's files it sees those that its manifest was granted, and
what is granted is looked at once more when it is started: a link is refused, since it may lead elsewhere by
now, and so is whatever holds the socket of an engine, by which the whole machine is controlled. Links within
a granted folder lead nowhere outside: the container follows them among its own files.
"""

import os
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from maitred.backends.base import ConnectError, Resolve
from maitred.backends.isolation.engine_api import ContainerSpec, EngineInfo, ImageInfo
from maitred.backends.isolation.mounts import why_raced, why_refused
from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.redaction import SECRETS
from maitred.model.servers import Cage, Mount, ServerSpec

_NOBODY: Final = "65534:65534"
_NUMBER: Final = re.compile(r"0*[1-9][0-9]*")
_CORE: Final = 1_000_000_000
_HOME: Final = "/tmp"  # noqa: S108  # of the guest
_WRITABLE: Final = (_HOME, "/var/tmp")  # noqa: S108  # of the guest
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def wanted(
    spec: ServerSpec,
    image: ImageInfo,
    engine: EngineInfo,
    *,
    labels: Mapping[str, str],
    resolve: Resolve,
    others: Collection[ServerSpec] = (),
) -> ContainerSpec:
    """The container of a server. Looks at the granted folders, and so may take a moment.

    `others` are those that run besides it. In a folder where one of them may write, it could put a link for
    what was granted here, after that was looked at and before the engine does.

    Raises:
        ConnectError: A reference stands for nothing, or a granted folder is not what was granted.
    """
    cage = spec.cage or Cage()
    try:
        args = [resolve(one) for one in spec.args]
        env = {key: resolve(value) for key, value in spec.env.items()}
    except UnresolvedReferenceError as error:
        raise ConnectError(f"its configuration refers to something missing: {error}") from error
    SECRETS.learn_launch(args, env)
    home = {} if "HOME" in image.env else {"HOME": _HOME}
    return ContainerSpec(
        image=image.identity,
        args=args,
        env=home | env,
        user=_user(image.user),
        labels=labels,
        memory=cage.memory,
        nano_cpus=_cores(cage, engine),
        cpu_shares=cage.cpu_shares,
        pids=cage.pids,
        disk=cage.disk,
        in_memory=_in_memory(image, cage),
        network=cage.network,
        mounts=_checked(spec.name, cage.mounts, engine, others),
    )


def _cores(cage: Cage, engine: EngineInfo) -> int:
    """No more than this machine has, which Docker would refuse."""
    return min(cage.nano_cpus, (os.cpu_count() or 1) * _CORE) if engine.socket else cage.nano_cpus


def _user(chosen: str) -> str:
    """The user of the image by its number, unless that is root's.

    What a name stands for is written in the image, and may be root as well.
    """
    return chosen if _NUMBER.fullmatch(chosen.partition(":")[0]) else _NOBODY


def _in_memory(image: ImageInfo, cage: Cage) -> Sequence[str]:
    """Where it may write: for volumes of the image an engine takes the machine's disk, without limit."""
    volumes = (posixpath.normpath(posixpath.join("/", one)) for one in image.volumes)
    granted = {one.at for one in cage.mounts}
    return [at for at in dict.fromkeys((*_WRITABLE, *volumes)) if at not in granted]


def _checked(
    server: str, mounts: Sequence[Mount], engine: EngineInfo, others: Collection[ServerSpec]
) -> Sequence[Mount]:
    if mounts and not engine.socket:
        raise ConnectError(
            f"it was granted folders of this machine, and the engine at {engine.address} may be on another"
        )
    for mount in mounts:
        if why := why_refused(mount.path, [engine.socket]) or why_raced(server, mount.path, others):
            raise ConnectError(f"{mount.path}, which it was granted, {why}")
        below = None if mount.writable else _mounted_below(Path(mount.path))
        if below is not None:
            raise ConnectError(
                f"{mount.path}, which it was granted to read, has another file system at {below}, and"
                " an engine would let it write there: grant a folder that has none"
            )
    return mounts


def _mounted_below(folder: Path) -> Path | None:
    """A place below a folder where something else is mounted, by the kernel's list of them."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:  # only Linux has it
        return None
    places = (Path(_ESCAPED.sub(_character, line.split(" ")[4])) for line in lines)
    return next((at for at in places if folder in at.parents), None)


def _character(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 8))
