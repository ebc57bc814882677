"""Run `maitred` as a user for whom the rights of files hold, as they do not for root.

A script for `tests/support/prefork.py`. It takes the capabilities that are above the rights of files from
this process and from all that it starts, as `setpriv --bounding-set` does for a program that it starts.
"""

import ctypes
import os
import runpy

ABOVE_RIGHTS = (1, 2, 3)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER: linux/capability.h
_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_DROP_FROM_BOUNDING_SET = 24  # PR_CAPBSET_DROP: linux/prctl.h


def drop() -> None:
    """Take them away.

    Raises:
        OSError: The system does not allow it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice, the higher half last
    _checked(libc.capget(header, sets))
    for number in ABOVE_RIGHTS:
        _checked(libc.prctl(_DROP_FROM_BOUNDING_SET, number, 0, 0, 0))
        for index in range(3):
            sets[index] &= ~(1 << number)
    _checked(libc.capset(header, sets))


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    if not os.geteuid():
        drop()
    runpy.run_module("maitred", run_name="__main__", alter_sys=True)
