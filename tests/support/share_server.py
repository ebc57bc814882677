"""A server whose process has a state: a counter, facts, a resource. It tells its folder, and asks for roots.

Run as `python -I -S share_server.py NAME`: small, since tests start many of them.
"""

import json
import os
import sys
import threading
import time
from typing import Any

TOOLS = ("count", "remember", "recall", "where", "roots", "touch", "rest", "die")
URI = "note:///shared"

Json = dict[str, Any]


class Server:
    """Answers one line after the other; calls that rest have a thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counted = 0
        self._facts: dict[str, str] = {}
        self._capabilities: Json = {}
        self._waiting: list[Any] = []
        self._lock = threading.Lock()

    def _send(self, **message: Any) -> None:
        with self._lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def _answer(self, number: Any, text: str) -> None:
        self._send(id=number, result={"content": [{"type": "text", "text": text}]})

    def handle(self, message: Json) -> None:
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "tools/call":
            getattr(self, params["name"])(number, params.get("arguments") or {})
        elif method is None:
            roots = [root["uri"] for root in message.get("result", {}).get("roots", ())]
            self._answer(self._waiting.pop(), json.dumps(roots))
        elif number is not None:
            self._send(id=number, result=self._result(method, params))

    def _result(self, method: str, params: Json) -> Json:
        if method == "initialize":
            self._capabilities = params["capabilities"]
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {"subscribe": True}},
                "serverInfo": {"name": self._name, "version": "1"},
            }
        if method == "tools/list":
            read_only = {"annotations": {"readOnlyHint": True}}
            kinds: dict[str, Json] = {"where": read_only, "recall": read_only}
            schema = {"inputSchema": {"type": "object"}}
            return {"tools": [{"name": name, **schema, **kinds.get(name, {})} for name in TOOLS]}
        if method == "resources/list":
            return {"resources": [{"uri": URI, "name": "shared"}]}
        if method == "resources/read":
            return {"contents": [{"uri": URI, "text": f"{os.getpid()} {self._counted}"}]}
        return {}

    def count(self, number: Any, _: Json) -> None:
        self._counted += 1
        self._answer(number, f"{os.getpid()} {self._counted}")

    def remember(self, number: Any, arguments: Json) -> None:
        self._facts[arguments["name"]] = arguments["text"]
        self._answer(number, "noted")

    def recall(self, number: Any, _: Json) -> None:
        self._answer(number, json.dumps(self._facts))

    def where(self, number: Any, _: Json) -> None:
        folder = os.getcwd()  # noqa: PTH109 - pathlib starts slowly
        self._answer(number, json.dumps({"folder": folder, "pid": os.getpid()}))

    def roots(self, number: Any, _: Json) -> None:
        if "roots" not in self._capabilities:
            self._answer(number, "there are none to ask for")
            return
        self._waiting.append(number)
        self._send(id="roots", method="roots/list")

    def touch(self, number: Any, _: Json) -> None:
        self._send(method="notifications/resources/updated", params={"uri": URI})
        self._answer(number, "touched")

    def rest(self, number: Any, arguments: Json) -> None:
        def later() -> None:
            time.sleep(arguments["seconds"])
            self._answer(number, "rested")

        threading.Thread(target=later, daemon=True).start()

    def die(self, number: Any, _: Json) -> None:
        os._exit(3)


if __name__ == "__main__":
    served = Server(sys.argv[1])
    for line in sys.stdin:
        served.handle(json.loads(line))
