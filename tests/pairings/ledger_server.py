"""A server that writes down what it carries out, and may ask its client first; standard library only.

Run as `python -I -S ledger_server.py ERA FILE`. `record {id, ask}` appends the id and who it is for: with
`ask`, the name that the client gives when it is asked, else "nobody". `wait` goes on until it is cancelled,
which is written down too. Each line is appended by one write.
"""

import json
import os
import sys

Json = dict[str, object]

STRING: Json = {"type": "string"}
TOOLS: list[Json] = [
    {
        "name": "record",
        "description": "Write an id down, after asking for whom.",
        "inputSchema": {
            "type": "object",
            "properties": {"id": STRING, "ask": {"type": "boolean"}},
            "required": ["id"],
        },
    },
    {
        "name": "wait",
        "description": "Wait until cancelled.",
        "inputSchema": {"type": "object", "properties": {"id": STRING}, "required": ["id"]},
    },
]
FORM: Json = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}
QUESTION: Json = {"mode": "form", "message": "Who are you?", "requestedSchema": FORM}
INFO: Json = {"name": "ledger", "version": "1"}


def part(value: object, key: str) -> Json:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


class Ledger:
    """The server; `asked` are the calls that wait for an answer, `waiting` those that wait for their end."""

    def __init__(self, era: str, path: str) -> None:
        self.stateless = era == "stateless"
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.asked: dict[str, Json] = {}
        self.waiting: dict[object, str] = {}
        self.questions = 0

    def send(self, **message: object) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def note(self, *words: str) -> None:
        os.write(self.file, (" ".join(words) + "\n").encode())

    def answer(self, number: object, **result: object) -> None:
        self.send(id=number, result={"resultType": "complete", **result} if self.stateless else result)

    def say(self, number: object, text: str, *, error: bool = False) -> None:
        self.answer(number, content=[{"type": "text", "text": text}], isError=error)

    def record(self, number: object, identity: str, name: str) -> None:
        self.note("record", identity, name)
        self.say(number, f"recorded {identity} for {name}")

    def call(self, message: Json) -> None:
        params, number = part(message, "params"), message["id"]
        arguments = part(params, "arguments")
        identity = str(arguments.get("id"))
        if params.get("name") == "wait":
            self.waiting[number] = identity
        elif not arguments.get("ask"):
            self.record(number, identity, "nobody")
        elif self.stateless:
            said = part(part(params, "inputResponses"), "who")
            if said:
                self.record(number, identity, str(part(said, "content").get("name")))
            else:
                question = {"method": "elicitation/create", "params": QUESTION}
                self.answer(
                    number,
                    resultType="input_required",
                    inputRequests={"who": question},
                    requestState=identity,
                )
        else:
            self.questions += 1
            self.asked[f"q{self.questions}"] = message
            self.send(id=f"q{self.questions}", method="elicitation/create", params=QUESTION)

    def replied(self, message: Json) -> None:
        call = self.asked.pop(str(message.get("id")), None)
        if call is None:
            return
        identity = str(part(part(call, "params"), "arguments").get("id"))
        name = part(part(message, "result"), "content").get("name")
        if isinstance(name, str):
            self.record(call["id"], identity, name)
        else:
            self.say(call["id"], f"refused: {json.dumps(message.get('error'))}", error=True)

    def cancelled(self, number: object) -> None:
        if number in self.waiting:
            self.note("cancelled", self.waiting.pop(number))
        for question, call in list(self.asked.items()):
            if call["id"] == number:
                del self.asked[question]

    def handle(self, message: Json) -> None:
        method = message.get("method")
        if method is None:
            self.replied(message)
        elif method == "notifications/cancelled":
            self.cancelled(part(message, "params").get("requestId"))
        elif "id" not in message:
            return
        elif method == "tools/call":
            self.call(message)
        elif method == "tools/list":
            self.answer(message["id"], tools=TOOLS, ttlMs=0, cacheScope="public")
        elif method == "ping" or (method == "subscriptions/listen" and self.stateless):
            self.answer(message["id"])
        elif method == "initialize" and not self.stateless:
            capabilities: Json = {"tools": {}}
            self.answer(
                message["id"], protocolVersion="2025-11-25", capabilities=capabilities, serverInfo=INFO
            )
        elif method == "server/discover" and self.stateless:
            self.answer(
                message["id"],
                supportedVersions=["2026-07-28"],
                capabilities={"tools": {}},
                serverInfo=INFO,
                ttlMs=0,
                cacheScope="public",
            )
        else:
            self.send(id=message["id"], error={"code": -32601, "message": f"Method not found: {method}"})


def main(era: str, path: str) -> None:
    ledger = Ledger(era, path)
    for line in sys.stdin:
        if line.strip():
            ledger.handle(json.loads(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
