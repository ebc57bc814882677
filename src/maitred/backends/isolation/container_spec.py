"""The specification of a server's container: its limits, user, environment and folders.

Only what the operator approved reaches the container. It sees those files of the machine that its
manifest was granted, and the gateway checks them again at each start. It refuses a link, which may lead
elsewhere by now.
It also refuses a folder with the socket of an engine, since that socket controls the whole machine. Links
within a granted folder are safe: the container follows them among its own files.
"""

import os
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from maitred.backends.base import ConnectError, Resolve
from maitred.backends.connection_faults import reference_error
from maitred.backends.isolation.engine_api import ContainerSpec, EngineInfo, ImageInfo
from maitred.backends.isolation.mounts import why_raced, why_refused
from maitred.config.interpolate import UnresolvedReferenceError, resolve_named
from maitred.config.redaction import SECRETS
from maitred.model.servers import Cage, Mount, ServerSpec

_NOBODY: Final = "65534:65534"
_NUMBER: Final = re.compile(r"0*[1-9][0-9]*")
_CORE: Final = 1_000_000_000
_HOME: Final = "/tmp"  # noqa: S108  # of the guest
_WRITABLE: Final = (_HOME, "/var/tmp")  # noqa: S108  # of the guest
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def container_spec(
    spec: ServerSpec,
    image: ImageInfo,
    engine: EngineInfo,
    *,
    labels: Mapping[str, str],
    resolve: Resolve,
    others: Collection[ServerSpec] = (),
) -> ContainerSpec:
    """The container of a server. Reads the granted folders, so it may block for a moment.

    `others` are the other servers that run. If one of them may write to a folder above a granted path, it
    could replace that path with a link. It would do so between the gateway's check and the engine's
    mount.

    Raises:
        ConnectError: A reference has no value, or a granted folder is not what was granted.
    """
    cage = spec.cage or Cage()
    try:
        args = [resolve(one) for one in spec.args]
        env = resolve_named(spec.env, "env", resolve)
    except UnresolvedReferenceError as error:
        raise reference_error(error) from error
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
        mounts=_check_mounts(spec.name, cage.mounts, engine, others),
    )


def _cores(cage: Cage, engine: EngineInfo) -> int:
    """At most the cores that this machine has; Docker refuses more."""
    return min(cage.nano_cpus, (os.cpu_count() or 1) * _CORE) if engine.socket else cage.nano_cpus


def _user(chosen: str) -> str:
    """The user of the image if it is a number other than root's, else `nobody`.

    The image itself defines its user names, so any name may mean root.
    """
    return chosen if _NUMBER.fullmatch(chosen.partition(":")[0]) else _NOBODY


def _in_memory(image: ImageInfo, cage: Cage) -> Sequence[str]:
    """Where the container may write. An engine would put volumes of the image on the disk without a limit."""
    volumes = (posixpath.normpath(posixpath.join("/", one)) for one in image.volumes)
    granted = {one.at for one in cage.mounts}
    return [at for at in dict.fromkeys((*_WRITABLE, *volumes)) if at not in granted]


def _check_mounts(
    server: str, mounts: Sequence[Mount], engine: EngineInfo, others: Collection[ServerSpec]
) -> Sequence[Mount]:
    if mounts and not engine.socket:
        raise ConnectError(
            f"it was granted folders of this machine, and the engine at {engine.address} may be on another"
        )
    for mount in mounts:
        if why := why_refused(mount.path, [engine.socket]) or why_raced(server, mount.path, others):
            raise ConnectError(f"{mount.path}, which it was granted, {why}", fault="mount_unusable")
        below = None if mount.writable else _mounted_below(Path(mount.path))
        if below is not None:
            raise ConnectError(
                f"{mount.path}, which it was granted to read, has another file system at {below}, and"
                " an engine would let it write there: grant a folder that has none"
            )
    return mounts


def _mounted_below(folder: Path) -> Path | None:
    """A path below a folder where another file system is mounted, from the kernel's list of mounts."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:  # only Linux has it
        return None
    places = (Path(_ESCAPED.sub(_character, line.split(" ")[4])) for line in lines)
    return next((at for at in places if folder in at.parents), None)


def _character(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 8))
