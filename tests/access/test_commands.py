"""Who may do what on the command line: every role with every ability, and commands that handle tokens."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import pytest
from tests.access.table import CASES, HEAD, REFUSED, ROWS
from tests.interaction.harness import cli, faulty, over_stdio, write_settings
from tests.surfaces.cli.rig import Run, runner, write

from maitred.access.tokens import TokenRequest
from maitred.config.load import load
from maitred.model.access import LEAST, LOCAL_USER, ROLES, Role, Scope
from maitred.surfaces.cli.commands import COMMANDS
from maitred.wiring import open_tokens


def test_the_table_has_all_roles_and_all_abilities() -> None:
    """And no others: what is added has to be decided there too."""
    assert list(ROLES) == HEAD
    assert list(LEAST) == [row[0] for row in ROWS]


CLI: Mapping[str, Sequence[str]] = {
    "see": ["info x", "categories"],
    "call": ["call x"],
    "watch": ["stats", "doctor x"],  # `doctor` watches first
    "operate": ["doctor x", "mediate --accept x --diff", "tiers update"],
    "register": ["unregister x"],
    "approve": ["approve x --yes", "calls list", "calls show x", "calls approve x --yes", "calls refuse x"],
    "audit": ["audit verify"],
    "grant": ["tokens list", "tokens revoke x"],
    "configure": ["remove x", "categories --set x", "allow list", "allow remove images x"],
}
"""Commands that fail at once, or do little, if they are allowed."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    write(tmp_path, {"maitred.yaml": "servers: {}\n"})
    return runner(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("role", ROLES)
def test_on_the_command_line(run: Run, role: Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever acts as the bearer of a token may do what the token allows; exit 2 and the reason if not."""

    async def make() -> str:
        async with open_tokens(load(tmp_path / "maitred.yaml")) as tokens:
            wanted = TokenRequest(name="somebody", role=role, scope=Scope())
            return (await tokens.make(wanted, LOCAL_USER)).token

    monkeypatch.setenv("MAITRED_AS_TOKEN", anyio.run(make))
    for one, ability, allowed in CASES:
        for command in CLI[ability] if one == role else ():
            done = run(*command.split())
            assert (REFUSED in done.err) is not allowed, (command, done)
            assert allowed or done.code == 2, command


VIEWER_MAY: Mapping[str, str] = {
    "status": "shows the gateways of this user of the machine",
    "stop": "ends the gateways of this user of the machine",
    "list": "shows the servers that the token covers",
    "search": "needs to see only",
    "info": "needs to see only",
    "menu": "needs to see only",
    "categories": "needs to see only",
    "profiles": "needs to see only",
    "schema": "prints what every installation has",
    "entry": "prints what every installation has",
    "docs": "prints what every installation has",
    "upgrade": "prints how this program was installed",
    "ui": "opens pages, on which the gateway shows what the token allows",
    "eval": "measures labelled queries in a gateway of its own",
    "demo": "makes a configuration of its own",
    "config": "says which file is used, and reads it as any command does",
    "completion": "prints what every installation has",
    "help": "prints what every installation has",
}
"""Commands that do not refuse whoever has the role `viewer`, and why."""
EXAMPLES: Mapping[str, str] = {
    "serve": "serve --transport http",
    "add": "add x -- y",
    "add-json": "add-json x {}",
    "allow": "allow list",
    "import": "import --yes",
    "chain": "chain run x.py",
    "register": "register x.yaml",
    "tokens": "tokens list",
    "approve": "approve x --yes",
    "calls": "calls list",
    "browser": "browser dial-in",
    "service": "service install --yes",
    "tools": "tools --off x",
    "secret": "secret list",
}
"""How commands are tried that one name is not enough for."""
WITHOUT_A_NAME = ("chains", "edit", "mediate", "approvals", "stats", "tiers", "budget", "audit", "doctor")
MANIFEST = "name: x\ndescription: Echoes.\nversion: 1.0.0\nserver: {command: echo}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_refuses_a_viewer_or_is_listed_with_the_reason(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A command that is added must ask who it runs for, or say in `VIEWER_MAY` why it need not."""
    assert VIEWER_MAY.keys() | EXAMPLES.keys() <= COMMANDS.keys()
    if command in VIEWER_MAY:
        return
    write(tmp_path, {"x.py": "1", "x.yaml": MANIFEST})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    token = json.loads(run("tokens", "create", "guest", "--role", "viewer", "--json").fine)["token"]
    monkeypatch.setenv("MAITRED_AS_TOKEN", token)
    words = EXAMPLES.get(command) or (command if command in WITHOUT_A_NAME else f"{command} x")

    assert REFUSED in run(*words.split()).refused


# --- tokens -----------------------------------------------------------------------------------------------

ECHO = "servers:\n  files: {command: no-such-program, enabled: false}\n"


def test_a_token_is_made_shown_once_listed_and_revoked(run: Run, tmp_path: Path) -> None:
    """By its id; it is nowhere in the catalog's file."""
    write(tmp_path, {"maitred.yaml": ECHO})
    words = ["tokens", "create", "ci", "--role", "agent", "--server", "files", "--category", "data"]
    made = json.loads(run(*words, "--read-only", "--expires", "30d", "--json").fine)
    plain = run("tokens", "create", "ops", "--role", "operator").fine.splitlines()
    listed = {one["name"]: one for one in json.loads(run("tokens", "list", "--json").fine)["tokens"]}
    shown = run("tokens", "list").fine
    revoked = run("tokens", "revoke", made["id"]).fine
    after = {one["name"]: one for one in json.loads(run("tokens", "list", "--json").fine)["tokens"]}

    token = made.pop("token")
    assert listed["ci"] == made
    assert (made["servers"], made["categories"], made["read_only"]) == (["files"], ["data"], True)
    assert plain[0].startswith(f"maitred_{listed['ops']['id']}_")
    assert "files, category/data, read-only" in shown
    assert revoked == f"Revoked {made['id']}.\n"
    assert (after["ci"]["state"], after["ci"]["revoked_by"]) == ("revoked", "local")
    assert after["ops"]["state"] == "valid"
    assert all(token.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_name_revokes_all_tokens_of_somebody(run: Run) -> None:
    """Twice is an error, since nothing is revoked any more."""
    ids = [json.loads(run("tokens", "create", "ci", "--role", "agent", "--json").fine)["id"] for _ in "ab"]

    assert set(run("tokens", "revoke", "ci").fine.strip(".\n").removeprefix("Revoked ").split(", ")) == set(
        ids
    )
    assert "There is no valid token 'ci'" in run("tokens", "revoke", "ci").refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ci --role agent --server file", "there is no server 'file'; did you mean 'files'?"),
        ("ci --role agent --category dat", "there is no category 'dat'; did you mean 'data'?"),
        ("ci --role agent --expires soon", "'soon' is no time; write it as 30d, 12h or 90m"),
        ("local --role agent", "'local' cannot name a principal"),
        ("http --role agent", "'http' cannot name a principal"),
    ],
)
def test_a_token_that_cannot_be_is_not_made(run: Run, tmp_path: Path, words: str, said: str) -> None:
    write(tmp_path, {"maitred.yaml": ECHO})

    assert said in run("tokens", "create", *words.split()).refused
    assert "There are no tokens." in run("tokens", "list").fine


@pytest.mark.parametrize("command", ["info x", "serve", "serve --transport http", "add x -- y"])
def test_a_token_that_is_not_valid_is_no_reason_to_act_for_oneself(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A command ends before it does anything, and says which variable is wrong."""
    run("tokens", "list")  # so that there is a catalog to look into
    monkeypatch.setenv("MAITRED_AS_TOKEN", "maitred_0123456789_" + 20 * "x")

    refused = run(*command.split()).refused
    assert "MAITRED_AS_TOKEN" in refused
    assert "this token is not known" in refused


def test_whoever_is_less_than_an_admin_does_not_open_a_port(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What listens serves everybody on the machine, and so more than the bearer of the token."""
    token = json.loads(run("tokens", "create", "ops", "--role", "operator", "--json").fine)["token"]
    monkeypatch.setenv("MAITRED_AS_TOKEN", token)

    assert REFUSED in run("serve", "--transport", "http").refused


def test_a_client_over_standard_streams_is_the_bearer_of_the_token(tmp_path: Path) -> None:
    """`serve` shows it what the token covers, and refuses the rest."""
    servers = {name: faulty("count") for name in ("one", "two")}
    config = write_settings(tmp_path, servers)
    words = ["guest", "--role", "agent", "--server", "one", "--json", "--config", str(config)]
    made = cli(None, "tokens", "create", *words)
    token = json.loads(made.stdout)["token"]

    async def use() -> tuple[list[str], str]:
        async with over_stdio(config, "auto", env={"MAITRED_AS_TOKEN": token}) as client:
            await client.call_tool("call_tool", {"name": "one__add", "arguments": {"a": 1, "b": 2}})
            listed = [tool.name for tool in (await client.list_tools()).tools]
            return listed, str(await client.call_tool("two__add", {"a": 1, "b": 2}))

    listed, refused = anyio.run(use)
    assert "one__add" in listed
    assert not [name for name in listed if name.startswith("two__")]
    assert "no access to the server 'two'" in refused
