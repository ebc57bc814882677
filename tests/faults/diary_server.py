"""A stdio server with a tool that reads and one that writes, in the file that it is given.

Run as `python -I -S diary_server.py FILE`. It has a third tool once there is a file `FILE.more`. Standard
library only, so that it starts fast.
"""

import json
import os
import sys

READ = {
    "name": "read",
    "description": "Read all entries of the diary.",
    "annotations": {"readOnlyHint": True},
}
WRITE = {"name": "write", "description": "Write an entry into the diary.", "annotations": {}}


BURN = {"name": "burn", "description": "Burn the diary.", "annotations": {}}


def tools(path: str) -> list[dict[str, object]]:
    more = [BURN] if os.path.exists(f"{path}.more") else []  # noqa: PTH110  # pathlib starts slowly
    return [{**tool, "inputSchema": {"type": "object"}} for tool in (READ, WRITE, *more)]


def called(name: object, path: str) -> str:
    if name == "write":
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123  # pathlib starts slowly
            file.write("entry\n")
        return "written"
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  # as above
            return f"{len(file.readlines())} entries"
    except FileNotFoundError:
        return "no entries"


def answer(message: dict[str, object], path: str) -> dict[str, object]:
    params = message.get("params")
    match message["method"]:
        case "initialize":
            info = {"name": "diary", "version": "1"}
            return {
                "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            }
        case "tools/list":
            return {"result": {"tools": tools(path)}}
        case "tools/call" if isinstance(params, dict):
            text = called(params.get("name"), path)
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def main(path: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            told = {"jsonrpc": "2.0", "id": message["id"], **answer(message, path)}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
