"""A server in a container: it is reached, it is bounded, and nothing of it is left."""

import re
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.backends.container_rig import CAGE, PODMAN, Rig, options, probing
from tests.support.podman import Podman

from maitred.backends.base import ConnectError
from maitred.backends.isolation import engine as engine_module
from maitred.backends.isolation.engine_api import EngineError
from maitred.config.settings import Isolation, Settings
from maitred.model.servers import Mount
from maitred.wiring import look_at_cages
from maitred.wiring.isolation import open_engine

pytestmark = PODMAN
SECRET = "s3cret-of-the-gateway"


async def test_a_server_runs_in_a_container_for_as_long_as_its_session(rig: Rig, podman: Podman) -> None:
    """One container, with the labels by which it is found; afterwards there is none."""
    backend = rig.backend()
    async with probing(backend) as probe:
        hello = await probe.call("hello")
        (name,) = podman.containers()
        labels = podman.inspect(name)["Config"]["Labels"]
        pid = backend.pid

    assert hello["uid"] == hello["gid"] == 65534
    assert probe.connection.facts.title == "probe"
    assert pid is not None
    assert labels["maitred.server"] == "probe"
    assert labels["maitred.gateway"] == rig.warden.mark
    assert labels["maitred.catalog"] == "c0ffee00"
    assert podman.containers() == []
    assert backend.pid is None


async def test_what_was_approved_bounds_the_container(rig: Rig, podman: Podman) -> None:
    """As the engine says itself: memory without swap, processors, processes, rights, network, root."""
    async with probing(rig.backend(cage={"cpu_shares": 512})):
        found = podman.inspect(podman.containers()[0])
    host = found["HostConfig"]

    assert (host["Memory"], host["MemorySwap"]) == (CAGE.memory, CAGE.memory)
    assert (host["NanoCpus"], host["CpuShares"], host["PidsLimit"]) == (CAGE.nano_cpus, 512, CAGE.pids)
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Privileged"]) == ("none", True, False)
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["LogConfig"]["Type"] == "none"
    assert found["EffectiveCaps"] in (None, [])
    assert not found["Mounts"]
    assert found["Config"]["User"] == "65534:65534"


async def test_a_network_that_was_granted_is_the_engines_own(rig: Rig, podman: Podman) -> None:
    """Not that of the machine."""
    backend = rig.backend(cage={"network": True})
    engine = await rig.engines.engine()
    made = await backend._container_spec(engine)
    await engine.create("granted", made)
    try:
        assert podman.inspect("granted")["HostConfig"]["NetworkMode"] == "bridge"
    finally:
        await engine.remove("granted")


