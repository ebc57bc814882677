"""Has a command of the command line run by the gateway that serves its configuration, if there is one.

Only words, output and input pass between the two processes: the gateway parses the words, acts and writes the
texts. So this process imports neither the command line nor the gateway, and servers keep their state between
two commands. A command whose words were sent is never run a second time here, unless the gateway says that it
did not begin.
"""

import os
import re
import select
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

from maitred.config.paths import default_path
from maitred.errors import DaemonError, MaitredError
from maitred.surfaces.daemon.handshake import (
    HERE,
    PLACE,
    GatewayConnection,
    decode_line,
    encode_line,
    start,
    values,
    working_folder,
)
from maitred.surfaces.daemon.liveness import answers
from maitred.surfaces.daemon.sockets import GatewayEndpoint, address_of, can_share

HOSTED: Final = frozenset(
    [
        *("search", "info", "call", "chain", "menu", "categories", "list", "tools", "profiles"),
        *("stats", "tiers", "approvals", "approve", "reject", "suspend", "resume", "explain", "calls"),
        *("disable", "enable", "logs", "restart", "refresh"),
    ]
)
"""The commands that a gateway may run for another process."""

AS_TOKEN: Final = "MAITRED_AS_TOKEN"  # noqa: S105  # a name
_OF_TERMINALS: Final = (
    *("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"),
    *("TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"),
)
"""The variables by which output depends on the terminal."""

_ALONE: Final = re.compile("--help|--interactive|-[afjqvy]*[hi].*")
"""Words after the command's name with which it runs in its own process, since they need its terminal.

Before the last letter are those of other options without a value.
"""
_VERBOSE: Final = re.compile("--verbose|-[afjqy]*v.*")
_BEFORE: Final = re.compile("--verbose|--quiet|-[qv]+")

_IN_WORDS: Final = {HERE: "the folder", PLACE: "the sandbox"}
_KINDS: Final = ("daemon", "http")
_HELLO_S: Final = 10.0
_QUIET_S: Final = 10.0
_CHUNK: Final = 1 << 18


class _Words(NamedTuple):
    """A command line: the command with its own words, and the `--config` among them, empty without one."""

    words: Sequence[str]
    config: str
    verbose: bool
    quiet: bool


class _NotRunError(DaemonError):
    """The gateway did not begin the command; the reason is for a person who asked for more words."""


