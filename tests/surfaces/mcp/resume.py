"""A client of the Python SDK 1 that calls a tool, and prints the answer as one line of JSON.

Usage: python resume.py URL TOOL ARGUMENTS, by a Python that has that SDK.
"""

# mypy: ignore-errors  # it is for another version of the SDK

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def main(url: str, tool: str, arguments: str) -> None:
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        result = await session.call_tool(tool, json.loads(arguments))
        sys.stdout.write(json.dumps({"text": result.content[0].text}))


asyncio.run(main(*sys.argv[1:]))
