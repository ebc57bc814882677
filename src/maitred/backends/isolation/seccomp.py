"""Filters of system calls (seccomp): one for jailed programs, and a narrower profile for Podman.

Namespaces and dropped privileges leave gaps: the kernel's keys are inherited, and some sockets ignore
namespaces, such as those from a virtual machine to its host. The filter also refuses all calls of programs
for another processor, since their numbers differ. It refuses set-user-ID bits, since a program's files
belong, outside, to the gateway's user. Podman's own profile lets a container make a user namespace with all
privileges, and reach the host of a virtual machine. So the gateway narrows that profile for each container.
"""

import errno
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LOAD: Final = 0x20
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_NUMBER, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16
_X32: Final = 0x40000000
REFUSED: Final = (
    *("add_key", "request_key", "keyctl", "syslog", "bpf", "perf_event_open", "userfaultfd"),
    *("io_uring_setup", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"),
)
"""The refused system calls."""
FAMILIES: Final = (1, 2, 10, 16)
"""Allowed families of sockets: Unix, IPv4, IPv6, and netlink, which lists network interfaces."""


_Step = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class _Machine:
    """The system call numbers of a kind of processor: its audit number, `socket`, and those of `REFUSED`.

    `modes` are calls that set a file's mode, with the position of the mode among their arguments.
    `making` are calls that do so only if their flags create a file, with the positions of flags and mode.
    """

    audit: int
    socket: int
    refused: tuple[int, ...]
    modes: tuple[tuple[int, int], ...]
    making: tuple[tuple[int, int, int], ...]


_MACHINES: Final = {
    "x86_64": _Machine(
        audit=0xC000003E,
        socket=41,
        refused=(248, 249, 250, 103, 321, 298, 323, 425, 101, 310, 311, 438),
        modes=((90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (133, 1), (259, 2)),
        making=((2, 1, 2), (257, 2, 3)),
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        socket=198,
        refused=(217, 218, 219, 116, 280, 241, 282, 425, 117, 270, 271, 438),
        modes=((52, 1), (53, 2), (452, 2), (33, 2)),
        making=((56, 2, 3),),
    ),
}
"""`modes`: chmod, fchmod, fchmodat, fchmodat2, creat, mknod, mknodat; `making`: open, openat."""
_OPENAT2: Final = 437
"""No filter can read its mode argument; programs that get `ENOSYS` use `openat` instead."""
_SET_ID: Final = 0o6000
_MAKES: Final = 0o20000100  # O_CREAT, or the bit that only O_TMPFILE has


def make_filter(machine: str = "") -> bytes:
    """The filter for a kind of processor, by default this one; empty if its numbers are not known."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return b""
    steps = [(_LOAD, 0, 0, _PROCESSOR), (_IF_EQUAL, 1, 0, known.audit), _refuse(errno.ENOSYS)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_IF_AT_LEAST, 0, 1, _X32), _refuse(errno.ENOSYS)]
    for number in known.refused:
        steps += [(_IF_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    steps += [(_IF_EQUAL, 0, 1, _OPENAT2), _refuse(errno.ENOSYS)]
    for number, mode in known.modes:
        steps += _for(number, [*_without_set_id(mode)])
    for number, flags, mode in known.making:
        allowed = (_RETURN, 0, 0, _ALLOW)
        looked = [(_LOAD, 0, 0, _argument(flags)), (_IF_ANY_BIT, 1, 0, _MAKES), allowed]
        steps += _for(number, [*looked, *_without_set_id(mode)])
    families = len(FAMILIES)
    steps += [(_IF_EQUAL, 0, families + 2, known.socket), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    steps += [(_IF_EQUAL, families - at, 0, family) for at, family in enumerate(FAMILIES)]
    steps += [_refuse(errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    return _packed(steps)


def _for(number: int, steps: Sequence[_Step]) -> Sequence[_Step]:
    """Steps for one system call, which end with a verdict; other calls skip them."""
    return [(_IF_EQUAL, 0, len(steps), number), *steps]


def _without_set_id(mode: int) -> Iterator[_Step]:
    yield (_LOAD, 0, 0, _argument(mode))
    yield (_IF_ANY_BIT, 1, 0, _SET_ID)
    yield (_RETURN, 0, 0, _ALLOW)
    yield _refuse(errno.EPERM)


def _argument(place: int) -> int:
    """The offset of the lower half of an argument; both kinds of processor have it first."""
    return _FIRST_ARGUMENT + 8 * place


def _refuse(error: int) -> _Step:
    return (_RETURN, 0, 0, _ERRNO | error)


def _packed(steps: Sequence[_Step]) -> bytes:
    """Encode the steps: an operation, how many steps to skip if true and if false, and a value."""
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


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


def narrow_profile(profile: Mapping[str, Any]) -> dict[str, Any]:
    """A seccomp profile of an engine with fewer calls, for the machine's own processor only.

    `clone` stays for threads and processes. `clone3` is refused as unknown, since a filter cannot read
    its arguments: then C libraries use `clone`.

    Raises:
        KeyError, TypeError: The argument is not a profile.
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
