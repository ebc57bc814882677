"""A new user in a container: types command lines, then does what a client does with the entry that it finds.

Reads what to do as JSON from its first argument, and prints what came of it as JSON. It needs the standard
library, and for the client the SDK.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

START_S = 300


def play(line: str, home: Path) -> Mapping[str, Any]:
    """Run one command line without a shell; both outputs are in the order in which they came."""
    done = subprocess.run(
        shlex.split(line), cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return {"code": done.returncode, "said": done.stdout}


async def use(entry: Mapping[str, Any], call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Start the command of an entry, list its tools, and call one, as a client does."""
    words = StdioServerParameters(command=entry["command"], args=entry["args"], env=dict(os.environ))
    with anyio.fail_after(START_S):
        async with Client(stdio_client(words)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool(call["name"], call["arguments"])
    return {
        "tools": tools,
        "answer": result.content[0].model_dump()["text"],
        "is_error": bool(result.is_error),
    }


def main() -> None:
    """Play the command lines, then call by the entry of the client."""
    given = json.loads(sys.argv[1])
    home = Path.home()
    for path in given["files"]:
        shutil.copy(path, home)
    played = [play(line, home) for line in given["lines"]]
    file, used = home / given["client"], None
    if file.exists():
        entry = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["maitred"]
        used = anyio.run(use, entry, given["call"])
    sys.stdout.write(json.dumps({"played": played, "used": used}))


if __name__ == "__main__":
    main()
