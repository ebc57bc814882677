"""A stdio server whose list changes: run as `python -I -S growing_server.py`; standard library only.

`echo` answers with its arguments, `wait` goes on until it is cancelled, and `change` gives the list another
tool in place of the last one, which it announces.
"""

import json
import sys

Json = dict[str, object]

OBJECT: Json = {"type": "object", "properties": {"text": {"type": "string"}}}


class GrowingServer:
    """The server; `changes` counts how often its list changed."""

    def __init__(self) -> None:
        self.changes = 0

    def send(self, **message: object) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def tools(self) -> list[Json]:
        about = {
            "echo": "Say a text again.",
            "wait": "Wait until cancelled.",
            "change": "Change the list of tools.",
            f"report_{self.changes}": f"Make report number {self.changes} of the archive.",
        }
        return [{"name": name, "description": text, "inputSchema": OBJECT} for name, text in about.items()]

    def call(self, number: object, params: Json) -> None:
        name = params.get("name")
        if name == "wait":
            return
        if name == "change":
            self.changes += 1
            self.send(method="notifications/tools/list_changed")
        text = json.dumps(params.get("arguments"))
        self.send(id=number, result={"content": [{"type": "text", "text": text}]})

    def handle(self, message: Json) -> None:
        number, params = message.get("id"), message.get("params")
        if number is None or not isinstance(params, dict):
            params = params if isinstance(params, dict) else {}
        match message.get("method"):
            case _ if number is None:
                return
            case "initialize":
                self.send(
                    id=number,
                    result={
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {"listChanged": True}},
                        "serverInfo": {"name": "growing", "version": "1"},
                    },
                )
            case "tools/list":
                self.send(id=number, result={"tools": self.tools()})
            case "tools/call":
                self.call(number, params)
            case "ping":
                self.send(id=number, result={})
            case _:
                self.send(id=number, error={"code": -32601, "message": "Method not found"})


def main() -> None:
    server = GrowingServer()
    for line in sys.stdin:
        server.handle(json.loads(line))


if __name__ == "__main__":
    main()
