"""Messages about calls that wait: what is sent, signed and bounded, to a real server."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import anyio
import pytest
from anyio import to_thread
from structlog.testing import capture_logs
from tests.held_calls.bank import OVER_100, Bank, calling, opened

from maitred.config.settings import HeldCallSettings
from maitred.held_calls import webhook
from maitred.model.access import LOCAL_USER
from maitred.signed_post import SIGNATURE

pytestmark = pytest.mark.anyio

KEY = "k-e-y"


@contextmanager
def receiver(status: int = 204) -> Iterator[tuple[str, "Queue[tuple[Any, bytes]]"]]:
    """A server that takes messages; its address, and what came."""
    came: Queue[tuple[Any, bytes]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.put((self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", came
        finally:
            server.shutdown()
            thread.join()


async def test_a_call_that_waits_in_the_inbox_is_announced_without_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLD_KEY", KEY)
    with receiver() as (address, came):
        async with opened(tmp_path, Bank(), OVER_100) as gateway:
            settings = replace(gateway.settings.held_calls, webhook=address, webhook_key="${HOLD_KEY}")
            await gateway.configure(replace(gateway.settings, held_calls=settings), viewer=LOCAL_USER)
            async with calling(gateway, {"amount": 150, "note": "s3cret"}) as (call, held):
                headers, body = await to_thread.run_sync(came.get)
                await gateway.decide_call(held.id, "once", LOCAL_USER)
            assert call.text == "done refund"
    message = json.loads(body)
    assert (message["event"], message["id"], message["principal"]) == ("call.held", held.id, "ann")
    assert b"s3cret" not in body
    signed = dict(part.split("=") for part in headers[SIGNATURE].split(","))
    expected = hmac.new(KEY.encode(), signed["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert signed["v1"] == expected


@pytest.mark.parametrize("status", [500, 302, 0])
async def test_a_message_that_fails_is_logged_and_nothing_else(tmp_path: Path, status: int) -> None:
    """A receiver that refuses it, one that sends it elsewhere, and none."""
    async with opened(tmp_path, Bank(), OVER_100) as gateway, calling(gateway, {"amount": 150}) as (_, held):
        await gateway.decide_call(held.id, "refuse", LOCAL_USER)
    with capture_logs() as logs, anyio.fail_after(60):
        if status:
            with receiver(status) as (address, came):
                await webhook.send(held, HeldCallSettings(webhook=address), resolve=str)
                assert came.qsize() == 1
        else:
            await webhook.send(held, HeldCallSettings(webhook="http://127.0.0.1:9/x"), resolve=str)
    failures = [line["log_level"] for line in logs if "the message about a held call" in line["event"]]
    assert failures == ["warning"]
