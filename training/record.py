"""Record what published MCP servers say, to measure the poisoning scan on what it was not made by.

    python -m training.record training/fresh-servers.tsv recorded.jsonl

The table has a header and six columns between tabs: `registry` (`npm` or `pypi`), `package`, `version`,
`command`, `args` and `env`. `-` for the command means the one that the package installs. `args` and `env` are
words in the quoting of a shell, the latter `NAME=value`; `{home}` in either stands for its empty home.

Each package is installed in an environment of its own, started over stdio, asked for all its tools, and
removed. What it said becomes one JSON line of the output file. A server that cannot be installed, started or
listed is named on standard error with the reason and left out, and no other reason leaves one out. Servers
that the output file has already are skipped. The definitions are texts of others: no part of the project.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import PaginatedRequestParams, Tool

COLUMNS = ("registry", "package", "version", "command", "args", "env")
REGISTRIES = ("npm", "pypi")
INSTALL_SECONDS = 300
LISTING_SECONDS = 90
MAX_PAGES = 100
MARK = "RECORD_MARK"
"""Environment variable by which the processes of one server are told from all others."""


class NotRecordedError(Exception):
    """Why a server is left out, in one line."""


@dataclass(frozen=True)
class Listing:
    """One line of the table: what to install and how to start it."""

    registry: str
    package: str
    version: str
    command: str
    args: str
    env: str

    @property
    def server(self) -> str:
        """Short name: the package's, without the at sign, and its scope set off by a dash."""
        return self.package.lstrip("@").replace("/", "-")


def read_table(path: Path) -> list[Listing]:
    """Read the table of servers, refusing a registry that nothing here can install from."""
    with path.open(newline="", encoding="utf-8") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        listings = [Listing(**{name: row[name] or "" for name in COLUMNS}) for row in rows]
    for listing in listings:
        if listing.registry not in REGISTRIES:
            raise SystemExit(f"{listing.package}: no such registry: {listing.registry}")
    return listings


def recorded_packages(path: Path) -> set[tuple[str, str]]:
    """Return the registry and package of each server that the output file already has."""
    if not path.exists():
        return set()
    with path.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines if line.strip()]
    return {(record["registry"], record["package"]) for record in records}


def telling_line(text: str) -> str:
    """Return the last line of a text that speaks of an error, else its last, in 200 characters."""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in said if "error" in line.lower() and "complete log" not in line]
    return (errors or said or [""])[-1][:200]


def run_installer(words: list[str], log: Path) -> None:
    """Run one step of an installation; end its whole process group when it takes too long."""
    with log.open("wb") as output:
        step = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = step.wait(INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            raise NotRecordedError(f"not installed within {INSTALL_SECONDS} s") from None
        finally:
            if step.poll() is None:
                os.killpg(step.pid, signal.SIGKILL)
                step.wait()
    if status != 0:
        said = log.read_text(encoding="utf-8", errors="replace")
        raise NotRecordedError(f"install: {telling_line(said)}")


def install(listing: Listing, folder: Path) -> Path:
    """Install a package in the folder and return the file that starts its server."""
    log = folder / "install.log"
    if listing.registry == "npm":
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund"]
        wanted = f"{listing.package}@{listing.version}"
        run_installer(["npm", "install", "--prefix", str(folder), *quiet, wanted], log)
        return npm_command(listing, folder)
    run_installer([sys.executable, "-m", "venv", str(folder / "venv")], log)
    python = folder / "venv" / "bin" / "python"
    wanted = f"{listing.package}=={listing.version}"
    quiet = ["--disable-pip-version-check", "--prefer-binary", "--no-input"]
    run_installer([str(python), "-m", "pip", "install", *quiet, wanted], log)
    return pypi_command(listing, python)


def npm_command(listing: Listing, folder: Path) -> Path:
    """Find the command of an npm package in its own manifest."""
    manifest_file = folder / "node_modules" / listing.package / "package.json"
    manifest = json.loads(manifest_file.read_text(encoding="utf-8"))
    plain = listing.package.rpartition("/")[2]
    commands = manifest.get("bin") or {}
    if isinstance(commands, str):
        commands = {plain: commands}
    name = pick_command(listing, plain, [str(key).rpartition("/")[2] for key in commands])
    return folder / "node_modules" / ".bin" / name


def pypi_command(listing: Listing, python: Path) -> Path:
    """Find the command of a PyPI package among the entry points of its distribution."""
    question = (
        "import sys; from importlib.metadata import distribution as of; "
        "print(*(e.name for e in of(sys.argv[1]).entry_points if e.group == 'console_scripts'))"
    )
    words = [str(python), "-c", question, listing.package]
    answer = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return python.parent / pick_command(listing, listing.package, answer.stdout.split())


def pick_command(listing: Listing, plain: str, commands: list[str]) -> str:
    """Pick the table's command, else the package's namesake, else the first that says mcp."""
    if listing.command != "-":
        return listing.command
    if not commands:
        raise NotRecordedError("install: the package has no command")
    namesakes = [name for name in commands if name == plain]
    likely = [name for name in sorted(commands) if "mcp" in name.lower()]
    return (namesakes or likely or sorted(commands))[0]


def start_parameters(listing: Listing, command: Path, folder: Path, mark: str) -> StdioServerParameters:
    """Say how to start a server: in an empty home of its own, its processes marked."""
    home = folder / "home"
    home.mkdir()
    args = [word.replace("{home}", str(home)) for word in shlex.split(listing.args)]
    pairs = [word.replace("{home}", str(home)).partition("=") for word in shlex.split(listing.env)]
    env = {name: value for name, _, value in pairs}
    path = f"{command.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return StdioServerParameters(
        command=str(command),
        args=args,
        env={"HOME": str(home), "PATH": path, **env, MARK: mark},
        cwd=home,
        encoding_error_handler="replace",
    )


