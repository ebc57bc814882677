"""400 generated files of clients: what `connect` writes is found by the client, and `disconnect` undoes it.

Each file has odd but valid content: comments, trailing commas, tabs, CRLF, byte order marks, escapes, and
other keys around the servers. Source: docs/connect.md.
"""

import json
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.config.homes import put

from maitred.config.clients.connection import (
    look_at_file,
    plan_connect,
    plan_disconnect,
    write_connection,
    write_disconnection,
)
from maitred.config.clients.discovery import servers_in
from maitred.config.clients.entries import NAME
from maitred.config.clients.files import UserMachine, form_of, parse_content
from maitred.config.clients.table import KnownClient, known_clients

TEXTS = [
    "plain",
    "Grüße",
    'a "b" \\ c',
    "tab\there",
    "{}",
    "[x]",
    "// no comment",
    "# neither",
    "\U0001f600",
    "a, }",
]
NAMES = ["time", "git hub", "größe", "a.b", "x-1", 'q"t', "Maitred", "mcpServers", "#1"]
WORDS = ["/opt/my tools/maitred", "serve", "--config", '/home/ann/größe "x".yaml']


def server(client: KnownClient, chance: random.Random) -> dict[str, Any]:
    """A server as the client writes it, by the shape of the entry of this gateway."""
    words = [f"/bin/{chance.choice(['run', 'srv'])}", *chance.sample(TEXTS, chance.randint(0, 3))]
    entry = {key: value for key, value in client.stdio(words).items() if value is not None}
    entry.pop("alwaysLoad", None)
    if chance.random() < 0.5:
        env_key = {"opencode": "environment", "goose": "envs"}.get(client.id, "env")
        entry[env_key] = {"KEY": chance.choice(TEXTS)}
    return entry


def json_text(value: Any, chance: random.Random, depth: int = 1, *, plain: bool = False) -> str:
    """JSON as people write it: any indentation, comments and trailing commas, or all on one line."""
    style = chance.random()
    if not isinstance(value, dict | list) or (not value and style < 0.7):
        return json.dumps(value, ensure_ascii=style < 0.3)
    is_open = style < 0.8
    pad = chance.choice(["  ", "    ", "\t"]) * depth if is_open else ""
    gap = "\n" + pad if is_open else chance.choice(["", " "])
    end = "\n" + pad[: len(pad) - len(pad) // depth] if is_open else chance.choice(["", " "])
    remarks = ["", "", " // a remark, with a {brace}", " /* one */"] if is_open and not plain else [""]
    items = list(value.items()) if isinstance(value, dict) else [(None, one) for one in value]
    parts = []
    for number, (key, one) in enumerate(items):
        name = "" if key is None else json.dumps(key, ensure_ascii=False) + chance.choice([":", ": ", " : "])
        is_last = number == len(items) - 1
        comma = chance.choice(["", ","]) if is_last and not plain and is_open else "" if is_last else ","
        before = chance.choice(["", "/* before */ "]) if is_open and not plain else ""
        parts.append(
            gap
            + before
            + name
            + json_text(one, chance, depth + 1, plain=plain)
            + comma
            + chance.choice(remarks)
        )
    left, right = "{}" if isinstance(value, dict) else "[]"
    return left + "".join(parts) + end + right


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(
                f"{json.dumps(key, ensure_ascii=False)} = {toml_value(one)}" for key, one in value.items()
            )
            + " }"
        )
    if isinstance(value, list):
        return "[\n  " + ",  # [remark]\n  ".join(map(toml_value, value)) + "\n]" if value else "[]"
    return json.dumps(value, ensure_ascii=False)


def toml_text(servers: Mapping[str, Any], key: str, chance: random.Random) -> str:
    lines = ['model = "x" # [not a header]', 'notes = """', "[mcp_servers.fake]", '"""', ""]
    for name, entry in servers.items():
        quoted = json.dumps(name, ensure_ascii=False)
        lines += [
            chance.choice(["", "# about the next one"]),
            f"[ {key} . {quoted} ]" if chance.random() < 0.3 else f"[{key}.{quoted}]",
        ]
        env = entry.get("env")
        lines += [f"{word} = {toml_value(value)}" for word, value in entry.items() if word != "env"]
        if env and chance.random() < 0.5:
            lines += [
                "",
                f"[{key}.{quoted}.env]",
                *(f"{word} = {toml_value(value)}" for word, value in env.items()),
            ]
        elif env:
            lines.append(f"env = {toml_value(env)}")
    if chance.random() < 0.6:
        lines += ["", "[[profiles]]", 'name = "p"', "[tui]", "theme = 'dark' # it is"]
    return "\n".join(lines) + chance.choice(["", "\n", "\n\n"])


