"""FastMCP's proxy as a program, in the variants that keep its servers running between calls.

Run as `python -P bench/proxies.py VARIANT FILE [PORT]`, FILE holding `{server: [program, argument, ...]}` as
JSON; with a port it serves HTTP there. `mount` mounts one proxy per server, as FastMCP's documentation
shows. `shared` gives each server one client that stays connected: the fastest way known to us, which that
documentation warns of (contexts may mix). `code` is the same with its code mode, whose tool `execute` runs
programs.
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


async def serve(variant: str, servers: dict[str, list[str]], port: int) -> None:
    """Serve the servers, over standard streams if there is no port; their tools are named `server_tool`."""
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
        if port:
            await proxy.run_async(
                "http",
                host="127.0.0.1",
                port=port,
                show_banner=False,
                log_level="ERROR",
                uvicorn_config=_QUIET,
            )
        else:
            await proxy.run_async("stdio", show_banner=False, log_level="ERROR")


_QUIET: dict[str, Any] = {"access_log": False}

if __name__ == "__main__":
    anyio.run(
        serve,
        sys.argv[1],
        json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")),
        int([*sys.argv, "0"][3]),
    )
