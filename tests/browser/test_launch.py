"""Starting a browser, and what is left of it: nothing, whatever ended it."""

import fcntl
import os
import re
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from tests.backends.rig import eventually, is_gone
from tests.support.chromium import OPTIONS, SOON_S, Client, Hub, chromium

from maitred.backends.process import Warden
from maitred.browser.errors import AttachError, BrowserFaultError
from maitred.browser.executable import find_chrome, version_of
from maitred.browser.launch import LaunchRequest, check_flags, has_display, launch, profile_folder

pytestmark = pytest.mark.anyio


def profiles() -> list[str]:
    """The fresh profiles of this process's tests."""
    return [path.name for path in Path(tempfile.gettempdir()).glob(f"maitred-browser-*-{os.getpid()}-*")]


def process_of(client: Client, connection: str = "chrome-1") -> psutil.Process:
    attachment = client.toolbox._workspace.attachments[connection]  # type: ignore[union-attr]
    return psutil.Process(attachment.browser.pid)


async def until_ended(processes: list[psutil.Process]) -> None:
    await eventually(lambda: all(is_gone(one.pid) for one in processes), within_s=SOON_S)


async def test_a_browser_ends_with_its_connection_and_leaves_nothing(clients: Hub) -> None:
    """All its processes and its profile are gone. Source: issue 19, point 1."""
    client = clients.client()
    assert "Started Chrome/" in await client.do("chrome_launch", headless=True)
    assert len(profiles()) == 1
    tree = [process_of(client), *process_of(client).children(recursive=True)]
    await client.do("chrome_disconnect", connection_id="chrome-1")
    await until_ended(tree)
    await eventually(lambda: not profiles(), within_s=SOON_S)


async def test_a_client_that_goes_during_its_calls_leaves_nothing(clients: Hub) -> None:
    """The start that is under way, and the call that waits behind it, fail; no browser runs on."""
    chromium()
    client = clients.client()
    results: list[Mapping[str, Any]] = []

    async def call(name: str, arguments: Mapping[str, Any]) -> None:
        results.append(await client.toolbox.call(name, arguments))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call, "chrome_launch", {"headless": True})
        tasks.start_soon(call, "chrome_list_connections", {})
        await anyio.wait_all_tasks_blocked()
        await client.toolbox.close()
    await call("chrome_list_connections", {})
    assert len(results) == 3
    assert all("the client has gone" in result["content"][0]["text"] for result in results)
    assert clients.browsers._openings == []
    assert profiles() == []


async def test_a_browser_that_is_killed_leaves_nothing(clients: Hub) -> None:
    client = clients.client()
    await client.do("chrome_launch", headless=True)
    tree = [process_of(client), *process_of(client).children(recursive=True)]
    os.kill(tree[0].pid, signal.SIGKILL)
    await client.until(lambda: client.toolbox.state.connections == 0)
    await until_ended(tree)
    await eventually(lambda: not profiles(), within_s=SOON_S)


async def test_a_profile_with_a_name_stays_and_serves_one_browser(clients: Hub) -> None:
    """What a page stored is there the next time; a second browser is refused with the reason."""
    client = clients.client()
    await client.do("chrome_launch", headless=True, user_data_dir="work", connection_id="one")
    why = await client.refused("chrome_launch", headless=True, user_data_dir="work", connection_id="two")
    assert "another browser uses the profile 'work'" in why
    folder = profile_folder("work", OPTIONS)
    assert folder is not None
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "Local State").exists()


async def test_a_profile_can_be_used_again_as_soon_as_its_browser_is_disconnected(clients: Hub) -> None:
    """The answer comes when Chrome has ended, which still writes its profile."""
    client = clients.client()
    for number in range(3):
        name = f"number {number}"
        await client.do("chrome_launch", headless=True, user_data_dir="again", connection_id=name)
        process = process_of(client, name)
        await client.do("chrome_disconnect", connection_id=name)
        assert not process.is_running()


async def test_each_principal_has_profiles_of_its_own(clients: Hub) -> None:
    """One that is signed in is no other principal's; the local user has the plain name."""
    ann, bob = clients.client(), clients.client(replace(OPTIONS, profile="work"))
    named = {"headless": True, "user_data_dir": "work"}
    mine = await ann.toolbox.call("chrome_launch", named, principal="ann")
    default = await bob.toolbox.call("chrome_launch", {"headless": True}, principal="bob")
    assert not mine["isError"], mine
    assert not default["isError"], "the same folder would be in use"
    folders = [profile_folder("work", OPTIONS, one) for one in ("", "ann", "bob")]
    assert len(set(folders)) == 3
    assert all(one is not None and (one / "Local State").exists() for one in folders[1:])
    assert folders[0] is not None
    assert folders[0].name == "work"


