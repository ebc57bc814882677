"""The floor of `bench/calls.py`: pass lines between a client and one server, and read nothing of them.

Run as `python -I -S bench/relay.py PROGRAM [ARGUMENT ...]`. One thread, one event loop, whole lines only:
what a gateway in Python costs before it knows what passes. Lines that arrive together leave together.
"""

import asyncio
import sys
from typing import IO


class LineRelay(asyncio.Protocol, asyncio.SubprocessProtocol):
    """Write each whole line on; what follows the last one waits for the rest of its line."""

    def __init__(self, to: asyncio.WriteTransport) -> None:
        self._to = to
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held = b""

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        lines, line_end, rest = data.rpartition(b"\n")
        if line_end:
            self._to.write(self._held + lines + line_end)
            self._held = rest
        else:
            self._held += data

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what the server wrote."""
        self.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that no more will come."""
        if not self.ended.done():
            self.ended.set_result(None)


async def main(command: list[str], stdin: IO[bytes], stdout: IO[bytes]) -> None:
    """Relay until the client or the server ends."""
    loop = asyncio.get_running_loop()
    to_client, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, stdout)
    process, answers = await loop.subprocess_exec(lambda: LineRelay(to_client), *command, stderr=None)
    to_server = process.get_pipe_transport(0)
    assert isinstance(to_server, asyncio.WriteTransport)
    _, questions = await loop.connect_read_pipe(lambda: LineRelay(to_server), stdin)
    await asyncio.wait([questions.ended, answers.ended], return_when=asyncio.FIRST_COMPLETED)
    to_server.close()
    await answers.ended


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer))
