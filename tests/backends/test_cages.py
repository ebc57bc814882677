"""Which servers run in a jail, and what is told of the jails that there are."""

import os
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.backends.container_rig import probing
from tests.backends.jail_rig import PROBE, SOON_S

from maitred.backends.isolation.cgroups import Tree
from maitred.backends.isolation.jail import JailMeans
from maitred.backends.isolation.report import of_jail
from maitred.backends.process import Warden
from maitred.config.settings import Isolation, Settings
from maitred.model.servers import ServerSpec
from maitred.wiring.isolation import Programs

HERE = JailMeans(bwrap="/usr/bin/bwrap", version="bubblewrap 0.8.0", groups=Tree(folders={}, version=2))


def test_a_jail_with_all_limits_is_told() -> None:
    """Where it is, and how limits are kept."""
    jail, limits = of_jail("auto", HERE)

    assert (jail.works, jail.told) == (True, "bubblewrap 0.8.0 at /usr/bin/bwrap")
    assert limits.works
    assert limits.told == "for all processes of a server together, by control groups (version 2)"


@pytest.mark.parametrize(
    ("uid", "more"), [(0, "; the number of processes is not bounded, since maitred runs as root"), (1000, "")]
)
def test_limits_for_each_process_are_told_with_what_they_leave_open(
    uid: int, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jail itself works all the same."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    jail, limits = of_jail("bwrap", replace(HERE, groups=None, why_no_groups="they are read-only"))

    assert jail.works
    assert (limits.works, limits.told) == (False, f"for each process alone, since they are read-only{more}")


def test_without_a_jail_it_is_told_what_becomes_of_registered_programs() -> None:
    """They are not started, or the operator chose otherwise."""
    (missing,) = of_jail("auto", JailMeans(why_not="bubblewrap (bwrap) is not installed"))
    (off,) = of_jail("none", HERE)

    assert not missing.works
    assert missing.told == "bubblewrap (bwrap) is not installed; registered programs are not started"
    assert not off.works
    assert off.told == "switched off by `isolation.jail: none`: registered programs run as they are"


@pytest.mark.anyio
async def test_only_what_came_by_a_manifest_is_jailed_and_only_if_that_is_wanted(tmp_path: Path) -> None:
    """The operator's own servers run as they are, and registered ones where jails are switched off."""
    settings = Settings(source=tmp_path / "maitred.yaml", isolation=Isolation(disk=2 * 2**20))
    loose = replace(settings, isolation=Isolation(jail="none"))
    warden = Warden()
    own = ServerSpec(name="probe", command="python3", args=("-IS", PROBE), era="handshake")
    came = replace(own, registered=True)
    cages = [
        Programs(chosen, warden).backend(spec).cage
        for chosen, spec in ((settings, own), (settings, came), (loose, own), (loose, came))
    ]
    jailed = Programs(settings, warden).backend(came).spec.cage
    plain = Programs(loose, warden).backend(came)
    with anyio.fail_after(SOON_S):
        async with probing(plain) as probe:
            hello = await probe.call("hello")

    assert cages == ["", "jail", "", ""]
    assert jailed is not None
    assert jailed.disk == settings.isolation.disk
    assert (hello["uid"], hello["cwd"]) == (os.getuid(), str(Path.cwd()))
    warden.close()
