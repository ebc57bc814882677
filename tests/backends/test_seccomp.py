"""The filter of calls, read as the kernel reads it."""

import errno
import struct

import pytest

from maitred.backends.isolation.seccomp import make_filter

ALLOWED = 0x7FFF0000
REFUSED = 0x00050000
X86, ARM, OLD = 0xC000003E, 0xC00000B7, 0x40000003
MACHINES = [("x86_64", X86), ("aarch64", ARM)]


def judged(program: bytes, processor: int, number: int, *arguments: int) -> int:
    """What the kernel answers to a call."""
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    data = struct.pack("=IIQ6Q", number, processor, 0, *arguments, *[0] * (6 - len(arguments)))
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
            case 0x45:
                at += yes if value & constant else no
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


MODES = {
    ("x86_64", "chmod"): (90, 0),
    ("x86_64", "fchmodat"): (268, 0, 0),
    ("x86_64", "mknod"): (133, 0),
    ("x86_64", "open"): (2, 0, 0o100),
    ("x86_64", "openat of a nameless file"): (257, 0, 0, 0o20200000),
    ("aarch64", "fchmod"): (52, 0),
    ("aarch64", "fchmodat2"): (452, 0, 0),
    ("aarch64", "openat"): (56, 0, 0, 0o100),
}


@pytest.mark.parametrize(("machine", "call"), MODES)
def test_no_file_gets_a_bit_by_which_another_becomes_its_owner(machine: str, call: str) -> None:
    """Whichever call gives it its mode; other modes are given."""
    program, processor = make_filter(machine), dict(MACHINES)[machine]
    number, *before = MODES[machine, call]

    for mode in (0o4755, 0o2755, 0o6000, 0o107755):
        assert judged(program, processor, number, *before, mode) == REFUSED | errno.EPERM
    assert judged(program, processor, number, *before, 0o1777) == ALLOWED


def test_a_file_that_is_only_opened_has_no_mode() -> None:
    """Whatever stands in its place."""
    assert judged(make_filter("x86_64"), X86, 257, 0, 0, 0, 0o4755) == ALLOWED


def test_calls_with_other_numbers_are_all_refused() -> None:
    """Those of another processor, and the second set that one has."""
    program = make_filter("x86_64")

    assert judged(program, OLD, 1) == REFUSED | errno.ENOSYS
    assert judged(program, X86, 0x40000001) == REFUSED | errno.ENOSYS


def test_a_processor_that_is_not_known_has_no_filter() -> None:
    """Its numbers would mean something else."""
    assert make_filter("riscv64") == b""
