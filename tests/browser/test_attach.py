"""Connecting to a browser that runs: each known reason for a failure is told apart, with what to do."""

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.chromium import OPTIONS, Running

from maitred.browser import attach as module
from maitred.browser.attach import attach, find_address
from maitred.browser.errors import AttachError

pytestmark = pytest.mark.anyio


async def reached(place: str = "", port: int = 0, host: str = "127.0.0.1", **more: Any) -> str:
    """The product of the browser that is reached."""
    options = replace(OPTIONS, **more)
    async with attach(await find_address(place, port, host, options), options) as running:
        return str((await running.connection.send("Browser.getVersion"))["product"])


async def refused(fault: str, place: str = "", port: int = 0, host: str = "127.0.0.1", **more: Any) -> str:
    """The text of an error that names one of the known reasons."""
    options = replace(OPTIONS, **more)
    with pytest.raises(AttachError) as caught:
        async with attach(await find_address(place, port, host, options), options):
            pass
    assert caught.value.fault == fault
    return str(caught.value)


@contextmanager
def answering(
    status: int,
    text: str = "",
    headers: Mapping[str, str] | None = None,
    host: str = "127.0.0.1",
    certificate: Path | None = None,
) -> Iterator[int]:
    """A port that answers every HTTP request in the same way."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Connection", "close")
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    class Server(HTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, *_: Any) -> None:
            """A client that refuses the certificate is no error of the test."""

    with Server((host, 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def self_signed(file: Path) -> None:
    """Write a certificate of localhost, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + certificate.public_bytes(pem))


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing, as Chrome does until its user consents."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


async def test_a_browser_is_reached_by_port_address_and_profile(running: Running) -> None:
    """Each way leads to the same browser. Source: issue 19, point 1."""
    for place in (running.address, f"http://localhost:{running.port}", str(running.profile)):
        assert (await reached(place)).startswith("Chrome/")
    assert (await reached(port=running.port, host="localhost")).startswith("Chrome/")


async def test_where_nothing_listens_the_error_says_how_to_start_a_browser() -> None:
    with silent() as port:
        pass
    assert "chrome_launch" in await refused("no_listener", port=port)
    assert "no browser answers" in await refused("no_listener", f"ws://127.0.0.1:{port}/devtools/browser/x")


async def test_what_is_no_browser_is_named_so() -> None:
    with answering(200, '{"webSocketDebuggerUrl": 7}') as port:
        assert "no browser with a debugging port" in await refused("not_chrome", port=port)
    with answering(500) as port:
        await refused("not_chrome", port=port)


async def test_a_chrome_that_its_user_opened_is_reached_by_its_profile(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Chrome 144 its port answers 404: the known profile folders are tried, else one is asked for."""
    monkeypatch.setattr(module, "_PROFILES", (str(tmp_path),))
    with answering(404) as port:
        assert "give the folder as `address`" in await refused("needs_profile", port=port)
        (tmp_path / "DevToolsActivePort").write_text(f"{port}\n/devtools/browser/none")
        await refused("refused_connection", port=port)
    (tmp_path / "DevToolsActivePort").write_text((running.profile / "DevToolsActivePort").read_text())
    assert (await reached(str(tmp_path))).startswith("Chrome/")


async def test_a_profile_without_debugging_says_where_its_user_turns_it_on(tmp_path: Path) -> None:
    why = await refused("not_enabled", str(tmp_path))
    assert "chrome://inspect/#remote-debugging" in why
    assert "no profile folder" in await refused("not_enabled", str(tmp_path / "none"))
    with silent() as port:
        pass
    (tmp_path / "DevToolsActivePort").write_text(f"{port}\n/devtools/browser/x")
    await refused("no_listener", str(tmp_path))


async def test_a_file_in_a_profile_cannot_lead_to_another_host(tmp_path: Path) -> None:
    """With `9222 @evil.example/x` the address would be that of evil.example."""
    file = tmp_path / "DevToolsActivePort"
    for text in ("9222\n@evil.example/x", "9222 evil.example/x", "-1 /x", "x@evil.example:9222 /x"):
        file.write_text(text)
        assert "allows no debugging" in await refused("not_enabled", str(tmp_path))


async def test_a_redirect_is_not_followed(running: Running) -> None:
    """What answers at an allowed host cannot lead to a host that is not allowed."""
    with answering(302, headers={"Location": running.address}) as port:
        why = await refused("refused_connection", f"ws://127.0.0.1:{port}/devtools/browser/x")
    assert "HTTP status 302" in why


async def test_a_secure_address_and_one_of_ipv6_lead_to_a_secure_socket_and_ipv6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that is not trusted is named so."""
    said = '{"webSocketDebuggerUrl": "ws://elsewhere/devtools/browser/x"}'
    with answering(200, said, host="::1") as port:
        where = f"[::1]:{port}/devtools/browser/x"
        assert await find_address(f"http://[::1]:{port}", 0, "", OPTIONS) == f"ws://{where}"
        assert await find_address("", port, "::1", OPTIONS) == f"ws://{where}"
    certificate = tmp_path / "localhost.pem"
    self_signed(certificate)
    with answering(200, said, certificate=certificate) as port:
        place = f"https://localhost:{port}"
        assert "cannot be trusted" in await refused("not_chrome", place)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await find_address(place, 0, "", OPTIONS) == f"wss://localhost:{port}/devtools/browser/x"


async def test_the_users_own_profile_is_of_this_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser at the same port of another host is another one."""
    monkeypatch.setattr(module, "_PROFILES", (str(tmp_path),))
    name = socket.gethostname()
    with answering(404, host=socket.gethostbyname(name)) as port:
        (tmp_path / "DevToolsActivePort").write_text(f"{port}\n/devtools/browser/mine")
        await refused("needs_profile", port=port, host=name, hosts=(name,))


async def test_a_user_who_does_not_consent_in_time_is_named(tmp_path: Path) -> None:
    """Chrome keeps the handshake open until its user decides; the limit is 60 s by default."""
    assert OPTIONS.consent_s == 60
    with silent() as port:
        (tmp_path / "DevToolsActivePort").write_text(f"{port}\n/devtools/browser/x")
        why = await refused("no_consent", str(tmp_path), consent_s=0.2)
    assert "its user has to allow it" in why


async def test_another_machine_needs_the_operators_word(running: Running) -> None:
    """A debugging port is full control of a browser. Source: notes, Security."""
    assert "`hosts`" in await refused("host_not_allowed", port=running.port, host="example.com")
    await refused("host_not_allowed", "ws://192.0.2.1:9222/devtools/browser/x")
    await refused("address_unreadable", "http://:0/")
