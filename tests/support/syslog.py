"""Receivers of syslog for tests: TCP and TLS with octet counting, UDP, and a socket of this machine."""

import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

MESSAGE = re.compile(
    r"<(?P<priority>\d{1,3})>1 (?P<at>\S+) (?P<host>\S+) maitred (?P<pid>\d+) audit"
    r' \[meta sequenceId="(?P<number>\d+)"\] (?P<text>\{.*\})'
)


@dataclass(kw_only=True)
class Receiver:
    """What came, message by message."""

    url: str
    messages: list[str] = field(default_factory=list)

    def parsed(self) -> list[re.Match[str]]:
        """The messages, each of which has to be one of RFC 5424."""
        found = [MESSAGE.fullmatch(message) for message in self.messages]
        assert all(found), self.messages
        return [one for one in found if one]


def _counted(connection: socket.socket, receiver: Receiver) -> None:
    """Take messages with their length in front, until the sender closes."""
    with connection, suppress(OSError), connection.makefile("rb") as stream:
        while True:
            length = b""
            while (sign := stream.read(1)) not in (b" ", b""):
                length += sign
            if not length:
                return
            receiver.messages.append(stream.read(int(length)).decode())


@contextmanager
def tcp_receiver(*, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver that closes all its connections with itself."""
    listener = socket.create_server(("127.0.0.1", port))
    scheme = "tls" if tls else "tcp"
    receiver = Receiver(url=f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
    connections: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listener.accept()
                try:
                    connection = tls.wrap_socket(plain, server_side=True) if tls else plain
                except OSError:  # the sender does not trust it
                    continue
                connections.append(connection)
                threading.Thread(target=_counted, args=(connection, receiver), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def datagram_receiver(path: Path | None = None) -> Iterator[Receiver]:
    """A receiver of datagrams: over UDP, or at a path of this machine."""
    taken = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_DGRAM)
    taken.bind(str(path) if path else ("127.0.0.1", 0))
    receiver = Receiver(url=f"unix://{path}" if path else f"udp://127.0.0.1:{taken.getsockname()[1]}")
    taken.settimeout(0.05)
    is_over = threading.Event()

    def take() -> None:
        while not is_over.is_set():
            with suppress(TimeoutError):
                receiver.messages.append(taken.recv(65_536).decode())

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        is_over.set()
        thread.join()
        taken.close()


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A context for a receiver on loopback, and the file by which its certificate is trusted."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "ca.pem", folder / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return context, public
