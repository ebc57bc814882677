"""The page on isolation is true: its servers run in their cages, and what it says they cannot do fails."""

import json
import os
import re
import shlex
import socket
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, get_args

import anyio
import pytest
from tests.backends.container_rig import CAGE, Rig, probing
from tests.backends.jail_rig import jail_rig
from tests.interaction.harness import HttpGateway, serving
from tests.support.jails import means, require_jail
from tests.support.podman import IMAGE, Podman
from tests.support.real_servers import require
from tests.surfaces.cli.rig import Run, runner, write

from maitred.backends.base import Backend, Ending
from maitred.backends.supervision import BREAKER_AT, FIRST_DELAY_S, MAX_DELAY_S, STABLE_S
from maitred.config.load import parse
from maitred.config.settings import Isolation, Supervision
from maitred.model.servers import Cage

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "isolation.md").read_text(encoding="utf-8")
SOON_S = 120.0
_AGAIN_S = 0.1
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MIB = 2**20
_SECRET = "only-of-this-machine"

pytestmark = pytest.mark.xdist_group("podman")


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(PAGE) if kind == language]


TIME, CLOCK = blocks("yaml")
DOCTOR, TIME_COMES, TIME_RUNS, CLOCK_COMES, CLOCK_RUNS, RESUMED = blocks("console")
CALL_TIME, BUILD, CALL_CLOCK = blocks("sh")
(CONTAINERFILE,) = blocks("dockerfile")


# --- from nothing to a call -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Podman | None:
    """Podman, where it can run, with the image of the page: made of that of the tests."""
    try:
        podman: Podman = request.getfixturevalue("podman")
    except pytest.skip.Exception:
        return None
    _, _, *last = CONTAINERFILE.splitlines()
    file = tmp_path_factory.mktemp("image") / "Containerfile"
    file.write_text("\n".join([f"FROM {IMAGE}", *last]), encoding="utf-8")
    program, *words, _ = shlex.split(BUILD)
    assert program == "podman"
    podman.run(*words, "--format", "docker", str(file.parent))
    return podman


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, engine: Podman | None
) -> Iterator[tuple[Path, HttpGateway]]:
    """A gateway over HTTP, as the page has it running, and its folder with the manifests."""
    require("time")
    folder = tmp_path_factory.mktemp("house")
    write(folder, {"maitred.yaml": "catalog: {path: c.db}\n", "time.yml": TIME, "clock.yml": CLOCK})
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"}
    env |= {"DOCKER_HOST": engine.address} if engine else {}
    with serving(folder / "maitred.yaml", env=env) as http:
        yield folder, http


