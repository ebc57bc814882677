"""Serve the recorded tool definitions of one server over stdio, as that server listed them.

Run as `python -I -S replay_server.py FILE SERVER [--offset N] [--page-size N] [--era ERA]`: the
standard library alone and few modules of it, because tests start more than a hundred at once.

It replays definitions, not behavior: a call is answered with its own name and arguments, and with
the least value that fits the output schema, since clients refuse a result without one. Without
`--era` it speaks what the record says: 2026-07-28 too where `discover` names it. `handshake`,
`stateless` and `both` overrule the record.
"""

import json
import os
import sys

MODERN = "2026-07-28"
PROTOCOL_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
ERAS = ("handshake", "stateless", "both")
NOISE = (
    b"Starting up, please wait ...",
    b"\x1b[32m[info]\x1b[0m listening on stdio",
    b"",
    "\u2728 ready \u2728".encode(),
    b"caf\xe9 open",
)
LISTS = {
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
}
DEEPEST_SAMPLE = 40

Json = dict[str, object]


class RpcError(Exception):
    """A request that gets a JSON-RPC error instead of a result."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.error: Json = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


def as_dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def load(path: str, server: str, offset: int | None) -> Json:
    """The record of `server`; with `offset` the line that starts there, else the first line of that name."""
    needle = json.dumps(server).encode()
    raw = json.dumps(server, ensure_ascii=False).encode()
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib starts slowly
        file.seek(offset or 0)
        for line in file:
            if needle in line or raw in line:
                record = as_dict(json.loads(line))
                if record.get("server") == server:
                    return record
            if offset is not None:
                break
    sys.exit(f"replay_server: {path} holds no server named {server!r}" + (f" at {offset}" if offset else ""))


def resolve(reference: str, root: object) -> object:
    found = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if key:
            found = as_dict(found).get(key)
    return found


def sample_object(schema: Json, root: object, depth: int) -> Json:
    properties = as_dict(schema.get("properties"))
    required = [name for name in as_list(schema.get("required")) if isinstance(name, str)]
    return {name: sample(properties.get(name, True), root, depth) for name in required}


def sample_array(schema: Json, root: object, depth: int) -> list[object]:
    items, least = schema.get("items", True), schema.get("minItems", 0)
    if isinstance(items, list):  # a tuple in draft-07
        return [sample(item, root, depth) for item in items]
    return [sample(items, root, depth)] * (least if isinstance(least, int) else 0)


def sample_number(schema: Json) -> float:
    low, high = schema.get("minimum", 0), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    if isinstance(above, int | float) and not isinstance(above, bool):
        return above + 1
    if isinstance(high, int | float) and high < 0:
        return high
    return max(low, 0) if isinstance(low, int | float) else 0


def sample_branch(schema: Json, branches: list[object], root: object, depth: int) -> object:
    """The first branch, or null where one allows it (which also ends recursion), with the keys beside it."""
    kinds = [as_dict(branch).get("type") for branch in branches]
    value = sample(branches[kinds.index("null") if "null" in kinds else 0], root, depth)
    if isinstance(value, dict):
        return {**sample_object(schema, root, depth), **value}
    return value


def sample_all(schema: Json, parts: list[object], root: object, depth: int) -> Json:
    whole = sample_object(schema, root, depth)
    for part in parts:
        whole.update(as_dict(sample(part, root, depth)))
    return whole


def sample_type(schema: Json, root: object, depth: int) -> object:
    kind = schema.get("type", "object" if "properties" in schema or "required" in schema else None)
    if isinstance(kind, list):
        kind = "null" if "null" in kind else kind[0]
    if kind == "object":
        return sample_object(schema, root, depth)
    if kind == "array":
        return sample_array(schema, root, depth)
    if kind in ("integer", "number"):
        return sample_number(schema)
    if kind == "boolean":
        return False
    if kind == "string":
        least = schema.get("minLength", 0)
        return "x" * (least if isinstance(least, int) else 0)
    return None


def sample(schema: object, root: object, depth: int = 0) -> object:
    """A small value that fits `schema`, as far as can be told without solving patterns and branches."""
    if not isinstance(schema, dict) or depth > DEEPEST_SAMPLE:
        return None
    if isinstance(reference := schema.get("$ref"), str):
        return sample(resolve(reference, root), root, depth + 1)
    if options := [schema["const"]] if "const" in schema else as_list(schema.get("enum")):
        return options[0]
    if branches := as_list(schema.get("anyOf")) or as_list(schema.get("oneOf")):
        return sample_branch(schema, branches, root, depth + 1)
    if parts := as_list(schema.get("allOf")):
        return sample_all(schema, parts, root, depth + 1)
    return sample_type(schema, root, depth + 1)


class Replay:
    """Answers the requests of one client from one record."""

    def __init__(self, record: Json, *, era: str | None, page_size: int | None) -> None:
        self.record = record
        self.tools = [as_dict(tool) for tool in as_list(record.get("tools"))]
        self.capabilities = as_dict(record.get("capabilities")) or {"tools": {}}
        self.page_size = page_size or len(self.tools) or 1
        self.discovered = as_dict(record.get("discover"))
        recorded = "both" if "supportedVersions" in self.discovered else "handshake"
        self.era = era or recorded

    def answer(self, method: str, params: Json) -> Json:
        meta = as_dict(params.get("_meta"))
        stateless = self.era != "handshake" and (method == "server/discover" or PROTOCOL_KEY in meta)
        result = self._result(method, params, stateless=stateless)
        if not stateless:
            return result
        result["resultType"] = "complete"
        if method == "server/discover" or method.endswith("/list"):
            result.update(ttlMs=0, cacheScope="private")
        return result

    def _result(self, method: str, params: Json, *, stateless: bool) -> Json:
        if method == "initialize":
            return self._initialize(params)
        if method == "server/discover":
            return self._discover()
        if method == "ping":
            return {}
        if method == "tools/list":
            return self._list(params, stateless=stateless)
        if method == "tools/call":
            return self._call(params)
        capability, key = LISTS.get(method, ("", ""))
        if capability in self.capabilities:
            return {key: []}
        raise RpcError(-32601, f"Method not found: {method}")

    def _identity(self) -> Json:
        facts: Json = {"capabilities": self.capabilities}
        if self.record.get("instructions") is not None:
            facts["instructions"] = self.record["instructions"]
        return facts

    def _initialize(self, params: Json) -> Json:
        if self.era == "stateless":
            data = {"supported": [MODERN], "requested": params.get("protocolVersion")}
            raise RpcError(-32022, "Unsupported protocol version", data)
        version = self.record.get("protocolVersion")
        return {"protocolVersion": version, "serverInfo": self.record.get("serverInfo"), **self._identity()}

    def _discover(self) -> Json:
        if self.era == "handshake":
            refusal = as_dict(self.discovered.get("error"))
            code = int(str(refusal.get("code", -32601)))
            raise RpcError(code, str(refusal.get("message", "Method not found")), refusal.get("data"))
        versions = self.discovered.get("supportedVersions") or [MODERN]
        info = self.record.get("serverInfo")
        return {"supportedVersions": versions, **self._identity(), "_meta": {SERVER_INFO_KEY: info}}

    def _list(self, params: Json, *, stateless: bool) -> Json:
        cursor = params.get("cursor")
        if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal()):
            raise RpcError(-32602, f"Invalid cursor: {cursor!r}")
        start = int(str(cursor or 0))
        end = start + self.page_size
        page = self.tools[start:end]
        if stateless:  # real servers list the same tools in both eras, with the keys in another order
            page = [dict(reversed(tool.items())) for tool in page]
        result: Json = {"tools": page}
        if end < len(self.tools):
            result["nextCursor"] = str(end)
        return result

    def _call(self, params: Json) -> Json:
        name, arguments = params.get("name"), params.get("arguments")
        tool = next((tool for tool in self.tools if tool.get("name") == name), None)
        if tool is None:
            return {"content": [{"type": "text", "text": f"Unknown tool: {name}"}], "isError": True}
        echo = {"server": self.record.get("server"), "tool": name, "arguments": arguments}
        text = json.dumps(echo, ensure_ascii=False)
        result: Json = {"content": [{"type": "text", "text": text}], "isError": False}
        if "outputSchema" in tool:
            result["structuredContent"] = sample(tool["outputSchema"], tool["outputSchema"])
        return result


def reply(replay: Replay, line: bytes) -> Json | None:
    """The message that answers one line of input; None for what needs no answer."""
    try:
        message = json.loads(line)
    except ValueError:
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    if not isinstance(message, dict) or "id" not in message or not isinstance(message.get("method"), str):
        return None
    head: Json = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        return {**head, "result": replay.answer(message["method"], as_dict(message.get("params")))}
    except RpcError as refusal:
        return {**head, "error": refusal.error}


def options(arguments: list[str]) -> dict[str, str]:
    if len(arguments) < 2 or len(arguments) % 2:
        sys.exit("usage: replay_server.py FILE SERVER [--offset N] [--page-size N] [--era ERA]")
    named = dict(zip(arguments[2::2], arguments[3::2], strict=True))
    if unknown := named.keys() - {"--offset", "--page-size", "--era"}:
        sys.exit(f"replay_server: unknown option {sorted(unknown)}")
    if named.get("--era", "both") not in ERAS:
        sys.exit(f"replay_server: --era must be one of {ERAS}")
    return named


def main(arguments: list[str]) -> None:
    named = options(arguments)
    offset, size = named.get("--offset"), named.get("--page-size")
    record = load(arguments[0], arguments[1], int(offset) if offset else None)
    replay = Replay(record, era=named.get("--era"), page_size=int(size) if size else None)
    out = sys.stdout.buffer
    noise = record.get("stdout_noise")
    for index in range(noise if isinstance(noise, int) else 0):
        out.write(NOISE[index % len(NOISE)] + b"\n")
    out.flush()
    for line in sys.stdin.buffer:
        answer = reply(replay, line) if line.strip() else None
        if answer is not None:
            out.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
            out.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)