async def test_an_engine_that_cannot_use_our_filter_uses_its_own(
    rig: Rig, podman: Podman, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As when the gateway itself runs in a container; that is told."""
    monkeypatch.setattr(engine_module, "narrow_profile", lambda _: {"archMap": "none"})
    made = await rig.backend()._container_spec(await rig.engines.engine())
    engine = await open_engine(Isolation(engine=podman.address))
    await engine.create("unfiltered", made)
    try:
        assert podman.inspect("unfiltered")["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
    finally:
        await engine.remove("unfiltered")
        engine.close()

    assert "containers can make namespaces: Podman cannot use our filter" in capfd.readouterr().out


async def test_a_container_that_cannot_be_made_takes_the_filter_from_no_other(
    rig: Rig, podman: Podman
) -> None:
    """Whatever the engine says of it, by the names it was given, and though the engine was lost since."""
    engine = await rig.engines.engine()
    made = await rig.backend()._container_spec(engine)
    with pytest.raises(EngineError, match="seccomp-and-init"):
        await engine.create("odd", replace(made, image="localhost/seccomp-and-init:1"))
    engine.close()
    await engine.create("filtered", made)
    try:
        (option,) = [
            one for one in podman.inspect("filtered")["HostConfig"]["SecurityOpt"] if "seccomp" in one
        ]
    finally:
        await engine.remove("filtered")

    assert await anyio.Path(option.partition("=")[2]).is_file()


async def test_the_doctor_finds_the_engine(podman: Podman) -> None:
    """With its version, and where it is."""
    found = await look_at_cages(
        Settings(source=Path(), isolation=Isolation(jail="none", engine=podman.address))
    )
    (told,) = [one.told for one in found if one.name == "engine"]

    assert re.fullmatch(rf"Podman \d+\.\d+\.\d+ at {re.escape(podman.address)}", told)


async def test_it_sees_the_variables_it_was_given_and_none_of_ours(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """References are resolved at the start; a home that can be written to is given besides."""
    monkeypatch.setenv("TOKEN_OF_THE_SERVER", "resolved")
    monkeypatch.setenv("MAITRED_KEY", SECRET)
    async with probing(rig.backend(env={"TOKEN": "${TOKEN_OF_THE_SERVER}"})) as probe:
        seen = (await probe.call("environment"))["variables"]

    assert seen["TOKEN"] == "resolved"
    assert seen["HOME"] == "/tmp"
    assert SECRET not in seen.values()
    assert "MAITRED_GATEWAY" not in seen
    assert "http_proxy" not in seen  # that of the engine, which Podman likes to hand on


async def test_a_reference_to_nothing_is_told_before_anything_starts(rig: Rig, podman: Podman) -> None:
    """By the variable's name."""
    with pytest.raises(ConnectError, match=r"refers to something missing.*NO_SUCH_VARIABLE"):
        async with rig.backend(env={"TOKEN": "${NO_SUCH_VARIABLE}"}).connect(options()):
            raise AssertionError
    assert podman.containers() == []


async def test_arguments_take_the_place_of_the_images_command(rig: Rig) -> None:
    """And what the server says on standard error is kept, also when it is gone."""
    backend = rig.backend(args=("/srv/probe_server.py", "--banner", "one\ntwo"))
    async with probing(backend) as probe:
        await probe.call("hello")
        lines = list(backend.last_output())

    assert lines == ["one", "two"]
    assert list(backend.last_output()) == lines


async def test_long_messages_pass_in_both_directions(rig: Rig) -> None:
    """In more frames than one."""
    async with probing(rig.backend()) as probe:
        answer = await probe.call("blob", bytes=3_000_000)
        refused = await probe.call("read", path="x" * 1_000_000)

    assert answer["data"] == "b" * 3_000_000
    assert refused["error"] == "ENAMETOOLONG"


async def test_many_calls_at_once_are_all_answered(rig: Rig) -> None:
    """Each with its own answer."""
    answers = {}
    async with probing(rig.backend()) as probe:

        async def ask(number: int) -> None:
            answers[number] = len((await probe.call("blob", bytes=number))["data"])

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(ask, number)

    assert answers == {number: number for number in range(50)}


# --- folders of this machine ------------------------------------------------------------------------------


async def test_of_this_machine_it_sees_the_folders_that_were_granted(rig: Rig, tmp_path: Path) -> None:
    """To read, or to change where that was granted too."""
    (read, change) = (tmp_path / "read", tmp_path / "change")
    for folder in (read, change):
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "note").write_text("granted", encoding="utf-8")
    mounts = (Mount(path=str(read), at="/data"), Mount(path=str(change), at="/out", writable=True))
    async with probing(rig.backend(cage={"mounts": mounts})) as probe:
        assert (await probe.call("read", path="/data/note"))["text"] == "granted"
        assert (await probe.call("write", path="/data/new"))["error"] == "EROFS"
        assert (await probe.call("write", path="/out/new", bytes=3))["ok"]

    assert {one.name for one in change.iterdir()} == {"note", "new"}


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A link to a folder that holds a link out of it, to a file beside it."""
    (tmp_path / "other").mkdir()
    (tmp_path / "secret").write_text(SECRET, encoding="utf-8")
    (tmp_path / "other" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    tmp_path.chmod(0o755)
    return tmp_path / "link"


async def test_links_in_a_granted_folder_lead_nowhere_outside(rig: Rig, linked: Path) -> None:
    """They are followed among the container's own files."""
    mounts = (Mount(path=str(linked.with_name("other")), at="/data"),)
    async with probing(rig.backend(cage={"mounts": mounts})) as probe:
        assert (await probe.call("list", path="/data"))["names"] == ["out"]
        assert (await probe.call("read", path="/data/out"))["error"] == "ENOENT"


async def test_a_folder_that_is_not_what_was_granted_is_not_given(
    rig: Rig, podman: Podman, linked: Path
) -> None:
    """It became a link, is gone, is a socket, or holds the socket of the engine."""
    refused = {
        str(linked): f"is a link, or below one, and leads to {linked.with_name('other')}",
        str(linked.with_name("gone")): "cannot be used: No such file",
        podman.socket: "is a socket, which gives control over another program",
        str(Path(podman.socket).parent): "holds the socket of a container engine",
    }
    for path, why in refused.items():
        with pytest.raises(ConnectError, match=re.escape(f"{path}, which it was granted, {why}")):
            async with rig.backend(cage={"mounts": (Mount(path=path, at="/data"),)}).connect(options()):
                raise AssertionError
    assert podman.containers() == []