def marked_processes(mark: str) -> Iterator[int]:
    """Yield the id of each process with this mark in its environment (Linux only)."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)
        except OSError:
            continue


def end_marked(mark: str) -> None:
    """End what is left of a server, such as a browser that it started and forgot."""
    for _ in range(5):
        left = list(marked_processes(mark))
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not left:
            return
        time.sleep(0.2)


async def list_all_tools(session: ClientSession) -> list[Tool]:
    """List every page of a server's tools."""
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if not cursor:
            return tools
    raise NotRecordedError(f"its tools did not end after {MAX_PAGES} pages")


async def ask_server(parameters: StdioServerParameters, errors: TextIO) -> dict[str, Any]:
    """Start a server and return what it says of itself and its tools."""
    with anyio.fail_after(LISTING_SECONDS):
        async with stdio_client(parameters, errors) as streams, ClientSession(*streams) as session:
            about = await session.initialize()
            tools = await list_all_tools(session)
    if not tools:
        raise NotRecordedError("it has no tools")
    return {
        "serverInfo": about.server_info.model_dump(by_alias=True, exclude_none=True, mode="json"),
        "instructions": about.instructions,
        "protocolVersion": about.protocol_version,
        "tools": [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools],
    }


def first_cause(error: BaseException) -> BaseException:
    """Unwrap the groups that concurrent code raises, down to the first error proper."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def record(listing: Listing, folder: Path) -> dict[str, Any]:
    """Install, start and list one server; return its line of the output file."""
    command = install(listing, folder)
    mark = uuid.uuid4().hex
    parameters = start_parameters(listing, command, folder, mark)
    with (folder / "errors.log").open("w+", encoding="utf-8", errors="replace") as errors:
        try:
            said = anyio.run(ask_server, parameters, errors)
        except Exception as error:
            cause = first_cause(error)
            if isinstance(cause, NotRecordedError):
                raise cause from None
            errors.seek(0)
            reason = f"{type(cause).__name__}: {telling_line(str(cause))}"
            raise NotRecordedError(f"{reason}; its stderr: {telling_line(errors.read())}") from error
        finally:
            end_marked(mark)
    names = {"server": listing.server, "package": listing.package}
    return {**names, "registry": listing.registry, "version": listing.version, **said}


def tell(line: str) -> None:
    """Say one line on stderr at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def record_all(table: Path, output: Path) -> int:
    """Record each server that the output file lacks; return how many could not be recorded."""
    known = recorded_packages(output)
    failed = 0
    for listing in read_table(table):
        if (listing.registry, listing.package) in known:
            continue
        began = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix="record-"))
        try:
            line = record(listing, folder)
            with output.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
            outcome = f"{len(line['tools'])} tools"
        except NotRecordedError as reason:
            failed += 1
            outcome = f"LEFT OUT: {reason}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        took = time.monotonic() - began
        tell(f"{listing.registry} {listing.package} ({took:.0f} s): {outcome}")
    return failed


def main() -> None:
    """Read the command line and record."""
    parser = argparse.ArgumentParser(description="Record the tool definitions of MCP servers.")
    parser.add_argument("table", type=Path, help="the table of servers, tab-separated")
    parser.add_argument("output", type=Path, help="the file to add JSON lines to")
    options = parser.parse_args()
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # many servers greet on stdout: no news
    failed = record_all(options.table, options.output)
    tell(f"{failed} left out")


if __name__ == "__main__":
    main()
