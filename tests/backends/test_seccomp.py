"""The filter of calls, read as the kernel reads it."""

import errno
import struct

import pytest

from maitred.backends.cages.seccomp import make_filter

ALLOWED = 0x7FFF0000
REFUSED = 0x00050000
X86, ARM, OLD = 0xC000003E, 0xC00000B7, 0x40000003
MACHINES = [("x86_64", X86), ("aarch64", ARM)]


def judged(program: bytes, processor: int, number: int, argument: int = 0) -> int:
    """What the kernel answers to a call."""
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    data = struct.pack("=IIQQ", number, processor, 0, argument)
    at = value = 0
    while True:
        code, yes, no, constant = steps[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, constant)
            case 0x15:
                at += yes if value == constant else no
            case 0x35:
                at += yes if value >= constant else no
            case 0x06:
                return int(constant)


@pytest.mark.parametrize(("machine", "processor"), MACHINES)
def test_calls_that_lead_around_the_jail_are_refused_and_others_are_not(machine: str, processor: int) -> None:
    """Keys, parts of the kernel, sockets without a namespace; the last of the list as the first."""
    program = make_filter(machine)
    keyctl, other = (250, 219)[machine == "aarch64"], 63

    assert judged(program, processor, keyctl) == REFUSED | errno.EPERM
    assert judged(program, processor, 425) == REFUSED | errno.EPERM
    assert judged(program, processor, other) == ALLOWED


@pytest.mark.parametrize(("machine", "processor"), MACHINES)
def test_sockets_are_of_the_usual_families(machine: str, processor: int) -> None:
    """Unix, both Internets and netlink; not those of virtual machines, nor of any other kind."""
    program = make_filter(machine)
    socket = (41, 198)[machine == "aarch64"]
    answers = {family: judged(program, processor, socket, family) for family in range(64)}

    assert {family for family, answer in answers.items() if answer == ALLOWED} == {1, 2, 10, 16}
    assert set(answers.values()) == {ALLOWED, REFUSED | errno.EAFNOSUPPORT}


def test_calls_with_other_numbers_are_all_refused() -> None:
    """Those of another processor, and the second set that one has."""
    program = make_filter("x86_64")

    assert judged(program, OLD, 1) == REFUSED | errno.ENOSYS
    assert judged(program, X86, 0x40000001) == REFUSED | errno.ENOSYS


def test_a_processor_that_is_not_known_has_no_filter() -> None:
    """Its numbers would mean something else."""
    assert make_filter("riscv64") == b""
