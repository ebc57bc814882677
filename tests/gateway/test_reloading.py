"""A configuration that is a link, as in a pod of Kubernetes, is followed when it comes to lead elsewhere."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from maitred.config.load import load
from maitred.gateway import Gateway
from maitred.wiring import follow_settings, open_gateway

pytestmark = pytest.mark.anyio
SOON_S = 120.0
ENDS_S = 2.0  # a thread that waits for changes would take five


def mount(folder: Path, version: str, *, enabled: bool) -> None:
    """Put a version in place as a kubelet does: a new folder, and a link to it that is swapped at once."""
    own = folder / version
    own.mkdir()
    server = {"command": "none", "enabled": enabled}
    settings = {"servers": {"one": server}, "catalog": {"path": str(folder / "c.db")}}
    (own / "maitred.yaml").write_text(json.dumps(settings))
    link = folder / "..next"
    link.symlink_to(version)
    link.rename(folder / "..data")


@asynccontextmanager
async def followed(path: Path) -> AsyncIterator[Gateway]:
    """A gateway that follows a configuration; it has to end soon, too."""
    settings = load(path)
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, discovers=False) as gateway, anyio.create_task_group() as tasks:
            tasks.start_soon(follow_settings, gateway, settings)
            await anyio.wait_all_tasks_blocked()
            yield gateway
            began = anyio.current_time()
            tasks.cancel_scope.cancel()
        assert anyio.current_time() - began < ENDS_S


async def comes_to_be(gateway: Gateway, *, enabled: bool) -> None:
    while gateway.settings.servers["one"].enabled is not enabled:  # noqa: ASYNC110 - the settings tell nobody
        await anyio.sleep(0.02)


async def test_a_mounted_configuration_that_is_swapped_is_taken_over(tmp_path: Path) -> None:
    """The file's own link never changes, only where it leads."""
    mount(tmp_path, "..1", enabled=False)
    path = tmp_path / "maitred.yaml"
    path.symlink_to("..data/maitred.yaml")
    async with followed(path) as gateway:
        for version, enabled in (("..2", True), ("..3", False)):
            mount(tmp_path, version, enabled=enabled)
            await comes_to_be(gateway, enabled=enabled)


async def test_a_configuration_kept_elsewhere_is_taken_over_when_it_is_edited_there(tmp_path: Path) -> None:
    """As those who keep their configurations in one folder do, with links to it."""
    kept, home = tmp_path / "kept", tmp_path / "home"
    kept.mkdir()
    home.mkdir()
    mount(kept, "..1", enabled=False)
    (home / "maitred.yaml").symlink_to(kept / "..1" / "maitred.yaml")
    async with followed(home / "maitred.yaml") as gateway:
        text = (home / "maitred.yaml").read_text()
        (kept / "..1" / "maitred.yaml").write_text(text.replace("false", "true"))
        await comes_to_be(gateway, enabled=True)
