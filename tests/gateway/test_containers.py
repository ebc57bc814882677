"""A server that is an image, from its manifest to a call, in one gateway and by the program itself."""

import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.backends.container_rig import PODMAN
from tests.faults.client import Client, serve
from tests.gateway.rig import SOON_S, settings_of, until
from tests.support import prefork
from tests.support.podman import IMAGE, Podman
from tests.support.waiting import eventually

from maitred.config.settings import Admission as Section
from maitred.config.settings import Isolation, Settings
from maitred.errors import ConnectionLostError, ServerUnavailableError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.approvals import name_and_identity
from maitred.model.servers import State
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = PODMAN
MOVING = "localhost/maitred-moving:1"


def manifest(image: str = IMAGE, *, name: str = "probe", args: str = "[/srv/probe_server.py]") -> str:
    return f"name: {name}\nimage: {image}\nargs: {args}\nmemory: 96m\ncpu: 1\npids: 24\n"


def settings(folder: Path, podman: Podman, **policy: Any) -> Settings:
    isolation = Isolation(engine=podman.address, pull="never")
    return settings_of(folder, isolation=isolation, admission=Section(**policy))


@asynccontextmanager
async def gateway(settings: Settings) -> AsyncIterator[Gateway]:
    with anyio.fail_after(2 * SOON_S):
        async with open_gateway(settings) as gateway:
            yield gateway


async def call(gateway: Gateway, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool of a server answers, in JSON."""
    made = ToolCall(name=tool, arguments=arguments)
    answer: dict[str, Any] = json.loads((await gateway.call(made, viewer=LOCAL_USER))["content"][0]["text"])
    return answer


async def approved(gateway: Gateway, text: str, name: str) -> None:
    """Have a server registered, approved, started and listed."""
    await gateway.register_server(text, source=f"{name}.yml", viewer=LOCAL_USER)
    await gateway.decide(name, "approve", viewer=LOCAL_USER)
    assert await gateway.settled(SOON_S)


async def test_an_image_is_registered_approved_and_called(tmp_path: Path, podman: Podman) -> None:
    """Nothing of it runs before; then what it turned out to be is in its log, and its cage in its status."""
    async with gateway(settings(tmp_path, podman)) as it:
        done = await it.register_server(manifest(), source="probe.yml", viewer=LOCAL_USER)
        assert done.case is not None
        assert (done.case.state, podman.containers()) == ("pending", [])

        await approved(it, manifest(), "probe")
        assert (await call(it, "probe__hello"))["uid"] == 65534
        (status,) = it.servers(LOCAL_USER)
        log = (await it.case("probe", viewer=LOCAL_USER)).log

    assert (status.health.state, status.health.cage) == (State.READY, "container")
    assert [event.kind for event in log] == ["registered", "approved", "image_changed", "definition_changed"]
    assert re.fullmatch(r"it is sha256:[0-9a-f]{64} now", log[2].why)
    assert podman.containers() == []


async def test_a_real_server_runs_in_a_container(tmp_path: Path, podman: Podman) -> None:
    """The reference server for times, unchanged."""
    clock = manifest(name="clock", args="[-m, mcp_server_time, --local-timezone=UTC]")
    async with gateway(settings(tmp_path, podman)) as it:
        await approved(it, clock, "clock")
        told = await call(it, "clock__get_current_time", timezone="Europe/Paris")

    assert told["timezone"] == "Europe/Paris"


async def refused(gateway: Gateway, tool: str) -> str:
    """Why a call is refused since its server's image is another one; what ended before does not count."""
    while True:
        try:
            raise AssertionError(await call(gateway, tool))
        except ConnectionLostError:
            continue
        except ServerUnavailableError as error:
            assert "a person has to approve that" in error.reason  # noqa: PT017  # of several kinds
            return error.reason


@pytest.fixture
def moved(podman: Podman, tmp_path: Path) -> str:
    """A tag that means the image of the tests, and an image that differs in a label; its identity."""
    file = tmp_path / "Containerfile"
    file.write_text(f"FROM {IMAGE}\nLABEL moved=yes\n", encoding="utf-8")
    other = podman.run("build", "-q", "--network=none", "-f", str(file), str(tmp_path))
    podman.run("tag", IMAGE, MOVING)
    return other


async def test_a_tag_that_means_another_image_waits_for_a_person(
    tmp_path: Path, podman: Podman, moved: str
) -> None:
    """Also where the policy trusts the tag; who approves it sees what it is, and then it runs."""
    policy = settings(tmp_path, podman, trusted_images=("localhost/*",))
    async with gateway(policy) as it:
        done = await it.register_server(manifest(MOVING), source="probe.yml", viewer=LOCAL_USER)
        assert done.decision.outcome == "approved"
        assert await it.settled(SOON_S)
        assert (await call(it, "probe__hello"))["ok"]
        podman.run("tag", moved, MOVING)
        podman.run("kill", *podman.containers())
        assert "and was sha256:" in await refused(it, "probe__hello")
        await until(it, lambda: it.settings.servers["probe"].withheld != "")
        with pytest.raises(ToolWithheldError, match="waits for a person's approval"):
            await call(it, "probe__hello")
        assert podman.containers() == []

        await it.register_server(manifest(MOVING), source="probe.yml", viewer=LOCAL_USER)
        await until(it, lambda: it.settings.servers["probe"].withheld == "")
        await refused(it, "probe__hello")
        case = await it.case("probe", viewer=LOCAL_USER)
        assert (case.state, case.awaits) == ("pending", True)
        assert name_and_identity(case.binding.image)[1].endswith(moved.removeprefix("sha256:"))
        await it.decide("probe", "approve", viewer=LOCAL_USER, seen=case.digest)
        assert (await call(it, "probe__hello"))["ok"]


async def test_the_program_serves_a_container_and_leaves_none_when_it_is_killed(
    tmp_path: Path, podman: Podman
) -> None:
    """From `maitred register` to a call by a client, and SIGKILL."""
    config = tmp_path / "maitred.yaml"
    isolation = {"engine": podman.address, "pull": "never"}
    config.write_text(json.dumps({"isolation": isolation, "catalog": {"path": "c.db"}}), encoding="utf-8")
    (tmp_path / "probe.yml").write_text(manifest(), encoding="utf-8")
    for command in (["register", str(tmp_path / "probe.yml")], ["approve", "probe", "--yes"]):
        await anyio.run_process(prefork.command(command[0], "--config", str(config), *command[1:]))
    with anyio.fail_after(2 * SOON_S):
        async with serve(config) as client:
            assert json.loads(await known(client, "probe__hello"))["ok"]
            assert len(podman.containers()) == 1
            client.signal(signal.SIGKILL)
            await eventually(lambda: not podman.containers())


async def known(client: Client, tool: str) -> str:
    """What a tool answers as soon as it is known: asked again whenever tools change, which leaves it time."""
    changes = client._changes
    while "no tool named" in (answer := await client.call(tool)):
        while client._changes == changes:
            await client._read()
        changes = client._changes
    return answer
