"""A stdio server whose changes can be counted: each adds the id of its call to a file.

Run as `python -I -S ledger_server.py FILE`. Two processes of it at the same time leave a line `overlap`.
Standard library only, so that it starts fast.
"""

import fcntl
import json
import os
import sys
import time
from typing import Any

TOOLS = [
    {"name": "add", "inputSchema": {"type": "object"}},
    {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]


def note(path: str, line: str) -> None:
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123  # pathlib starts slowly
        file.write(line + "\n")


def called(params: dict[str, Any], path: str) -> str:
    if params["name"] == "add":
        note(path, params["arguments"]["id"])
        time.sleep(0.01)  # so that calls are under way when a replica is killed
    return f"done by {os.getpid()}"


def result_of(message: dict[str, Any], path: str) -> dict[str, object] | None:
    match message["method"]:
        case "initialize":
            info = {"name": "ledger", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            text = called(message["params"], path)
            return {"content": [{"type": "text", "text": text}]}
        case "ping":
            return {}
    return None


def main(path: str) -> None:
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:  # noqa: PTH123  # as above
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(path, "overlap")
        for line in sys.stdin:
            message = json.loads(line)
            if "id" not in message:
                continue
            result = result_of(message, path)
            error = {"error": {"code": -32601, "message": "Method not found"}}
            body = error if result is None else {"result": result}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
