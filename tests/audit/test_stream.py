"""The audit trail as a stream: what destinations get, and that none misses a line."""

import hmac
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from tests.audit.test_answers import Clock
from tests.catalog.databases import execute, new_catalog
from tests.support.collector import collector
from tests.support.syslog import certificate, datagram_receiver, tcp_receiver
from tests.support.waiting import eventually
from tests.surfaces.cli.rig import runner

from maitred.audit.destinations.base import Destination
from maitred.audit.destinations.otlp import OtlpDestination
from maitred.audit.destinations.syslog import SyslogDestination
from maitred.audit.destinations.webhook import WebhookDestination
from maitred.audit.log import AuditEntry, AuditLog
from maitred.audit.stream import AuditStream, StreamTarget
from maitred.audit.trail_check import verify_export
from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.storage.sqlite import SqliteDatabase
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

KEY = b"k-e-y"
SOON_S = 120.0


@dataclass(kw_only=True)
class Hook:
    """A receiver of JSON; answers with `status`, and closes without an answer after `most` messages."""

    url: str = ""
    status: int = 204
    most_bytes: int = 1_000_000
    bodies: list[bytes] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        return [line["seq"] for body in self.bodies for line in json.loads(body)["lines"]]


@contextmanager
def hook() -> Iterator[Hook]:
    found = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            is_too_large = len(body) > found.most_bytes
            status = 413 if is_too_large else found.status
            if status < 300:  # success
                found.bodies.append(body)
                found.signatures.append(self.headers.get("X-Maitred-Signature", ""))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}/audit"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_catalog(tmp_path)


def no_secrets() -> tuple[bytes, Mapping[str, str]]:
    return b"", {}


async def write(path: Path, *names: str) -> None:
    async with AuditLog(SqliteDatabase(path)) as trail:
        for name in names:
            outcome = "not_allowed" if name == "refused" else "ok"
            await trail.record(AuditEntry(who="ann", action="call", tool=name, outcome=outcome))


@asynccontextmanager
async def streaming(
    path: Path, *destinations: Destination, batch: int = 200, clock: Callable[[], Any] | None = None
) -> AsyncIterator[None]:
    """A gateway's stream to destinations that get all lines; the first is `d0`."""
    targets = [
        StreamTarget(name=f"d{number}", destination=one, batch=batch, from_start=True)
        for number, one in enumerate(destinations)
    ]
    own = {"clock": clock} if clock else {}
    stream = AuditStream(SqliteDatabase(path), targets, look_s=0.02, first_pause_s=0.02, **own)
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.run)
            yield
            tasks.cancel_scope.cancel()


def taken(path: Path) -> dict[str, int]:
    """How far each destination is, as it is in the database."""
    return dict(execute(path, "SELECT name, seq FROM audit_stream"))


async def test_a_webhook_gets_signed_lines_whose_hashes_form_the_chain(path: Path) -> None:
    """What it kept can be checked as an export can be."""
    await write(path, "a", "b")
    with hook() as found:
        destination = WebhookDestination("siem", found.url, lambda: (KEY, {}))
        async with streaming(path, destination):
            await eventually(lambda: found.numbers == [1, 2])
            await write(path, "c")
            await eventually(lambda: found.numbers == [1, 2, 3])
    body, said = found.bodies[0], dict(part.split("=") for part in found.signatures[0].split(","))
    expected = hmac.digest(KEY, said["t"].encode() + b"." + body, "sha256").hex()
    assert said["v1"] == expected
    about = json.loads(body)
    assert (about["event"], about["destination"], about["first"], about["last"]) == (
        "audit.lines",
        "siem",
        1,
        2,
    )
    lines = [line for body in found.bodies for line in json.loads(body)["lines"]]
    texts = [json.dumps(line, separators=(",", ":")) for line in lines]
    assert verify_export(texts, b"", None).faults == ()


