"""A gateway waits neither for its warden nor for the kernel's list of processes.

What the warden does for it is in `tests/faults`.
"""

import os
import signal
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import UnixStreamServer
from tempfile import TemporaryDirectory

import anyio
import pytest

from maitred.backends import warden
from maitred.backends.launch import Launch
from maitred.backends.process import ChildProcess, Tail, Warden, start

SOON_S = 120.0


def test_a_warden_that_hangs_holds_nobody_up() -> None:
    """What it is told is more than its pipe takes; then it is replaced, and a new one knows all of it."""
    it = Warden()
    it.start()
    hanging = it._process
    assert hanging is not None
    hanging.send_signal(signal.SIGSTOP)
    done = threading.Event()

    def tell() -> None:
        for number in range(5_000):
            it.hold(f"/nowhere/{number}.sock", "one")
        it.let_go("one")
        it.start()
        assert it._process is not None
        it._process.send_signal(signal.SIGSTOP)
        it.close(within_s=0.1)
        done.set()

    threading.Thread(target=tell, daemon=True).start()
    assert done.wait(SOON_S)
    assert hanging.returncode == -signal.SIGKILL


@pytest.mark.anyio
async def test_what_a_server_started_is_looked_for_without_holding_up_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All processes of the machine are read for that."""
    looked: list[threading.Thread] = []

    def look(_: int) -> dict[int, str]:
        looked.append(threading.current_thread())
        return {}

    monkeypatch.setattr(warden, "descendants", look)
    launch = Launch(argv=("cat",), env={"PATH": os.defpath})
    tail = Tail()
    child = await start(
        launch, lambda: ChildProcess(launch, on_stdout=tail.feed, on_end=lambda _: None, tail=tail)
    )
    with anyio.fail_after(SOON_S):
        await child.stop()

    assert looked
    assert threading.current_thread() not in looked


class Busy(BaseHTTPRequestHandler):
    """An engine that cannot remove a container at first, since that is just ending by itself."""

    server: "OneAtATime"

    def do_DELETE(self) -> None:
        """Remove it, or not yet."""
        self.server.asked += 1
        self.wfile.write(b"HTTP/1.1 %d -\r\n\r\n" % (500 if self.server.asked == 1 else 204))


class OneAtATime(UnixStreamServer):
    asked = 0


def test_the_warden_asks_again_where_an_engine_could_not_remove_a_container() -> None:
    """Else the container would outlive the gateway that was killed."""
    with TemporaryDirectory(prefix="mt-") as folder, OneAtATime(f"{folder}/engine.sock", Busy) as engine:
        containers = {"one": f"{folder}/engine.sock"}
        for left in ({"one"}, set()):
            asked = warden.ask_to_remove(containers)
            engine.handle_request()
            assert warden.not_removed(asked) == left