async def test_an_id_that_is_in_use_and_one_browser_too_many_are_refused(clients: Hub) -> None:
    client = clients.client(replace(OPTIONS, max_connections=1))
    await client.do("chrome_launch", headless=True, connection_id="one")
    assert "there is a connection 'one' already" in await client.refused("chrome_launch", connection_id="one")
    assert "no more are allowed" in await client.refused("chrome_launch", headless=True)


async def test_what_prevents_a_start_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each is one of the known reasons, with what to do."""
    chromium()
    processes = Warden()

    async def fault(request: LaunchRequest, **more: object) -> str:
        with pytest.raises(AttachError) as caught:
            async with launch(request, replace(OPTIONS, **more), processes):  # type: ignore[arg-type]
                pass
        return caught.value.fault

    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    headless = LaunchRequest(headless=True)
    assert not has_display()
    assert await fault(LaunchRequest(headless=False)) == "no_display"
    assert await fault(headless, executable=str(tmp_path / "none")) == "no_browser"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert await fault(headless, sandbox=True) == "root_sandbox"
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no library >&2\nexit 127\n")
    broken.chmod(0o755)
    assert await fault(headless, sandbox=False, executable=str(broken)) == "not_started"
    assert profiles() == []
    processes.close()
    with pytest.raises(AttachError, match="apt-get install chromium"):
        find_chrome(search=str(tmp_path))


def test_only_harmless_flags_are_allowed_unless_the_operator_says_so() -> None:
    """A flag could send the traffic elsewhere, or run a program. Source: notes, Security."""
    check_flags(["--window-size=800,600", "--enable-features=WebMCP"], OPTIONS)
    for flag in ("--proxy-server=evil:1", "--renderer-cmd-prefix=sh", "--no-sandbox", "--user-data-dir=/x"):
        with pytest.raises(BrowserFaultError, match="`extra_args` may not have"):
            check_flags([flag], OPTIONS)
    with pytest.raises(BrowserFaultError, match="did you mean '--window-size'"):
        check_flags(["--windowsize=1,1"], OPTIONS)
    with pytest.raises(BrowserFaultError, match="may turn on WebMCP, WebMCPTesting only"):
        check_flags(["--enable-features=WebMCP,Other"], OPTIONS)
    check_flags(["--proxy-server=x:1"], replace(OPTIONS, flags=("--proxy-server",)))


def test_a_profile_is_a_name_or_a_folder_of_the_operator(tmp_path: Path) -> None:
    """An agent cannot take the profile of the user's own browser."""
    for profile in ("../x", str(tmp_path), "~/.config/google-chrome", "a/b"):
        with pytest.raises(BrowserFaultError, match="neither a name"):
            profile_folder(profile, OPTIONS)
    assert profile_folder(str(tmp_path), replace(OPTIONS, profile_folders=(str(tmp_path),))) == tmp_path
    assert profile_folder("", OPTIONS) is None


async def test_the_profile_of_a_gateway_in_another_container_stays() -> None:
    """Its process is not to be seen here, but it has locked its profile."""
    chromium()
    other = Path(tempfile.gettempdir()) / "maitred-browser-none-999999998-1-abc_y"
    other.mkdir()
    lock = os.open(other, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    processes = Warden()
    try:
        async with launch(LaunchRequest(headless=True), OPTIONS, processes):
            assert other.exists()
        os.close(lock)
        async with launch(LaunchRequest(headless=True), OPTIONS, processes):
            assert not other.exists()
    finally:
        processes.close()


async def test_the_next_start_removes_the_profiles_of_killed_gateways() -> None:
    chromium()
    place = Path(tempfile.gettempdir())
    left = place / "maitred-browser-none-999999999-1-abc_x"
    left.mkdir()
    processes = Warden()
    async with launch(LaunchRequest(headless=True), OPTIONS, processes):
        assert not left.exists()
    processes.close()
    assert profiles() == []


def test_the_version_of_the_browser_is_read() -> None:
    assert re.fullmatch(r"[A-Z].* \d{3}\.\d+\.\d+\.\d+", version_of(chromium()))
