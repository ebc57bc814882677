"""What a jailed program may not ask the kernel for, as the filter that bubblewrap hands to the kernel.

Namespaces and lost privileges keep out most; here is what they leave open. Keys that the gateway holds in the
kernel are inherited, and sockets of some families know no namespace, such as those to the machine around a
virtual one. The rest are parts of the kernel that servers do not need and attackers like. Programs for
another processor than the kernel's own are refused everything, since their calls have other numbers.
"""

import errno
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_LOAD: Final = 0x20
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_NUMBER, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16
_X32: Final = 0x40000000
REFUSED: Final = (
    *("add_key", "request_key", "keyctl", "syslog", "bpf", "perf_event_open", "userfaultfd"),
    "io_uring_setup",
)
"""The calls that are refused."""
FAMILIES: Final = (1, 2, 10, 16)
"""Of sockets: Unix, the Internet of version 4 and 6, and netlink, by which interfaces are listed."""


@dataclass(frozen=True, kw_only=True)
class _Machine:
    """The numbers of a kind of processor: its own, that of `socket`, and those of what is `REFUSED`."""

    audit: int
    socket: int
    refused: tuple[int, ...]


_MACHINES: Final = {
    "x86_64": _Machine(audit=0xC000003E, socket=41, refused=(248, 249, 250, 103, 321, 298, 323, 425)),
    "aarch64": _Machine(audit=0xC00000B7, socket=198, refused=(217, 218, 219, 116, 280, 241, 282, 425)),
}


def make_filter(machine: str = "") -> bytes:
    """The filter for a kind of processor, this one by default; empty for one whose numbers are not known."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return b""
    steps = [(_LOAD, 0, 0, _PROCESSOR), (_IF_EQUAL, 1, 0, known.audit), _refuse(errno.ENOSYS)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_IF_AT_LEAST, 0, 1, _X32), _refuse(errno.ENOSYS)]
    for number in known.refused:
        steps += [(_IF_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    families = len(FAMILIES)
    steps += [(_IF_EQUAL, 0, families + 2, known.socket), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    steps += [(_IF_EQUAL, families - at, 0, family) for at, family in enumerate(FAMILIES)]
    steps += [_refuse(errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    return _packed(steps)


def _refuse(error: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | error)


def _packed(steps: Sequence[tuple[int, int, int, int]]) -> bytes:
    """Each step is what to do, how many to skip if it is so and if not, and a value."""
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