def run_in_gateway(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Run a command line in a running gateway; its exit code, or `None` if this process has to run it.

    Raises:
        DaemonError: The gateway ended or hangs after it was asked, so the command may have been run.
    """
    line = _split(arguments)
    if line is None or not can_share() or environ.get(AS_TOKEN) == "":
        return None
    tells: list[str] = []
    try:
        code = _run(line, environ, tells)
    except KeyboardInterrupt:
        code = 130  # as the command line does
    except BrokenPipeError:  # the reader of our output is gone; Python would report it at its end, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1
    if line.verbose:
        sys.stderr.write("".join(f"{one}\n" for one in tells))
    return code


def _split(arguments: Sequence[str]) -> _Words | None:
    """The parts of a command line; `None` if no gateway runs it."""
    before = list(takewhile(_BEFORE.fullmatch, arguments))
    words = arguments[len(before) :]
    if not words or words[0] not in HOSTED:
        return None
    own = list(takewhile(lambda word: word != "--", words))
    if any(map(_ALONE.fullmatch, own)):
        return None
    config = ""
    for at, word in enumerate(own):
        if word in ("-c", "--config"):
            config = words[at + 1] if at + 1 < len(words) else ""
        elif word.startswith("--config="):
            config = word.partition("=")[2]
        elif word.startswith("-c") and not word.startswith("--"):
            config = word[2:]
    verbose = any(map(_VERBOSE.fullmatch, [*before, *own]))
    quiet = any(word == "--quiet" or (word[:2] != "--" and "q" in word) for word in before)
    return _Words(words, config, verbose=verbose, quiet=quiet)


def _run(line: _Words, environ: Mapping[str, str], tells: list[str]) -> int | None:
    """The exit code of the command, run by the first gateway that takes it; notes why one did not."""
    try:
        config = Path(line.config) if line.config else default_path(environ)
        address = address_of(config, environ)
        seats = sorted(address.seats(), key=lambda seat: seat.kind)
    except (MaitredError, OSError) as error:
        tells.append(f"no gateway is looked for: {error}")
        return None
    for seat in seats:
        if seat.kind not in _KINDS or not seat.lives():
            continue
        if not seat.name.startswith(f"{address.key}-{address.build}-"):
            tells.append(f"the gateway of process {seat.pid()} is of another installation or version")
            continue
        try:
            connection = _connected(seat, environ)
        except (_NotRunError, OSError) as error:
            tells.append(f"the gateway of process {seat.pid()} does not run this command: {error}")
            continue
        try:
            request = {
                "words": list(line.words),
                "config": str(config),
                **_terminals(environ),
                "quiet": line.quiet,
            }
            code = _follow(connection, request, seat.pid())
        except _NotRunError as error:
            tells.append(f"the gateway of process {seat.pid()} does not run this command: {error}")
            return None
        finally:
            connection.close()
        tells.append(f"the gateway of process {seat.pid()} ran this command")
        return code
    if not tells:
        tells.append(f"no gateway serves {config.absolute()} now")
    return None


def why_not_run(config: Path, environ: Mapping[str, str]) -> str:
    """Why no running gateway takes commands of this process; empty if that is not known."""
    with suppress(MaitredError, OSError):
        address = address_of(config, environ)
        for seat in sorted(address.seats(), key=lambda seat: seat.kind):
            if seat.kind not in _KINDS or not seat.lives():
                continue
            if not seat.name.startswith(f"{address.key}-{address.build}-"):
                return "it is of another installation or version"
            try:
                _connected(seat, environ).close()
            except _NotRunError as error:
                return str(error)
    return ""


def _connected(seat: GatewayEndpoint, environ: Mapping[str, str]) -> GatewayConnection:
    """A connection to a gateway that has the same environment as we.

    Raises:
        OSError: It does not listen.
        _NotRunError: It does not take commands of this process.
    """
    connection = GatewayConnection(seat.socket, _HELLO_S)
    hello = {"token": environ.get(AS_TOKEN, ""), "values": values(), "start": start()}
    try:
        answer = connection.ask({"maitred": "command", **hello})
    except TimeoutError:
        answer = {"why": "it does not answer"}
    if answer.get("maitred") == "welcome":
        return connection
    connection.close()
    names = answer.get("names")
    if isinstance(names, list):
        named = ", ".join(_IN_WORDS.get(name, name) for name in map(str, names))
        raise _NotRunError(f"its environment has other values of {named}")
    raise _NotRunError(str(answer.get("why") or "it is ending"))


def _terminals(environ: Mapping[str, str]) -> dict[str, Any]:
    """What the gateway has to know of our standard streams."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    known = {name: environ[name] for name in _OF_TERMINALS if name in environ}
    columns, lines = _size(streams)
    known.setdefault("COLUMNS", columns)
    known.setdefault("LINES", lines)
    return {
        "environ": known,
        "folder": working_folder(),
        "terminals": [stream is not None and stream.isatty() for stream in streams],
        "encodings": [getattr(stream, "encoding", None) or "utf-8" for stream in streams],
    }


def _size(streams: Sequence[Any]) -> tuple[str, str]:
    """The columns and lines of the first stream that is a terminal; else those that programs assume."""
    for stream in streams:
        try:
            size = os.get_terminal_size(stream.fileno())
        except (AttributeError, ValueError, OSError):
            continue
        if size.columns and size.lines:
            return str(size.columns), str(size.lines)
    return "80", "25"


def _follow(connection: GatewayConnection, request: Mapping[str, Any], pid: int) -> int:
    """Send the words of a command, write what it writes, and return its exit code.

    Raises:
        _NotRunError: The gateway did not begin it.
        DaemonError: The gateway ended or hangs.
    """
    _send(connection, {"maitred": "run", **request})
    for line in _lines(connection, pid, only_reads=request["words"][0] == "logs"):
        message = decode_line(line)
        kind, text = message.get("maitred"), str(message.get("text", ""))
        if kind in ("out", "err"):
            stream = sys.stdout if kind == "out" else sys.stderr
            stream.write(text)
            stream.flush()
        elif kind == "ask":
            _send(connection, {"maitred": "input", "text": _input()})
        elif kind == "elsewhere":
            raise _NotRunError(text)
        elif kind == "end":
            return int(message.get("code", 1))
    raise DaemonError(
        f"the gateway (process {pid}) ended before the command did, which is not run again, as it may have "
        "had an effect; see `maitred audit` and `maitred logs`"
    )


def _input() -> str:
    """All of standard input; bytes that are not UTF-8 keep their place."""
    buffer = getattr(sys.stdin, "buffer", None)
    if buffer is None:  # closed, or replaced by a program
        return sys.stdin.read() if sys.stdin else ""
    data: bytes = buffer.read()
    return data.decode("utf-8", "surrogateescape")


def _pipe_of_output() -> int | None:
    """The descriptor of standard output, if it is a pipe."""
    try:
        descriptor = sys.stdout.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (AttributeError, ValueError, OSError):  # closed, or replaced by a program
        return None


def _send(connection: GatewayConnection, message: Mapping[str, Any]) -> None:
    """Send a message; that a gateway is gone is seen when its answer is read."""
    with suppress(ConnectionError):
        connection.socket.sendall(encode_line(message))


def _lines(connection: GatewayConnection, pid: int, *, only_reads: bool) -> Iterator[bytes]:
    """The lines that a gateway sends until it hangs up.

    A command that only reads ends, too, when our output has no reader any more.

    Raises:
        BrokenPipeError: Our output has no reader.
        DaemonError: The gateway hangs.
    """
    rest = connection.rest
    waiting = select.poll()
    waiting.register(connection.socket, select.POLLIN)
    output = _pipe_of_output() if only_reads else None
    if output is not None:
        waiting.register(output, 0)  # for its end alone
    while True:
        *whole, rest = rest.split(b"\n")
        yield from whole
        while not (ready := dict(waiting.poll(_QUIET_S * 1_000))):
            if not answers(connection):
                raise DaemonError(
                    f"the gateway (process {pid}) does not answer, and the command may have been run; "
                    "see `maitred audit` after `maitred stop`"
                )
        if output in ready:
            raise BrokenPipeError
        try:
            data = connection.socket.recv(_CHUNK)
        except ConnectionError:
            return
        if not data:
            return
        rest += data