async def test_an_outage_and_a_restart_lose_no_line(path: Path) -> None:
    await write(path, "a", "b")
    with hook() as found, capture_logs() as logs:
        destination = WebhookDestination("siem", found.url, no_secrets)
        async with streaming(path, destination):
            await eventually(lambda: taken(path) == {"d0": 2})
            found.status = 503
            await write(path, "c", "d")
            await eventually(lambda: bool(execute(path, "SELECT 1 FROM audit_stream WHERE error <> ''")))
        await write(path, "e")
        async with streaming(path, destination):
            found.status = 204
            await eventually(lambda: taken(path) == {"d0": 5})
    assert found.numbers == [1, 2, 3, 4, 5]
    warnings = [one for one in logs if one["log_level"] == "warning"]
    assert {one["reason"] for one in warnings} == {"it answered with status 503"}
    assert len(warnings) <= 2  # one of each gateway


async def test_lines_are_sent_in_batches_that_get_smaller_if_they_are_too_large(path: Path) -> None:
    await write(path, *"abcdefgh")
    with hook() as found:
        found.most_bytes = 700
        async with streaming(path, WebhookDestination("siem", found.url, no_secrets), batch=5):
            await eventually(lambda: taken(path) == {"d0": 8})
    assert found.numbers == [1, 2, 3, 4, 5, 6, 7, 8]
    assert max(map(len, found.bodies)) <= found.most_bytes


async def test_of_two_gateways_one_sends_and_the_other_goes_on_when_it_ends(path: Path) -> None:
    await write(path, "a")
    with hook() as first, hook() as second:
        async with streaming(path, WebhookDestination("siem", second.url, no_secrets)):
            await eventually(lambda: second.numbers == [1])
            async with streaming(path, WebhookDestination("siem", first.url, no_secrets)):
                await write(path, "b")
                await eventually(lambda: second.numbers == [1, 2])
        async with streaming(path, WebhookDestination("siem", first.url, no_secrets)):
            await write(path, "c")
            await eventually(lambda: taken(path) == {"d0": 3})
    assert (second.numbers, first.numbers) == ([1, 2], [3])


async def test_another_gateway_goes_on_where_one_was_killed(path: Path) -> None:
    """The one that was killed gave nothing back; its time runs out."""
    clock = Clock()
    await write(path, "a")
    with hook() as found:
        destination = WebhookDestination("siem", found.url, no_secrets)
        async with streaming(path, destination, clock=clock):
            await eventually(lambda: taken(path) == {"d0": 1})
        execute(
            path, "UPDATE audit_stream SET owner = 'killed', alive_until = '2026-03-01T12:00:30.000+00:00'"
        )
        await write(path, "b")
        async with streaming(path, destination, clock=clock):
            await anyio.sleep(0.2)
            assert found.numbers == [1]
            clock.now = clock.now.replace(minute=1)
            await eventually(lambda: found.numbers == [1, 2])


async def test_syslog_over_tcp_counts_octets_and_sends_again_what_a_lost_connection_may_have_lost(
    path: Path,
) -> None:
    await write(path, "a", "refused")
    with tcp_receiver() as found:
        port = int(found.url.rpartition(":")[2])
        destination = SyslogDestination(found.url, facility=13)
        async with streaming(path, destination):
            await eventually(lambda: taken(path) == {"d0": 2} and len(found.messages) > 1)
            first, second = found.parsed()
            assert json.loads(first["text"])["seq"] == int(first["number"]) == 1
            assert len(json.loads(first["text"])["digest"]) == 64  # SHA-256 in hex
            assert (first["priority"], second["priority"]) == (str(13 * 8 + 6), str(13 * 8 + 4))
            assert json.loads(first["text"])["at"] == first["at"]
    async with streaming(path, destination):
        await write(path, "b")
        await eventually(lambda: bool(execute(path, "SELECT 1 FROM audit_stream WHERE error <> ''")))
        with tcp_receiver(port=port) as again:
            await eventually(lambda: taken(path) == {"d0": 3})
            await eventually(lambda: len(again.messages) > 0)
    assert [one["number"] for one in again.parsed()] == ["3"]


async def test_syslog_over_tls_trusts_the_given_certificates_alone(path: Path, tmp_path: Path) -> None:
    await write(path, "a")
    context, trusted = certificate(tmp_path)
    with tcp_receiver(tls=context) as found:
        untrusting = SyslogDestination(found.url, facility=13)
        async with streaming(path, untrusting):
            await eventually(
                lambda: bool(execute(path, "SELECT 1 FROM audit_stream WHERE error LIKE '%TLS%'"))
            )
        assert found.messages == []
        async with streaming(path, SyslogDestination(found.url, facility=13, ca_file=str(trusted))):
            await eventually(lambda: len(found.messages) == 1)
    assert json.loads(found.parsed()[0]["text"])["tool"] == "a"


