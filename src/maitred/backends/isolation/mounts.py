"""Whether a granted folder or file of this machine is still what was granted, and may be.

The gateway checks it when the server starts. It refuses a link, which may lead elsewhere by now. It also
refuses a folder that holds the socket of a container engine, since that socket controls the whole
machine.
"""

import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from maitred.backends.isolation.engine_api import is_socket, socket_of, usual_sockets
from maitred.model.servers import ServerSpec


def why_refused(path: str, sockets: Iterable[str] = ()) -> str:
    """Why no server may have a path, as the end of a sentence; empty if there is no reason.

    `sockets` are those of engines, besides the one in `DOCKER_HOST` and the usual ones. The engine need
    not run at present: its socket may appear later.
    """
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        return f"cannot be used: {error.strerror or error}"
    if real != os.path.normpath(path):
        return f"is a link, or below one, and leads to {real}: grant that itself"
    if is_socket(real):
        return "is a socket, which gives control over another program"
    runtime = os.environ.get("XDG_RUNTIME_DIR") or (
        f"/run/user/{os.getuid()}" if sys.platform != "win32" else ""
    )
    usual = (*usual_sockets(runtime, Path.home()), socket_of(os.environ.get("DOCKER_HOST", "")))
    held = [os.path.realpath(one) for one in (*usual, *sockets) if one]
    if any(Path(one).is_relative_to(real) for one in held):
        return "holds the socket of a container engine, which controls this machine"
    return ""


def why_raced(server: str, path: str, others: Collection[ServerSpec]) -> str:
    """Why a path is not safe from other servers, as the end of a sentence; empty if it is.

    Another server that may write to a folder above the path could replace the path with a link. It would
    do so between the gateway's check and the mount.
    """
    for other in others:
        mounts = other.cage.mounts if other.cage and other.name != server else ()
        for one in mounts:
            if one.writable and Path(one.path) in Path(path).parents:
                return (
                    f"lies in {one.path}, where {other.name} may write and so could make it lead elsewhere:"
                    f" grant {one.path} itself, or a folder outside of it"
                )
    return ""
