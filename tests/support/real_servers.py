"""The real servers of the end-to-end tests: how each is started, and calls of it that are known to answer.

Other people wrote these servers; `make servers` installs them at pinned versions and they run offline. This
is not a fixture: it starts nothing but the small page that `fetch` reads. The calls were made by hand once,
straight at each server, and their answers stand here, so a wrong answer is the gateway's.
"""

import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NPM = ROOT / ".servers" / "npm" / "node_modules" / ".bin"
OLD = ROOT / ".servers" / "old" / "bin"
EXCEL = ROOT / ".servers" / "excel" / "bin"
OWN = Path(sys.executable).parent
PAGE_TEXT = "The kettle of the loopback page is blue."

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a set of servers works: their folder, the page to fetch, and a tag that tells callers apart."""

    folder: Path
    page_url: str = ""
    tag: str = "one"


@dataclass(frozen=True, kw_only=True)
class VerifiedCall:
    """A call with what its answer says: a part of its text, and a part of its structured content."""

    tool: str
    arguments: Json = field(default_factory=dict)
    says: str = ""
    structured: Json = field(default_factory=dict)
    read_only: bool = False

    def assert_answered(self, result: Any) -> None:
        """Fail unless a `CallToolResult` holds what this call is known to answer."""
        text = "\n".join(block.text for block in result.content if block.type == "text")
        assert not result.is_error, f"{self.tool}: {text}"
        assert self.says in text, f"{self.tool}: {self.says!r} is not in {text[:500]!r}"
        structured = result.structured_content or {}
        found = {key: structured.get(key) for key in self.structured}
        assert found == self.structured, f"{self.tool}: {structured}"


@dataclass(frozen=True, kw_only=True)
class RealServer:
    """One server: its program, its entry in a configuration, and its verified calls."""

    name: str
    program: Path
    tools: int
    calls: Callable[[Place], Sequence[VerifiedCall]]
    args: Callable[[Path], Sequence[str]] = lambda _: ()
    env: Callable[[Path], Mapping[str, str]] = lambda _: {}
    prepare: Callable[[Path], None] = lambda _: None

    @property
    def is_installed(self) -> bool:
        return self.program.exists()

    def entry(self, folder: Path) -> Json:
        """Its entry in `maitred.yaml`; what it needs in `folder` is made."""
        self.prepare(folder)
        entry: Json = {"command": str(self.program), "args": list(self.args(folder))}
        return entry | ({"env": dict(env)} if (env := self.env(folder)) else {})


def _everything(_: Place) -> Sequence[VerifiedCall]:
    weather = {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
    return (
        VerifiedCall(
            tool="get-sum", arguments={"a": 2, "b": 40}, says="The sum of 2 and 40 is 42.", read_only=True
        ),
        VerifiedCall(
            tool="get-structured-content",
            arguments={"location": "New York"},
            says='"conditions":"Cloudy"',
            structured=weather,
            read_only=True,
        ),
    )


def _filesystem(place: Place) -> Sequence[VerifiedCall]:
    path = str(place.folder / "files" / f"{place.tag}.txt")
    written = {"path": path, "content": "first line\nsecond line\n"}
    return (
        VerifiedCall(tool="write_file", arguments=written, says="Successfully wrote to"),
        VerifiedCall(
            tool="read_text_file", arguments={"path": path, "head": 1}, says="first line", read_only=True
        ),
    )


def _memory(place: Place) -> Sequence[VerifiedCall]:
    entity = {"name": f"Ada-{place.tag}", "entityType": "person", "observations": ["wrote the first program"]}
    return (
        VerifiedCall(
            tool="create_entities", arguments={"entities": [entity]}, structured={"entities": [entity]}
        ),
        VerifiedCall(
            tool="open_nodes",
            arguments={"names": [entity["name"]]},
            structured={"entities": [entity], "relations": []},
            read_only=True,
        ),
    )


def _sequential_thinking(_: Place) -> Sequence[VerifiedCall]:
    thought = {"thought": "One.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    answer = {"thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}
    return (VerifiedCall(tool="sequentialthinking", arguments=thought, structured=answer, read_only=True),)


def _sqlite(place: Place) -> Sequence[VerifiedCall]:
    table = "t_" + "".join(c if c.isalnum() else "_" for c in place.tag)
    create = f"CREATE TABLE IF NOT EXISTS {table} (city TEXT, people INTEGER)"
    insert = f"INSERT INTO {table} VALUES ('Ulm', 126000)"
    select = f"SELECT DISTINCT city FROM {table}"
    return (
        VerifiedCall(tool="create_table", arguments={"query": create}, says="Table created successfully"),
        VerifiedCall(tool="write_query", arguments={"query": insert}, says="affected_rows"),
        VerifiedCall(tool="read_query", arguments={"query": select}, says="[{'city': 'Ulm'}]"),
    )


def _duckdb(_: Place) -> Sequence[VerifiedCall]:
    return (VerifiedCall(tool="query", arguments={"query": "SELECT 6*7 AS answer"}, says="[(42,)]"),)


def _calculator(_: Place) -> Sequence[VerifiedCall]:
    return (VerifiedCall(tool="calculate", arguments={"expression": "2*(3+4)**2"}, says="98"),)


def _excel(place: Place) -> Sequence[VerifiedCall]:
    path = str(place.folder / f"{place.tag}.xlsx")
    cells = {"path": path, "sheet": "Sheet1", "at": "A1", "rows": [["tea", 3], ["cake", 4]]}
    read = {"path": path, "sheet": "Sheet1", "range": "A1:B2"}
    return (
        VerifiedCall(tool="create_workbook", arguments={"path": path, "overwrite": True}, says=place.tag),
        VerifiedCall(tool="write_range", arguments=cells, says="A1:B2"),
        VerifiedCall(tool="read_range", arguments=read, says="cake", read_only=True),
    )


def _git(place: Place) -> Sequence[VerifiedCall]:
    at = {"repo_path": str(place.folder / "repository")}
    return (
        VerifiedCall(tool="git_status", arguments=at, says="nothing to commit", read_only=True),
        VerifiedCall(
            tool="git_log", arguments=at | {"max_count": 1}, says="the first commit", read_only=True
        ),
    )


def _time(_: Place) -> Sequence[VerifiedCall]:
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}  # no summer time
    return (VerifiedCall(tool="convert_time", arguments=noon, says="T21:00:00+09:00", read_only=True),)


def _fetch(place: Place) -> Sequence[VerifiedCall]:
    page = {"url": place.page_url, "raw": True}
    return (VerifiedCall(tool="fetch", arguments=page, says=PAGE_TEXT, read_only=True),)


def _make_repository(folder: Path) -> None:
    """A repository with one commit and nothing to commit; made once."""
    repository = folder / "repository"
    if repository.exists():
        return
    repository.mkdir()
    who = ("-c", "user.name=maitred", "-c", "user.email=maitred@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "the first commit")):
        subprocess.run(["git", *command], cwd=repository, check=True, timeout=300)


SERVERS: Mapping[str, RealServer] = {
    server.name: server
    for server in (
        RealServer(name="everything", program=NPM / "mcp-server-everything", tools=19, calls=_everything),
        RealServer(
            name="filesystem",
            program=NPM / "mcp-server-filesystem",
            tools=14,
            calls=_filesystem,
            args=lambda folder: (str(folder / "files"),),
            prepare=lambda folder: (folder / "files").mkdir(exist_ok=True),
        ),
        RealServer(
            name="memory",
            program=NPM / "mcp-server-memory",
            tools=9,
            calls=_memory,
            env=lambda folder: {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
        ),
        RealServer(
            name="sequential-thinking",
            program=NPM / "mcp-server-sequential-thinking",
            tools=1,
            calls=_sequential_thinking,
        ),
        RealServer(
            name="sqlite",
            program=OLD / "mcp-server-sqlite",
            tools=6,
            calls=_sqlite,
            args=lambda folder: ("--db-path", str(folder / "sqlite.db")),
        ),
        RealServer(
            name="duckdb",
            program=OLD / "mcp-server-duckdb",
            tools=1,
            calls=_duckdb,
            args=lambda _: ("--db-path", ":memory:"),  # it locks a file against a second gateway
        ),
        RealServer(name="calculator", program=OLD / "mcp-server-calculator", tools=1, calls=_calculator),
        RealServer(
            name="excel",
            program=EXCEL / "excel-mcp-server",
            tools=46,
            calls=_excel,
            args=lambda _: ("stdio",),
            env=lambda folder: {"EXCEL_FILES_PATH": str(folder)},
        ),
        RealServer(
            name="git",
            program=OWN / "mcp-server-git",
            tools=12,
            calls=_git,
            args=lambda folder: ("--repository", str(folder / "repository")),
            prepare=_make_repository,
        ),
        RealServer(
            name="time",
            program=OWN / "mcp-server-time",
            tools=2,
            calls=_time,
            args=lambda _: ("--local-timezone", "UTC"),
        ),
        RealServer(
            name="fetch",
            program=OWN / "mcp-server-fetch",
            tools=1,
            calls=_fetch,
            args=lambda _: ("--ignore-robots-txt", "--allow-private-ips"),
        ),
    )
}


def require(*names: str) -> list[RealServer]:
    """The servers of these names, all by default; the test is skipped where one is not installed."""
    wanted = [SERVERS[name] for name in names] if names else list(SERVERS.values())
    if missing := [server.name for server in wanted if not server.is_installed]:
        pytest.skip(f"not installed: {', '.join(missing)} (`make servers` installs them)")
    return wanted


def write_config(folder: Path, servers: Sequence[RealServer], **sections: Any) -> Path:
    """Write a `maitred.yaml` for some servers into `folder`, where they and the catalog keep their files."""
    entries = {server.name: server.entry(folder) for server in servers}
    settings = {"servers": entries, "catalog": {"path": "catalog.db"}, **sections}
    path = folder / "maitred.yaml"
    path.write_text(json.dumps(settings, indent=2), encoding="utf-8")  # JSON is YAML
    return path


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"<html><body><p>{PAGE_TEXT}</p></body></html>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody wants to read it."""


@contextmanager
def serving_page() -> Iterator[str]:
    """Serve a page on the loopback address; yields its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=functools.partial(server.serve_forever, poll_interval=0.05))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
