"""Chains over real servers: each gives what the same calls give one by one, in far fewer tokens.

What counts is the text that an agent reads: the answer of the chain, against the answers of the calls. The
programs are such as an agent writes: calls at once, a selection, an error that is caught.
"""

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.real_servers import require, write_config
from tests.support.viewers import agent

from maitred.catalog.token_count import count_tokens
from maitred.chains.answer import ChainAnswer
from maitred.config.load import parse
from maitred.errors import MaitredError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.xdist_group("real-chains")]

NAMES = ("git", "filesystem", "sqlite", "time", "memory", "everything")
SOON_S = 120.0
FILES = 30
COMMITS = 60
ROWS = 200
ZONES = tuple(
    f"{area}/{city}"
    for area, cities in {
        "Europe": "London Paris Berlin Madrid Rome Vienna Warsaw Athens Helsinki Oslo Lisbon Dublin",
        "Asia": "Tokyo Seoul Shanghai Singapore Kolkata Dubai Bangkok Manila Karachi Tehran Jakarta Tashkent",
        "America": "New_York Chicago Denver Los_Angeles Toronto Bogota Lima Santiago Halifax Caracas Phoenix",
        "Australia": "Sydney Perth Darwin Brisbane Adelaide",
    }.items()
    for city in cities.split()
)

FILES_CHAIN = """
import asyncio
import filesystem

async def todos(name):
    try:
        found = await filesystem.read_text_file(path=FOLDER + "/" + name)
    except RuntimeError:
        return name, -1
    return name, len([line for line in found["content"].split("\\n") if "TODO" in line])

listed = await filesystem.list_directory(path=FOLDER)
names = [line[7:] for line in listed["content"].split("\\n") if line.startswith("[FILE]")]
counts = await asyncio.gather(*[todos(name) for name in names + ["gone.md"]])
return {"files": len(names), "todos": sum([n for _, n in counts if n > 0]),
        "unreadable": [name for name, n in counts if n < 0]}
"""

ZONES_CHAIN = """
import asyncio

async def hour(zone):
    asked = {"source_timezone": "UTC", "time": "08:00", "target_timezone": zone}
    try:
        told = await call_tool("time__convert_time", asked)
    except RuntimeError as error:
        return zone, None
    return zone, int(told["target"]["datetime"][11:13])

found = await asyncio.gather(*[hour(zone) for zone in ZONES])
return {"noon": [zone for zone, h in found if h == 12], "unknown": [zone for zone, h in found if h is None]}
"""

GIT_CHAIN = """
import git

log = await git.git_log(repo_path=FOLDER, max_count=100)
messages = [line[9:] for line in log.split("\\n") if line.startswith("Message: ")]
try:
    await git.git_show(repo_path=FOLDER, revision="no-such-revision")
    shown = True
except RuntimeError:
    shown = False
return {"commits": len(messages), "fixes": [m for m in messages if m.startswith("fix")], "shown": shown}
"""

TABLE_CHAIN = """
import json
import sqlite

rows = json.loads((await sqlite.read_query(query="SELECT city, people FROM towns")).replace("'", '"'))
total = {}
for row in rows:
    total[row["city"]] = total.get(row["city"], 0) + row["people"]
try:
    await call_tool("sqlite__drop_table", {"table_name": "towns"})
except RuntimeError as error:
    problem = str(error)
return {"rows": len(rows), "people": total, "problem": problem.split(".")[0]}
"""

GRAPH_CHAIN = """
import asyncio
import everything
import memory

cities = ["New York", "Chicago", "Los Angeles"]
weather = await asyncio.gather(*[everything.get_structured_content(location=city) for city in cities])
warmest = max([(w["temperature"], city) for w, city in zip(weather, cities)])
try:
    await everything.get_structured_content(location="Ulm")
    known = True
except RuntimeError:
    known = False
note = {"name": "weather", "entityType": "note", "observations": [warmest[1] + " is warmest"]}
await memory.create_entities(entities=[note])
graph = await memory.read_graph()
return {"warmest": warmest[1], "known": known, "notes": [e["observations"] for e in graph["entities"]]}
"""


class Direct:
    """Calls made one by one as an agent without chains makes them, and what it reads for that."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.texts: list[str] = []

    async def __call__(self, name: str, **arguments: Any) -> Any:
        """The text of the answer, or of the error."""
        try:
            call = ToolCall(name=name, arguments=arguments)
            result = await self._gateway.call(call, viewer=LOCAL_USER)
            text = "\n".join(block.get("text", "") for block in result["content"])
        except MaitredError as error:
            result, text = {"isError": True}, str(error)
        self.texts.append(text)
        return None if result.get("isError") else text


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which its gateway and servers stay."""
    return "asyncio"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chains")


@pytest.fixture(scope="module")
async def gateway(folder: Path) -> AsyncIterator[Gateway]:
    """Six servers with something to read: files, a history, a table."""
    config = write_config(folder, require(*NAMES), disclosure={"mode": "menu"})
    _make_files(folder / "files")
    _make_history(folder / "repository")
    async with open_gateway(parse(config, config.read_text(encoding="utf-8"))) as opened:
        with anyio.fail_after(SOON_S):
            assert await opened.settled(SOON_S)
            await _make_table(Direct(opened))
        yield opened


async def test_many_files_read_and_counted(gateway: Gateway, folder: Path) -> None:
    """Thirty files are read, one is not there; three numbers come back."""
    files = str(folder / "files")
    answer = await run(gateway, FILES_CHAIN, FOLDER=files)

    direct = Direct(gateway)
    listed = await direct("filesystem__list_directory", path=files)
    names = [line.removeprefix("[FILE] ") for line in listed.splitlines()]
    texts = [await direct("filesystem__read_text_file", path=f"{files}/{name}") for name in names]
    gone = await direct("filesystem__read_text_file", path=f"{files}/gone.md")

    assert gone is None
    todos = sum(line.count("TODO") for line in texts)
    assert answer.result == {"files": FILES, "todos": todos, "unreadable": ["gone.md"]}
    assert todos == FILES
    compare("files", answer, direct, most=0.10)


