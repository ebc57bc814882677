"""A real Chromium for tests, and clients' toolboxes that use it."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from maitred.backends.process import Warden
from maitred.background import Background
from maitred.browser.browsers import Browsers
from maitred.browser.errors import AttachError
from maitred.browser.executable import find_chrome
from maitred.browser.launch import NO_ADDRESS_BAR
from maitred.browser.state import BrowserState
from maitred.browser.toolbox import Toolbox
from maitred.model.browsers import BrowserOptions

SOON_S = 60.0
OPTIONS = BrowserOptions(sandbox=os.geteuid() != 0)
_LISTENING = re.compile(rb"DevTools listening on (ws://127\.0\.0\.1:(\d+)\S*)")


def chromium() -> str:
    """The browser of this machine; the test is skipped where there is none."""
    try:
        return find_chrome()
    except AttachError as error:
        pytest.skip(f"no browser: {error}")


@dataclass(frozen=True, kw_only=True)
class Running:
    """A browser that runs beside the tests, as a user's would."""

    port: int
    address: str
    profile: Path
    pid: int


@contextmanager
def browser(*flags: str) -> Iterator[Running]:
    """A browser that maitred did not start; it ends with all its processes."""
    profile = Path(tempfile.mkdtemp(prefix="test-chromium-"))
    sandbox = [] if OPTIONS.sandbox else ["--no-sandbox"]
    process = subprocess.Popen(
        [
            chromium(), "--headless", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0",
            "--disable-background-networking", f"--user-data-dir={profile}", NO_ADDRESS_BAR,
            *sandbox, *flags, "about:blank",
        ],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    drain = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        found = None
        for line in process.stderr:
            if found := _LISTENING.search(line):
                break
        assert found, "the browser ended at once"
        drain.start()
        until = time.monotonic() + SOON_S
        while not (profile / "DevToolsActivePort").exists():  # written a moment after the line
            assert time.monotonic() < until, "the browser does not say at which port it can be reached"
            time.sleep(0.01)
        yield Running(port=int(found[2]), address=found[1].decode().strip(), profile=profile, pid=process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        drain.join()
        process.stderr.close()
        shutil.rmtree(profile, ignore_errors=True)


@dataclass
class Client:
    """A client of the browser server, with the states that were reported to it."""

    toolbox: Toolbox = field(init=False)
    states: list[BrowserState] = field(default_factory=list)
    news: anyio.Event = field(default_factory=anyio.Event)

    def heard(self, state: BrowserState) -> None:
        self.states.append(state)
        self.news.set()
        self.news = anyio.Event()

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait for something that the client sees by a state that is reported."""
        with anyio.fail_after(SOON_S):
            while not is_true():
                await self.news.wait()

    async def do(self, name: str, **arguments: Any) -> str:
        """The answer of a call that succeeds."""
        result = await self.toolbox.call(name, arguments, announce=True)
        assert not result["isError"], result["content"][0]["text"]
        return str(result["content"][0]["text"])

    async def refused(self, name: str, **arguments: Any) -> str:
        """The answer of a call that fails."""
        result = await self.toolbox.call(name, arguments)
        assert result["isError"], result["content"][0]["text"]
        return str(result["content"][0]["text"])

    @property
    def seen(self) -> frozenset[str]:
        return self.toolbox.visible()


@dataclass
class Hub:
    """Clients that share browsers, as those of one gateway do."""

    browsers: Browsers
    clients: list[Client] = field(default_factory=list)

    def client(self, options: BrowserOptions = OPTIONS) -> Client:
        made = Client()
        made.toolbox = Toolbox(self.browsers, options, made.heard)
        self.clients.append(made)
        return made


@asynccontextmanager
async def hub() -> AsyncIterator[Hub]:
    """Browsers of a process; all clients leave at the end."""
    processes = Warden()
    try:
        async with Background() as background:

            def spawn(function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> bool:
                background.start(function, *args)
                return True

            made = Hub(Browsers(spawn, processes))
            try:
                with anyio.fail_after(3 * SOON_S):
                    yield made
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(SOON_S):
                    for client in made.clients:
                        await client.toolbox.close()
    finally:
        processes.close()