@pytest.mark.parametrize("is_local", [False, True])
async def test_syslog_by_datagrams_has_one_line_in_each(
    path: Path, tmp_path: Path, *, is_local: bool
) -> None:
    await write(path, "a", "b")
    with datagram_receiver(tmp_path / "log" if is_local else None) as found:
        async with streaming(path, SyslogDestination(found.url, facility=4)):
            await eventually(lambda: len(found.messages) == 2)  # both lines
    assert [json.loads(one["text"])["tool"] for one in found.parsed()] == ["a", "b"]


async def test_a_collector_gets_lines_as_log_records_with_number_and_hash(path: Path) -> None:
    await write(path, "a", "refused")
    with collector() as found:
        async with streaming(path, OtlpDestination(found.url, "maitred", lambda: (b"", {"x-key": "v"}))):
            await eventually(lambda: len(found.logs) == 2)  # both lines
    first, second = found.logs
    line = json.loads(first.body)
    assert first.attributes["maitred.audit.seq"] == line["seq"] == 1
    assert first.attributes["maitred.audit.digest"] == line["digest"]
    assert second.attributes["maitred.audit.prev"] == line["digest"]
    assert second.attributes["maitred.outcome"] == "not_allowed"
    assert found.headers[0]["x-key"] == "v"


async def test_a_gateway_streams_what_it_and_commands_write_and_shows_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`maitred audit stream` and `maitred doctor` tell of a destination that takes nothing."""
    monkeypatch.setenv("HOOK_KEY", KEY.decode())
    with hook() as found:
        destinations = f"hook: {{kind: webhook, url: '{found.url}', key: '${{HOOK_KEY}}', start: all}}"
        text = f"catalog: {{path: c.db}}\nservers: {{}}\naudit: {{stream: {{{destinations}}}}}\n"
        file = tmp_path / "maitred.yaml"
        file.write_text(text)
        settings = parse(file, text)
        run = runner(tmp_path, monkeypatch, capsys)
        with anyio.fail_after(SOON_S):
            assert "not begun" in (await anyio.to_thread.run_sync(run, "audit", "stream")).fine
            async with open_gateway(settings, serves=True):
                await anyio.to_thread.run_sync(run, "tokens", "create", "bob", "--role", "viewer")
                await eventually(lambda: len(found.numbers) > 0)
                found.status = 401
                await anyio.to_thread.run_sync(run, "tokens", "create", "eve", "--role", "viewer")
                await eventually(
                    lambda: "status 401" in str(execute(tmp_path / "c.db", "SELECT error FROM audit_stream"))
                )
            shown = (await anyio.to_thread.run_sync(run, "audit", "stream")).fine
            doctor = await anyio.to_thread.run_sync(run, "doctor")
    assert "it answered with status 401" in shown
    assert "/audit" not in shown, "the path of a webhook may be a secret"
    assert doctor.code == 1
    assert "audit stream hook: 1 line waiting; it answered with status 401" in doctor.out


@pytest.mark.parametrize(
    ("destination", "fault"),
    [
        ("{kind: webhook, url: 'http://logs.example/x'}", "must start with https://"),
        ("{kind: syslog, url: 'https://logs.example'}", "must start with tls://"),
        ("{kind: syslog, url: 'tls://logs.example'}", "must be a host and a port"),
        ("{kind: otlp, url: 'https://u:p@logs.example'}", "must hold no name or password"),
        ("{kind: otlp, url: 'https://logs.example', key: k}", "signs messages of a webhook alone"),
        ("{kind: syslog, url: 'udp://a.example:514', ca_file: x}", "is for syslog by tls://"),
        ("{kind: kafka, url: x}", "kind"),
    ],
)
async def test_a_destination_that_cannot_be_is_refused_with_its_line(destination: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault) as refused:
        parse(Path("maitred.yaml"), f"servers: {{}}\naudit:\n  stream:\n    one: {destination}\n")
    assert "line 4" in str(refused.value)