async def test_many_time_zones_converted_and_selected(gateway: Gateway) -> None:
    """Where it is noon, of forty zones; one that does not exist does not cost the others."""
    zones = [*ZONES, "Mars/Olympus"]
    answer = await run(gateway, ZONES_CHAIN, ZONES=zones)

    direct = Direct(gateway)
    told = {
        zone: await direct("time__convert_time", source_timezone="UTC", time="08:00", target_timezone=zone)
        for zone in zones
    }

    noon = [zone for zone, text in told.items() if text and "T12:" in json.loads(text)["target"]["datetime"]]
    assert answer.result == {"noon": noon, "unknown": ["Mars/Olympus"]}
    assert "Asia/Dubai" in noon
    compare("zones", answer, direct, most=0.10)


async def test_a_history_filtered(gateway: Gateway, folder: Path) -> None:
    """Of sixty commits only those that fix something come back; a revision that is not there is caught."""
    repository = str(folder / "repository")
    answer = await run(gateway, GIT_CHAIN, FOLDER=repository)

    direct = Direct(gateway)
    log = await direct("git__git_log", repo_path=repository, max_count=100)
    shown = await direct("git__git_show", repo_path=repository, revision="no-such-revision")

    messages = [line.removeprefix("Message: ") for line in log.splitlines() if line.startswith("Message: ")]
    fixes = [message for message in messages if message.startswith("fix")]
    assert shown is None
    assert answer.result == {"commits": COMMITS + 1, "fixes": fixes, "shown": False}
    assert fixes
    compare("history", answer, direct, most=0.10)


async def test_a_table_aggregated(gateway: Gateway) -> None:
    """Two hundred rows become four sums; a tool that there is none of is answered in words."""
    answer = await run(gateway, TABLE_CHAIN)

    direct = Direct(gateway)
    rows = await direct("sqlite__read_query", query="SELECT city, people FROM towns")
    assert await direct("sqlite__drop_table", table_name="towns") is None

    found: dict[str, int] = {}
    for row in json.loads(rows.replace("'", '"')):
        found[row["city"]] = found.get(row["city"], 0) + row["people"]
    problem = direct.texts[-1].split(".", maxsplit=1)[0]
    assert "sqlite__drop_table" in problem
    assert answer.result == {"rows": ROWS, "people": found, "problem": problem}
    compare("table", answer, direct, most=0.10)


async def test_answers_of_one_server_written_to_another(gateway: Gateway) -> None:
    """Weather of three cities becomes a note; a city that the tool does not take is caught."""
    answer = await run(gateway, GRAPH_CHAIN)

    direct = Direct(gateway)
    weather = {
        city: json.loads(await direct("everything__get-structured-content", location=city))
        for city in ("New York", "Chicago", "Los Angeles")
    }
    assert await direct("everything__get-structured-content", location="Ulm") is None
    graph = json.loads(await direct("memory__read_graph"))

    warmest = max(weather, key=lambda city: (weather[city]["temperature"], city))
    notes = [entity["observations"] for entity in graph["entities"]]
    assert answer.result == {"warmest": warmest, "known": False, "notes": notes}
    assert notes == [[f"{warmest} is warmest"]]
    compare("note", answer, direct, most=1.0)


# --- helpers ----------------------------------------------------------------------------------------------


async def run(gateway: Gateway, code: str, **values: Any) -> ChainAnswer:
    """Run a program with some values written before it; it must not fail."""
    head = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    with anyio.fail_after(SOON_S):
        answer = await gateway.run_chain(head + code, viewer=agent("tester"))
    assert answer.ok, answer.text
    return answer


def compare(name: str, answer: ChainAnswer, direct: Direct, *, most: float) -> None:
    """The answer of the chain costs at most this share of the answers of the calls."""
    returned, *others = count_tokens([answer.text, *direct.texts])
    whole = sum(others)
    calls = len(direct.texts)
    print(f"{name}: {returned:,} tokens for {whole:,} of {calls} calls ({returned / whole:.1%})")  # noqa: T201  # for the closing note
    assert returned <= most * whole


def _make_files(folder: Path) -> None:
    for number in range(FILES):
        lines = [f"Line {n} of the notes number {number} says nothing of interest." for n in range(40)]
        lines.insert(number, "TODO: say something of interest")
        (folder / f"notes{number:02}.md").write_text("\n".join(lines), encoding="utf-8")


def _make_history(repository: Path) -> None:
    who = ("-c", "user.name=maitred", "-c", "user.email=maitred@example.org", "-c", "commit.gpgsign=false")
    message: Callable[[int], str] = lambda n: f"fix the {n}th fault" if n % 20 == 0 else f"change number {n}"  # noqa: E731
    for number in range(COMMITS):
        command = ["git", *who, "commit", "-q", "--allow-empty", "-m", message(number)]
        subprocess.run(command, cwd=repository, check=True, timeout=300)


async def _make_table(direct: Direct) -> None:
    await direct("sqlite__create_table", query="CREATE TABLE towns (city TEXT, people INTEGER)")
    cities: Mapping[int, str] = dict(enumerate(("Ulm", "Bern", "Graz", "Nice")))
    rows = ", ".join(f"('{cities[n % 4]}', {1_000 + n})" for n in range(ROWS))
    told = await direct("sqlite__write_query", query=f"INSERT INTO towns VALUES {rows}")
    assert "affected_rows" in told
