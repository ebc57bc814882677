"""A filter of system calls for Podman, narrower than its own: no namespaces, mounts, keys, odd sockets.

Podman's own filter lets a container without any rights make a user namespace, in which it has all of them
again, and with them reaches parts of the kernel that are there for administrators; and it lets it speak to
the machine around a virtual one by sockets that know no namespace. So what Podman filters by is read,
narrowed, and handed to it with each container.
"""

from collections.abc import Mapping
from typing import Any, Final

from maitred.backends.cages.seccomp import FAMILIES, REFUSED

_REFUSED: Final = frozenset({
    *REFUSED, "unshare", "setns", "mount", "umount", "umount2", "pivot_root", "mount_setattr", "move_mount",
    "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "io_uring_enter", "io_uring_register",
})  # fmt: skip
_JUDGED: Final = frozenset({"clone", "clone3", "socket"})
_NAMESPACES: Final = 0x7E02_0000
"""The flags of `clone` that make namespaces: mount, control group, name, IPC, user, process, network."""
_OTHER_WAY_ROUND: Final = ("s390", "s390x")
"""Architectures on which the flags of `clone` are the second argument."""
_EPERM: Final = 1
_ENOSYS: Final = 38


def narrowed(profile: Mapping[str, Any]) -> dict[str, Any]:
    """A profile, as engines read it, with fewer calls, and with those of the machine's own processor only.

    `clone` is left for threads and processes, `clone3`, whose arguments cannot be looked at, is not there at
    all: then C libraries use `clone`.

    Raises:
        KeyError, TypeError: It is no profile.
    """
    ours = _REFUSED | _JUDGED
    kept = [
        {**rule, "names": [one for one in rule["names"] if one not in ours]} for rule in profile["syscalls"]
    ]
    own = [{**one, "subArchitectures": []} for one in profile["archMap"]]
    flags = {"value": _NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    clone = {"names": ["clone"], "action": "SCMP_ACT_ALLOW"}
    return {
        **profile,
        "archMap": own,
        "syscalls": [
            *(rule for rule in kept if rule["names"]),
            {"names": sorted(_REFUSED), "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM},
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
            clone | {"args": [{"index": 0} | flags], "excludes": {"arches": _OTHER_WAY_ROUND}},
            clone | {"args": [{"index": 1} | flags], "includes": {"arches": _OTHER_WAY_ROUND}},
            *map(_sockets, FAMILIES),
        ],
    }


def _sockets(family: int) -> Mapping[str, Any]:
    only = {"index": 0, "value": family, "op": "SCMP_CMP_EQ"}
    return {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [only]}
