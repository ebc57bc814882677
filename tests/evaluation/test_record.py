"""Recording what published servers say of their tools, with a server that is installed already."""

import json
import sys
from pathlib import Path

import pytest
from mcp import StdioServerParameters
from tests.support.corpus import recorded
from tests.support.real_servers import require
from training.record import NotRecordedError, ask_server, pick_command, read_table

TABLE = Path(__file__).parents[2] / "training" / "fresh-servers.tsv"
HEADER = "registry\tpackage\tversion\tcommand\targs\tenv\n"


def test_the_listed_servers_are_none_of_those_that_the_scan_was_made_by() -> None:
    """Nor is one listed twice; otherwise the published figure would say nothing. Source: issue 7."""
    packages = [(one.registry, one.package) for one in read_table(TABLE)]
    assert len(packages) == len(set(packages)) == 135
    path = recorded()
    if path is None:
        pytest.skip(
            "the recorded servers are not here (MAITRED_SHARED); that none is listed twice was tested"
        )
    with path.open(encoding="utf-8") as lines:
        known = {json.loads(line)["package"] for line in lines}
    assert known.isdisjoint(name for _, name in packages)


def test_a_table_with_an_unknown_registry_is_refused(tmp_path: Path) -> None:
    """Before anything is installed."""
    table = tmp_path / "servers.tsv"
    table.write_text(f"{HEADER}npm\ta\t1\t-\t\t\ncargo\tb\t1\t-\t\t\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="b: no such registry: cargo"):
        read_table(table)


def test_the_program_of_a_package_is_its_namesake_or_speaks_of_mcp(tmp_path: Path) -> None:
    """Unless the table names one."""
    table = tmp_path / "servers.tsv"
    table.write_text(f"{HEADER}npm\t@a/b\t1\t-\t\t\nnpm\tc\t1\td\t\t\n", encoding="utf-8")
    first, second = read_table(table)
    assert pick_command(first, "b", ["a-mcp", "b"]) == "b"
    assert pick_command(first, "b", ["a", "z-mcp"]) == "z-mcp"
    assert pick_command(second, "c", ["c"]) == "d"
    with pytest.raises(NotRecordedError, match="no command"):
        pick_command(first, "b", [])


@pytest.mark.anyio
@pytest.mark.real
async def test_a_real_server_is_asked_for_all_its_tools() -> None:
    """As listed, in JSON."""
    (server,) = require("time")
    parameters = StdioServerParameters(command=str(server.program), args=["--local-timezone", "UTC"])
    said = await ask_server(parameters, sys.__stderr__ or sys.stderr)
    assert {tool["name"] for tool in said["tools"]} == {"get_current_time", "convert_time"}
    assert json.loads(json.dumps(said)) == said
