"""A stdio server that publishes what a file says; run as `python -I -S scripted_server.py FILE`.

The file is JSON with `tools`, `instructions` and `stderr` (lines to write at the start). It is read again for
each list, so a test changes the server by writing the file. A call of the tool `wait` is answered as soon as
there is the file that its argument names. Standard library only.
"""

import json
import os
import sys
import time
from typing import Any

Json = dict[str, Any]


def script() -> Json:
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123  # no pathlib with -S, and it starts faster
        found: Json = json.load(file)
    return found


def answer(method: str, params: Json) -> Json | None:
    """The result of a request; `None` if there is no such method."""
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "scripted", "version": "1"},
                "instructions": script().get("instructions", ""),
            }
        case "tools/list":
            return {"tools": script()["tools"]}
        case "tools/call":
            arguments = params.get("arguments") or {}
            while params.get("name") == "wait" and not os.path.exists(arguments["file"]):  # noqa: PTH110  # as above
                time.sleep(0.02)
            text = arguments["text"] if params.get("name") == "echo" else json.dumps(arguments)
            fault = (
                {"isError": True} if params.get("name") == "fail" else {}
            )  # without a fault it may be left out
            return {"content": [{"type": "text", "text": text}], **fault}
        case "ping":
            return {}
    return None


def main() -> None:
    for line in script().get("stderr", ()):
        sys.stderr.write(line + "\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        said: Json = {"jsonrpc": "2.0", "id": message["id"]}
        said |= {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
