"""A stdio server that tells the credential that it was started with, in one chosen way.

Run as `python -I -S telltale_server.py WAY [FORM]` with the credential in the variable `CREDENTIAL`. `dies`
writes it to standard error and ends; `refuses` answers calls of `look` with it in a JSON-RPC error; `lists`
cannot list its resources, for a reason that holds it; `answers` has it in the answers of `look`. `FORM` is
how it is written.
"""

import base64
import json
import os
import sys
from collections.abc import Callable
from urllib.parse import quote

FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: f"cannot log in with {text}, giving up",
    "url": lambda text: f"GET https://api.example/v1?key={quote(text, safe='')} answered 401",
    "json": lambda text: json.dumps({"level": "error", "key": text}),
    "json-in-json": lambda text: json.dumps({"message": json.dumps({"key": text})}),
    "repr": lambda text: f"Client(key={text!r})",
    "base64": lambda text: f"Authorization: Basic {base64.b64encode(text.encode()).decode()}",
    "basic": lambda text: f"Authorization: Basic {base64.b64encode(b'me:' + text.encode()).decode()}",
    "hex": lambda text: f"key {text.encode().hex()} is not valid",
    "cut": lambda text: f"{'x' * 1_985} key {text}",
    "cut-early": lambda text: f"cannot log in with {text[:-4]}...",
    "over-lines": lambda text: f"cannot log in with {text[:14]}\n{text[14:]}",
}


def answer(message: dict[str, object], way: str, form: str) -> dict[str, object]:
    told = FORMS[form](os.environ["CREDENTIAL"])
    match message["method"]:
        case "initialize":
            info = {"name": "telltale", "version": "1"}
            capabilities: dict[str, object] = {"tools": {}, **({"resources": {}} if way == "lists" else {})}
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            return {"result": result}
        case "tools/list":
            tool = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
            return {"result": {"tools": [tool]}}
        case "tools/call" if way == "answers":
            return {"result": {"content": [{"type": "text", "text": told}]}}
        case "tools/call" | "resources/list":
            return {"error": {"code": -32000, "message": told, "data": {"request": [told]}}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def main(way: str, form: str = "plain") -> None:
    if way == "dies":
        sys.exit(FORMS[form](os.environ["CREDENTIAL"]))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            told = {"jsonrpc": "2.0", "id": message["id"], **answer(message, way, form)}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
