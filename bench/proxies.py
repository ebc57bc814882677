"""FastMCP's proxy as a program, in the variants that keep its servers running between calls.

Run as `python -P bench/proxies.py VARIANT FILE`, FILE holding `{server: [program, argument, ...]}` as JSON.
`mount` mounts one proxy per server, as FastMCP's documentation shows. `shared` gives each server one client
that stays connected: the fastest way known to us, which that documentation warns of (contexts may mix).
`code` is the same with its code mode, whose tool `execute` runs programs, as its defaults have it.
"""

import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy
from fastmcp.server.providers.proxy import ProxyProvider


def _always(client: Client[Any]) -> ProxyProvider:
    return ProxyProvider(lambda: client)


async def serve(variant: str, servers: dict[str, list[str]]) -> None:
    """Serve the servers over standard streams; their tools are named `server_tool`."""
    proxy: FastMCP[Any] = FastMCP("proxy")
    if variant == "code":
        proxy.add_transform(CodeMode())
    async with AsyncExitStack() as clients:
        for name, (program, *arguments) in servers.items():
            transport = StdioTransport(program, arguments, keep_alive=True)
            if variant == "mount":
                proxy.mount(create_proxy(transport), namespace=name)
            else:
                client = await clients.enter_async_context(Client(transport, mode="auto"))
                proxy.add_provider(_always(client), namespace=name)
        await proxy.run_async("stdio", show_banner=False, log_level="ERROR")


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