def yaml_text(servers: Mapping[str, Any], client: KnownClient, chance: random.Random) -> str:
    lines = ["# head", "name: Local", "version: 1.0.0", "schema: v1", "models: []  # none", ""]
    body: list[str] = []
    pad = chance.choice(["", "  "]) if client.is_list else chance.choice(["  ", "    "])
    for name, entry in servers.items():
        quoted = json.dumps(name, ensure_ascii=False)
        inner = pad + "  "
        body.append(f"{pad}- name: {quoted}" if client.is_list else f"{pad}{quoted}:  # remark")
        body += [
            f"{inner}{word}: {json.dumps(value, ensure_ascii=False)}"
            for word, value in entry.items()
            if not (client.is_list and word == "name")
        ]
    remark = chance.choice(["", "  # with: a colon"])
    below = chance.choice([[], [f"{pad}# a line below"]])
    lines += (
        [f"{client.key}:{remark}", *below, *body]
        if body
        else [chance.choice([f"{client.key}: {'[]' if client.is_list else '{}'}", f"{client.key}:"])]
    )
    if chance.random() < 0.6:
        lines += ["# tail", "other: |", "  - name: text", "  mcpServers: none", "last: 'x'"]
    return "\n".join(lines) + chance.choice(["", "\n"])


def generated(client: KnownClient, chance: random.Random) -> tuple[bytes | None, dict[str, Any]]:
    """The content of a file, and its servers."""
    servers = {name: server(client, chance) for name in chance.sample(NAMES, chance.randint(0, 4))}
    kind = chance.random()
    if kind < 0.06:
        return None, {}
    if kind < 0.1 and client.form == "JSON":
        return chance.choice([b"", b"\n", b"{}", b"{}\n", b"// nothing yet\n"]), {}
    if client.form == "TOML":
        text = toml_text(servers, client.key, chance)
    elif client.form == "YAML":
        text = yaml_text(servers, client, chance)
    else:
        around: dict[str, Any] = {
            "theme": chance.choice(TEXTS),
            "Nested": {client.key: {"other": 1}},
            "n": [1, {}],
        }
        keys = [*chance.sample(list(around), chance.randint(0, 3)), client.key]
        chance.shuffle(keys)
        tree = {key: servers if key == client.key else around[key] for key in keys}
        text = json_text(tree, chance, plain=chance.random() < 0.4) + chance.choice(["", "\n"])
        text = chance.choice(["", "", "// the settings\n"]) + text
    if chance.random() < 0.25:
        text = text.replace("\n", "\r\n")
    return (b"\xef\xbb\xbf" if chance.random() < 0.1 else b"") + text.encode(), servers


def servers_of(client: KnownClient, path: Path) -> dict[str, Any]:
    data = parse_content(form_of(path), path.read_text(encoding="utf-8-sig")).get(client.key) or {}
    return {one["name"]: one for one in data} if client.is_list else data


def without_name(client: KnownClient, entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if not client.is_list or key != "name"}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in memory, if there can be one: on a disk, each of some 1,600 writes waits for the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        monkeypatch.setenv("XDG_STATE_HOME", str(Path(name) / "state"))
        yield Path(name)


@pytest.mark.parametrize("client", known_clients(), ids=lambda one: one.id)
def test_connect_and_disconnect_give_every_file_back_byte_for_byte(folder: Path, client: KnownClient) -> None:
    """32 files of each of the seventeen clients; one in four is changed in between, and merged."""
    at = UserMachine(folder, folder, {}, "linux")
    (file, *_) = [one for one in client.files if one.is_written and "linux" in one.platforms]
    entry = client.stdio(WORDS)
    for number in range(32):
        chance = random.Random(f"{client.id} {number}")
        content, servers = generated(client, chance)
        path = folder / str(number) / next(iter(file.paths(at))).name
        if content is not None:
            put(path, "").write_bytes(content)
            path.chmod(chance.choice([0o600, 0o644, 0o640]))
        mode = path.stat().st_mode if content is not None else 0
        state = look_at_file(at, client, file, path)
        assert state.fault == "", content
        assert list(state.names) == list(servers)
        out = chance.sample(list(servers), chance.randint(0, len(servers)))

        write_connection(plan_connect(state, entry, out))

        left = {name: one for name, one in servers.items() if name not in out}
        there = servers_of(client, path)
        assert list(there) == [*left, NAME], path.read_text(encoding="utf-8")
        assert without_name(client, there[NAME]) == entry
        assert [problem.name for problem in servers_in(at, client, file, path).problems] == [NAME]
        connected = path.read_bytes()
        assert (b"\r\n" in connected) == (b"\r\n" in (content or b""))
        if number % 4 == 0:
            path.write_bytes(connected + b"\n")
            undo = plan_disconnect(look_at_file(at, client, file, path))
            assert undo.way.startswith("merged")
            write_disconnection(undo)
            back = {name: servers_of(client, path)[name] for name in servers}
            assert {name: without_name(client, one) for name, one in back.items()} == servers
            assert len(servers_of(client, path)) == len(servers)
            continue
        undo = plan_disconnect(look_at_file(at, client, file, path))
        assert undo.way == "byte for byte as it was"
        write_disconnection(undo)
        assert (path.read_bytes() if path.exists() else None) == content
        if content is not None:
            assert path.stat().st_mode == mode
        else:
            assert not path.parent.exists()
