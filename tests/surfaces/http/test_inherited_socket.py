"""A socket that a service manager holds: no connection is refused while the gateway restarts."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from bench.outages import PASS_ON, Service
from bench.stage import CURRENT

from maitred.config.settings import Http
from maitred.surfaces.http.inherited_socket import inherited_socket

pytestmark = pytest.mark.anyio

LIMIT_S = 120.0


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "maitred.yaml"
    path.write_text("servers: {}\ncatalog: {path: catalog.db}\n", encoding="utf-8")
    return path


async def test_who_connects_while_the_gateway_restarts_is_answered_by_the_next(config: Path) -> None:
    """The request waits, and is answered. Source: docs/deploy.md; for one that is killed the availability."""
    service = Service(config=config, log=config.with_name("log"))
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.keep)
            assert "200 OK" in await asked(service.port)
            os.kill(service.pid, signal.SIGTERM)
            while service.starts == 1:  # the one that ends answers as long as it can
                assert "200 OK" in await asked(service.port)
            assert "200 OK" in await asked(service.port)
            tasks.cancel_scope.cancel()


async def asked(port: int) -> str:
    """The answer to a request on a connection of its own; another one if the connection was cut."""
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    answer = b""
    while not answer:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:  # never refused
            try:
                await stream.send(request)
                answer = await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):  # the one that ended had taken it
                continue
    return answer.decode()


@pytest.mark.parametrize(
    ("passing", "says"),
    [
        (PASS_ON, "the configuration says 127.0.0.1:1;"),
        (PASS_ON.replace('LISTEN_FDS="1"', 'LISTEN_FDS="2"'), "passes 2 sockets; pass one"),
        (PASS_ON.replace("os.dup2(int(sys.argv[1]), 3)", "os.close(int(sys.argv[1]))"), "passes no socket"),
    ],
    ids=["another address", "two sockets", "none"],
)
def test_a_socket_that_the_configuration_does_not_mean_is_refused(
    config: Path, passing: str, says: str
) -> None:
    """Its address decides whether a token is asked for, so both have to agree."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        number = held.fileno()
        command = CURRENT.command("serve", "--config", str(config), "--transport", "http", "--port", "1")
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", passing, str(number), *command],
            pass_fds=[number],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    assert done.returncode != 0
    assert says in " ".join(done.stderr.split())


@pytest.mark.parametrize("pid", ["1", "", "none"])
def test_a_socket_for_another_process_is_left_alone_and_no_server_hears_of_it(pid: str) -> None:
    """The variables go to all programs that one started. Source: sd_listen_fds(3)."""
    environ = {"LISTEN_PID": pid, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "HOME": "/home/you"}

    assert inherited_socket(Http(), environ) is None
    assert environ == {"HOME": "/home/you"}
