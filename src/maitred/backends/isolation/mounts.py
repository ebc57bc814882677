"""Whether a folder or file of this machine, that a server was granted, is what was granted, and may be.

It is looked at when the server is started: a link is refused, since it may lead elsewhere by now, and so is
whatever holds the socket of a container engine, by which the whole machine is controlled.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from maitred.backends.isolation.engine_api import is_socket, socket_of, usual_sockets
from maitred.model.servers import ServerSpec


def why_refused(path: str, sockets: Iterable[str] = ()) -> str:
    """Why nobody is let to a path, in words that go on from it; empty if there is no reason.

    `sockets` are those of engines, besides the one of `DOCKER_HOST` and the ones that are in their usual
    places. Whether an engine runs at present does not matter: it would be found there later.
    """
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        return f"cannot be used: {error.strerror or error}"
    if real != os.path.normpath(path):
        return f"is a link, or below one, and leads to {real}: grant that itself"
    if is_socket(real):
        return "is a socket, by which something else is controlled"
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    usual = (*usual_sockets(runtime, Path.home()), socket_of(os.environ.get("DOCKER_HOST", "")))
    held = [os.path.realpath(one) for one in (*usual, *sockets) if one]
    if any(Path(one).is_relative_to(real) for one in held):
        return "holds the socket of a container engine, which controls this machine"
    return ""


def why_raced(server: str, path: str, others: Collection[ServerSpec]) -> str:
    """Why a path is not safe from other servers, in words that go on from it; empty if it is.

    In a folder where one may write, it could put a link for the path, after that was looked at and before it
    is mounted.
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