@pytest.fixture
def maitred(
    house: tuple[Path, HttpGateway], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs commands where that gateway has its configuration."""
    return runner(house[0], monkeypatch, capsys)


def prints(maitred: Run, console: str) -> None:
    """Each command of an example prints the lines below it, apart from white space; `…` is anything."""
    for command, shown in re.findall(r"^\$ maitred (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE):
        printed = " ".join(maitred(*shlex.split(command)).fine.split())
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in shown.split("…"))
        assert re.search(pattern, printed), f"{command} printed:\n{printed}"


def called(gateway: HttpGateway, line: str) -> str:
    """The text that a call of the page is answered with."""
    words = shlex.split(line)
    [url] = [word for word in words if word.startswith("http")]
    body = words[words.index("--json") + 1].encode()
    own = url.replace("http://127.0.0.1:8420", gateway.url.removesuffix("/mcp"))
    request = urllib.request.Request(own, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SOON_S) as answer:
        return str(json.load(answer)["content"][0]["text"])


def called_soon(gateway: HttpGateway, line: str) -> str:
    """The same, once the gateway has seen the decision and knows the server."""
    until = time.monotonic() + SOON_S
    while True:
        try:
            return called(gateway, line)
        except urllib.error.HTTPError as error:
            if time.monotonic() > until:
                raise
            error.close()
        time.sleep(_AGAIN_S)  # it is another process, and says nothing of it


def test_a_program_comes_into_its_jail_and_is_called(maitred: Run, house: tuple[Path, HttpGateway]) -> None:
    """Registered, approved, called by a client, and seen in `maitred status` with its cage."""
    require_jail()
    prints(maitred, TIME_COMES)
    assert '"timezone": "UTC"' in called_soon(house[1], CALL_TIME)
    prints(maitred, TIME_RUNS)


def test_an_image_comes_into_its_container_and_is_called(
    maitred: Run, house: tuple[Path, HttpGateway], engine: Podman | None
) -> None:
    """The same for an image, by its tag: trusted on first use."""
    if engine is None:
        pytest.skip("Podman cannot run containers here")
    prints(maitred, CLOCK_COMES)
    assert '"timezone": "UTC"' in called_soon(house[1], CALL_CLOCK)
    prints(maitred, CLOCK_RUNS)
    assert "sha256:" in maitred("explain", "clock").fine


def test_what_is_suspended_can_be_resumed(maitred: Run) -> None:
    """By the command of the page."""
    maitred("register", "time.yml")
    maitred("approve", "time", "--yes")
    assert maitred("suspend", "time").code == 0
    prints(maitred, RESUMED)


def test_the_doctor_tells_of_the_jail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And of its limits."""
    require_jail()
    write(tmp_path, {"maitred.yaml": "servers: {}\n"})
    prints(runner(tmp_path, monkeypatch, capsys), DOCTOR)


# --- what it cannot reach -------------------------------------------------------------------------------

Arguments = Mapping[str, Any]
TRIED: Final[Mapping[str, tuple[str, Callable[[Mapping[str, Any]], Arguments]]]] = {
    "read a file of yours": ("read", lambda here: {"path": here["file"]}),
    "read the hashes of passwords": ("read", lambda _: {"path": "/etc/shadow"}),
    "write to its programs": ("write", lambda _: {"path": "/usr/bin/probe"}),
    "read the gateway's environment": ("read", lambda _: {"path": f"/proc/{os.getpid()}/environ"}),
    "end the gateway": ("kill", lambda _: {"pid": os.getpid(), "signal": 0}),
    "reach a service of this machine": ("connect", lambda here: {"host": "127.0.0.1", "port": here["port"]}),
    "reach an address of the Internet": ("connect", lambda _: {"host": "192.0.2.1", "port": 443}),
    "reach the metadata of the cloud": ("connect", lambda _: {"host": "169.254.169.254", "port": 80}),
    "send a datagram": ("datagram", lambda _: {"host": "192.0.2.1", "port": 53}),
    "look up a name": ("resolve", lambda _: {"host": "example.com"}),
    "speak to the engine": ("unix", lambda here: {"path": here["engine"]}),
    "speak to an abstract socket": ("unix", lambda here: {"path": here["abstract"]}),
    "make a namespace of users": ("namespace", lambda _: {"kind": "user"}),
    "make a namespace of networks": ("namespace", lambda _: {"kind": "net"}),
    "mount something": ("mount", lambda _: {"path": "/tmp"}),
    "read keys that are kept in the kernel": ("keys", lambda _: {}),
    "become root": ("setuid", lambda _: {}),
    "trace another process": ("ptrace", lambda _: {"pid": os.getpid()}),
    "make a program that runs as its owner": ("mode", lambda _: {"path": "/tmp/own", "mode": 0o4755}),
    "start more processes than it may": ("fork", lambda _: {"number": 4 * CAGE.pids}),
    "fill its temporary folder": ("write", lambda _: {"path": "/tmp/full", "bytes": 2 * CAGE.disk}),
    "fill the shared memory": ("write", lambda _: {"path": "/dev/shm/full", "bytes": 2 * CAGE.disk}),
}
_ROW = re.compile(r"^\| ([^|]+) \| `(\w+)` \| `(\w+)` \|$", re.MULTILINE)
TABLE = {what: told for what, *told in _ROW.findall(PAGE.partition("## Images")[0])}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """What there is on this machine to be reached, if one can: a file, a service, sockets."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "file").write_text(_SECRET, encoding="utf-8")
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = f"\0maitred-docs-{os.getpid()}"
        for path in (str(folder / "docker.sock"), abstract):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(path)
            unix.listen()
        yield {
            "file": str(folder / "file"),
            "port": tcp.getsockname()[1],
            "engine": str(folder / "docker.sock"),
            "abstract": f"@{abstract[1:]}",
        }


async def told_in(backend: Backend, here: Mapping[str, Any]) -> Mapping[str, str]:
    """What each attempt ends with, by its row."""
    told: dict[str, str] = {}
    with anyio.fail_after(2 * SOON_S):
        async with probing(backend) as probe:
            for what, (tool, arguments) in TRIED.items():
                answer = await probe.call(tool, **arguments(here))
                told[what] = "done" if answer["ok"] else str(answer["error"])
                if "written" in answer:
                    await probe.call("remove", path=arguments(here)["path"])
                assert _SECRET not in str(answer)
    return told


def test_a_program_in_its_jail_is_told_what_the_table_says(here: Mapping[str, Any]) -> None:
    """Row by row; each is tried."""
    with jail_rig() as rig:
        told = anyio.run(told_in, rig.backend(), here)
    wanted = {what: jail for what, (jail, _) in TABLE.items()}
    if means().groups is None and os.geteuid() == 0:
        del wanted["start more processes than it may"]  # as the page says

    assert {what: told[what] for what in wanted} == wanted


def test_what_runs_in_a_container_is_told_what_the_table_says(
    here: Mapping[str, Any], engine: Podman | None
) -> None:
    """Row by row; each is tried."""
    if engine is None:
        pytest.skip("Podman cannot run containers here")
    rig = Rig(engine)
    try:
        told = anyio.run(told_in, rig.backend(), here)
    finally:
        rig.close()

    assert told == {what: container for what, (_, container) in TABLE.items()}


# --- what it says ---------------------------------------------------------------------------------------


def test_every_row_of_the_table_is_tried() -> None:
    """And nothing that has no row."""
    assert TABLE.keys() == TRIED.keys()


def test_the_limits_of_the_page_are_those_of_a_manifest_that_says_nothing() -> None:
    """In the units of the page."""
    cage, disk = Cage(), Isolation().disk

    assert f"| `memory` | {cage.memory // _MIB} MiB |" in PAGE
    assert f"| `cpu` | {cage.nano_cpus // 10**9} core |" in PAGE
    assert f"| `pids` | {cage.pids} |" in PAGE
    assert f"| `output` | {cage.output // _MIB} MiB a second |" in PAGE
    assert f"in memory | {disk // _MIB} MiB |" in PAGE


def test_the_numbers_of_supervision_are_its_own() -> None:
    """Defaults of the settings, and what cannot be set."""
    own, text = Supervision(), " ".join(PAGE.split())

    assert f"asked every {own.check_every_s:g} seconds" in text
    assert f"After {own.failures} missing answers of {own.check_timeout_s:g} seconds each" in text
    assert f"started again {own.restarts} times within {own.window_s:g} seconds is suspended" in text
    assert f"ends within {STABLE_S:g} seconds, waits half a second" in text
    assert (FIRST_DELAY_S, MAX_DELAY_S, BREAKER_AT) == (0.5, 60, 3)


def test_every_kind_of_end_is_explained() -> None:
    """In the table of the page."""
    kinds = get_args(Ending.__annotations__["kind"])
    table = PAGE.partition("**How it ended**")[2].partition("**Where it is told")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(kinds)


def test_the_image_of_the_page_has_the_server_that_is_tested_here() -> None:
    """In the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [package] = [word for word in CONTAINERFILE.split() if "==" in word]

    assert package in project["optional-dependencies"]["demo"]


def test_the_settings_that_it_names_are_read() -> None:
    """With the values that it gives."""
    own = parse(Path("maitred.yaml"), "isolation: {jail: none, pull: always, scan: block}\n").isolation

    assert (own.jail, own.pull, own.scan) == ("none", "always", "block")
    for named in (
        "`isolation.jail: none`",
        "`isolation.pull`",
        "`always`",
        "`isolation.scan: warn` or `block`",
    ):
        assert named in PAGE
