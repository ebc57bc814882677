"""What this machine has to isolate registered servers, in words for `maitred doctor`."""

import os
import sys
from collections.abc import Sequence
from typing import Literal

from maitred.backends.base import ConnectError
from maitred.backends.isolation.engine_api import EngineInfo
from maitred.backends.isolation.jail import JailMeans
from maitred.model.servers import MachineAspect

_ROOT = "; the number of processes is not bounded, since maitred runs as root"


def of_jail(choice: Literal["auto", "bwrap", "none"], means: JailMeans) -> Sequence[MachineAspect]:
    """What happens to registered programs under a value of `isolation.jail`."""
    if choice == "none":
        told = "switched off by `isolation.jail: none`: registered programs run as they are"
        return [MachineAspect(name="jail", works=False, told=told)]
    if not means.bwrap:
        told = f"{means.why_not}; registered programs are not started"
        return [MachineAspect(name="jail", works=False, told=told)]
    jail = MachineAspect(name="jail", works=True, told=f"{means.version} at {means.bwrap}")
    if means.groups is None:
        unbounded = _ROOT if sys.platform != "win32" and os.geteuid() == 0 else ""
        told = f"for each process alone, since {means.why_no_groups}{unbounded}"
    else:
        told = f"for all processes of a server together, by control groups (version {means.groups.version})"
    return [jail, MachineAspect(name="limits", works=means.groups is not None, told=told)]


def of_engine(found: EngineInfo | ConnectError) -> MachineAspect:
    """The container engine, or why there is none."""
    if isinstance(found, ConnectError):
        return MachineAspect(name="engine", works=False, told=f"{found}; registered images are not started")
    told = f"{found.name} {found.version} at {found.address}"
    far = "" if found.socket else "; it may be on another machine, so no folders can be granted"
    return MachineAspect(name="engine", works=True, told=told + far)


def of_scan(choice: Literal["off", "warn", "block"], program: str | None) -> MachineAspect:
    """The scanner of images: where the program is, and whether the operator wants it."""
    if program is None:
        what = "registered images are not started" if choice == "block" else "no scan looks for known faults"
        return MachineAspect(name="scan", works=False, told=f"Trivy is not installed; {what}")
    wanted = {
        "off": "switched off",
        "warn": "the gateway reports faults",
        "block": "faults keep an image from starting",
    }
    return MachineAspect(name="scan", works=choice != "off", told=f"Trivy at {program}; {wanted[choice]}")
