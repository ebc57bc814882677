"""`maitred find`, against a registry on this machine: searched, kept, offline, and nothing half in."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.server_registry import ServerRegistry, item
from tests.surfaces.cli.rig import Run, runner, write

KEYS = [{"name": "WEATHER_KEY", "description": "Your key.", "isRequired": True, "isSecret": True}]
WEATHER = item(
    "io.github.acme/weather",
    "1.2.0",
    description="Forecasts of rain and sun for any city.",
    repository={"url": "https://git.example/acme/weather", "source": "git"},
    packages=[
        {
            "registryType": "npm",
            "identifier": "@acme/weather",
            "version": "1.2.0",
            "transport": {"type": "stdio"},
            "environmentVariables": KEYS,
        }
    ],
)
NOTES = item("io.github.acme/notes", status="deprecated", description="Keeps short texts.")
GONE = item("io.github.evil/wiper", status="deleted", description="Forecasts and wipes disks.")
REMOTE = item(
    "com.example/tickets",
    description="Opens and closes tickets.",
    remotes=[{"type": "streamable-http", "url": "https://mcp.example.com/mcp"}],
)
HOSTILE = item(
    "io.github.evil/paint",
    description="Paints. \u001b[2J\u202e" + "ghp_" + "a" * 36 + " x" * 4_000,
    packages=[{"registryType": "mcpb", "identifier": "\u001b]0;owned\u0007", "transport": {"type": "stdio"}}],
)


@pytest.fixture
def registry() -> Iterator[ServerRegistry]:
    with ServerRegistry([WEATHER, NOTES, GONE, REMOTE, HOSTILE]) as serving:
        yield serving


@pytest.fixture
def maitred(
    tmp_path: Path,
    registry: ServerRegistry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs commands in a folder with a configuration that names the registry."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write(tmp_path, {"maitred.yaml": f"registry: {{url: {registry.url}, copy: list.json}}\n"})
    return runner(tmp_path, monkeypatch, capsys)


def test_nothing_is_said_of_the_age_of_a_file_that_does_not_say_it(maitred: Run, tmp_path: Path) -> None:
    """And `--quiet` leaves out the sum."""
    write(tmp_path, {"export.json": json.dumps({"servers": [WEATHER]})})

    assert maitred("find", "rain", "--file", "export.json").fine.endswith("Found 1 server among 1.\n")
    quiet = maitred("find", "rain", "--file", "export.json", "-q").fine
    assert quiet.startswith("io.github.acme/weather")
    assert "Found" not in quiet
    mistyped = ["add", "io.github.acme/wether", "--from", "registry", "--file", "export.json"]
    assert maitred(*mistyped).refused.endswith("did you mean 'io.github.acme/weather'?\n")


def test_a_server_is_found_by_what_it_does(maitred: Run, registry: ServerRegistry) -> None:
    """With how it runs and what it needs; every page is asked for once, and the second search asks none."""
    first = maitred("find", "weather", "forecast").fine
    asked = len(registry.asked)
    again = maitred("find", "rain", "tomorrow").fine

    assert first.startswith("io.github.acme/weather  1.2.0\n    Forecasts of rain")
    assert "runs by npx @acme/weather@1.2.0" in first
    assert "needs WEATHER_KEY (secret): Your key." in first
    assert "wiper" not in first
    assert "The list is 0 minutes old; --refresh fetches it again." in first
    assert again.startswith("io.github.acme/weather")
    assert (asked, len(registry.asked)) == (3, 3)


def test_a_list_that_cannot_be_kept_is_searched_all_the_same(maitred: Run, tmp_path: Path) -> None:
    """It took minutes to fetch."""
    (tmp_path / "list.json").mkdir()

    done = maitred("find", "weather", "forecast")

    assert done.fine.startswith("io.github.acme/weather")
    assert "not remembered: " in done.err


def test_programs_get_the_same_as_json(maitred: Run) -> None:
    """A deprecated server is marked, and a deleted one is not there."""
    found = json.loads(maitred("find", "--json").fine)
    by_name = {one["name"]: one for one in found["servers"]}

    assert found["matching"] == 4
    assert by_name["io.github.acme/notes"]["status"] == "deprecated"
    assert by_name["com.example/tickets"]["runs"][0]["what"] == "https://mcp.example.com/mcp"
    assert by_name["io.github.acme/weather"]["runs"][0]["needs"][0]["secret"] is True
    assert "deprecated" in maitred("find", "notes").fine


def test_what_a_registry_wrote_is_text_of_bounded_length(maitred: Run) -> None:
    """Neither controls the terminal, nor hides, nor shows what looks like a credential."""
    shown = maitred("find", "paint").fine

    assert "\\x1b[2J\\u202e***" in shown
    assert "maitred runs npm, pypi, oci" in shown
    assert not {"\u001b", "\u202e", "\u0007"} & set(shown)
    assert max(map(len, shown.splitlines())) < 500


def test_without_the_network_the_copy_is_searched(
    maitred: Run, registry: ServerRegistry, tmp_path: Path
) -> None:
    """An old copy is used if the registry fails, and says why; `--refresh` insists, and leaves the copy."""
    maitred("find")
    file = tmp_path / "list.json"
    kept = json.loads(file.read_text())
    kept["fetched_at"] = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    file.write_text(json.dumps(kept))
    before = file.read_bytes()
    registry.faults[1] = (500, b"")
    found = maitred("find", "weather")
    insisted = maitred("find", "weather", "--refresh").refused

    assert "The list is 3 days old" in found.fine
    assert "the kept copy is used: the registry answers with HTTP 500" in found.err
    assert "answers with HTTP 500" in insisted
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.glob("list.json*")] == ["list.json"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ((200, b"<html>"), "answers with what is no JSON"),
        ((200, b"[" * 100_000), "answers with what is no JSON"),
        ((200, b"[]"), "has no list of servers"),
        ((200, b'{"servers": [], "metadata": {"nextCursor": "2"}}'), "the same page again and again"),
        ((302, b"http://127.0.0.1:1/elsewhere"), "a redirect, which is not followed"),
        ((200, b" " * (17 * 1024 * 1024)), "sends more than it may"),
    ],
)
def test_an_answer_that_is_no_list_is_an_error_and_not_kept(
    maitred: Run, registry: ServerRegistry, tmp_path: Path, fault: tuple[int, bytes], said: str
) -> None:
    registry.faults[1] = fault
    assert said in maitred("find", "weather").refused
    assert not (tmp_path / "list.json").exists()


def test_the_older_version_of_the_api_is_understood(maitred: Run, tmp_path: Path) -> None:
    """And an address that names its version is taken as it is."""
    with ServerRegistry([WEATHER], version="v0") as older:
        for url in (older.url, f"{older.url}/v0"):
            write(tmp_path, {"maitred.yaml": f"registry: {{url: {url}, copy: list.json}}\n"})
            assert "io.github.acme/weather" in maitred("find").fine


@pytest.mark.parametrize("form", ["answer", "items", "documents", "document"])
def test_an_exported_list_is_searched_without_a_registry(maitred: Run, tmp_path: Path, form: str) -> None:
    """As an answer of the API, its items, or documents `server.json`."""
    exported = {
        "answer": {"servers": [WEATHER, "x", {"name": 3}, {"server": {"name": "no name"}}]},
        "items": [WEATHER, REMOTE],
        "documents": [WEATHER["server"], REMOTE["server"]],
        "document": WEATHER["server"],
    }[form]
    write(tmp_path, {"maitred.yaml": "servers: {}\n", "export.json": json.dumps(exported)})

    assert maitred("find", "weather", "--file", "export.json").fine.startswith("io.github.acme/weather")
    assert "is the address" not in maitred("find", "weather", "--file", "none.json").refused


def test_without_an_address_it_says_what_to_set(maitred: Run, tmp_path: Path) -> None:
    """No host is known to maitred itself."""
    write(tmp_path, {"maitred.yaml": "servers: {}\n"})
    said = maitred("find", "weather").refused
    assert "the address of a registry that speaks the MCP registry's API" in said


@pytest.mark.parametrize(
    "url",
    ["http://registry.example", "https://me:pw@r.example", "https://r.example?x=1", "ftp://r.example", "x"],
)
def test_an_address_that_is_not_safe_is_a_fault(maitred: Run, tmp_path: Path, url: str) -> None:
    write(tmp_path, {"maitred.yaml": f"registry: {{url: '{url}'}}\n"})
    assert "registry.url: must" in maitred("find").refused
