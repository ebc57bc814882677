"""A load balancer without stickiness: it gives each connection to the next replica, and copies bytes.

Run as `python bench/balancer.py PORT REPLICA_PORT ...`. It has a process of its own, so that its work counts
for no replica.
"""

import asyncio
import contextlib
import itertools
import sys

_HOST = "127.0.0.1"


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def serve(port: int, replicas: list[int]) -> None:
    turns = itertools.cycle(replicas)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in replicas:
            try:
                there, to_it = await asyncio.open_connection(_HOST, next(turns))
            except OSError:
                continue  # the next one may be there
            await asyncio.gather(_copy(reader, to_it), _copy(there, writer))
            return
        writer.close()

    server = await asyncio.start_server(take, _HOST, port, backlog=1_024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), [int(one) for one in sys.argv[2:]]))
