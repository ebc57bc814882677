"""A stdio MCP server of the handshake era with long names and long answers, for tests of clients' limits.

Run as `python -I -S wordy_server.py COUNT`. It has `page(characters)`, which answers with a text of that
length, `shaped(characters)`, whose answer has a declared form, and COUNT tools with long names.
"""

import json
import sys
from typing import Any

WORDS = "The quick brown fox jumps over the lazy dog near the river bank. "
LONG = "list_everything_that_was_ever_written_about_subject_number_{:04}"
SIZE = {"type": "object", "properties": {"characters": {"type": "integer"}}, "required": ["characters"]}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def tools(count: int) -> list[dict[str, Any]]:
    own: list[dict[str, Any]] = [
        {"name": "page", "description": "A page of text", "inputSchema": SIZE},
        {"name": "shaped", "description": "A page in a form", "inputSchema": SIZE, "outputSchema": TEXT},
    ]
    return own + [{"name": LONG.format(n), "inputSchema": {"type": "object"}} for n in range(count)]


def result(method: str, params: dict[str, Any], count: int) -> dict[str, Any]:
    if method == "initialize":
        own = {"name": "wordy", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": own}
    if method == "tools/list":
        return {"tools": tools(count)}
    if method == "tools/call":
        size = params["arguments"].get("characters", 0)
        text = (WORDS * (size // len(WORDS) + 1))[:size] or params["name"]
        shaped = {"structuredContent": {"text": text}} if params["name"] == "shaped" else {}
        return {"content": [{"type": "text", "text": text}], **shaped}
    return {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = result(message["method"], message.get("params", {}), int(sys.argv[1]))
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
