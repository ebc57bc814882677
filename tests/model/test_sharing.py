"""Who shares a process of a server, by what is known of it and of its clients."""

from collections.abc import Callable

import pytest

from maitred.model.access import LOCAL, LOCAL_GRANT, ClientStart, Grant, Viewer
from maitred.model.servers import Cage, Health, Mount, ServerSpec, Share
from maitred.model.sharing import NO_SHARER, Instance, Sharer, in_folder, share_key, sharer_of, sharing_of

ANN = Sharer(principal="ann", client="1", folder="/p")


@pytest.mark.parametrize(
    ("command", "args", "share"),
    [
        ("npx", ["-y", "@playwright/mcp@latest", "--headless"], "client"),
        ("npx", ["-y", "@playwright/mcp"], "client"),
        ("/opt/node/bin/chrome-devtools-mcp", [], "client"),
        ("docker", ["run", "-i", "--rm", "mcp/playwright:1.2"], "client"),
        ("docker", ["run", "-i", "mcr.microsoft.com/playwright/mcp"], "client"),
        ("npx", ["@modelcontextprotocol/server-filesystem@0.6.2", "/data"], "project"),
        ("node", ["/x/node_modules/mcp-server-filesystem/mcp-server-filesystem.js"], "project"),
        ("uvx", ["mcp-server-git==2025.1.0", "--repository", "."], "project"),
        ("C:\\tools\\mcp-server-git.exe", [], "project"),
        ("uvx", ["--from", "git+https://github.com/oraios/serena", "serena", "start-mcp-server"], "project"),
        ("npx", ["@playwright/test"], "all"),
        ("mcp-server-time", ["--local-timezone", "UTC"], "all"),
        ("", [], "all"),
    ],
)
def test_known_servers_are_found_by_their_command_line(command: str, args: list[str], share: Share) -> None:
    spec = ServerSpec(name="s", command=command, args=tuple(args))
    assert sharing_of(spec).share == share


def test_what_is_configured_wins_and_a_name_counts_where_the_command_line_says_nothing() -> None:
    here = ServerSpec(name="s", url="http://localhost:8931/mcp", transport="http")
    assert sharing_of(here, "Playwright") == ("client", "it drives a browser, by its own name 'Playwright'")
    assert sharing_of(here, "play") == ("all", "nothing else is known of it")
    forced = ServerSpec(name="s", command="mcp-server-git", share="all")
    assert sharing_of(forced, "Playwright") == ("all", "it is configured so")
    saved = ServerSpec(name="chains", transport="chain", share="client")
    assert sharing_of(saved).share == "all"


def test_a_key_is_that_of_the_clients_who_share_and_never_joins_principals() -> None:
    others = [
        Sharer(principal=principal, client=client, folder=folder)
        for principal in (LOCAL, "ann", "bob")
        for client in ("1", "2")
        for folder in ("/p", "/q")
    ]
    same: dict[Share, Callable[[Sharer], object]] = {
        "principal": lambda one: one.principal,
        "project": lambda one: (one.principal, one.folder),
        "client": lambda one: (one.principal, one.client),
    }
    for share, mates in same.items():
        for one in others:
            for other in others:
                assert (share_key(share, one) == share_key(share, other)) is (mates(one) == mates(other))
        assert share_key(share, NO_SHARER) == share_key(share, Sharer(principal=LOCAL)) == ""
        assert share_key(share, Sharer(principal="ann")) != ""
    assert {share_key("all", one) for one in others} == {""}


def test_a_client_is_known_by_its_program_or_else_by_its_connection() -> None:
    start = ClientStart(client="a", folder="/p")
    assert sharer_of(Viewer(grant=LOCAL_GRANT, connection="3", start=start)) == Sharer(
        principal=LOCAL, client="a", folder="/p"
    )
    grant = Grant(principal="ann", role="agent")
    assert sharer_of(Viewer(grant=grant, connection="3")) == Sharer(principal="ann", client="3")


def test_a_program_runs_in_the_folder_of_its_client_as_far_as_its_jail_grants_it() -> None:
    plain = ServerSpec(name="s", command="x")
    assert in_folder(plain, ANN, "client", quoted="/p")[0].cwd == "/p"
    assert in_folder(plain, ANN, "principal", quoted="/p") == (plain, "")
    own = ServerSpec(name="s", command="x", cwd="/own")
    assert in_folder(own, ANN, "client", quoted="/p") == (own, "")
    remote = ServerSpec(name="s", url="http://x", transport="http")
    assert in_folder(remote, ANN, "project", quoted="/p") == (remote, "")

    for mounts, runs in (
        ((), False),
        ((Mount(path="/", at="/"),), True),
        ((Mount(path="/p", at="/p"),), True),
        ((Mount(path="/p/q", at="/p/q"),), False),
        ((Mount(path="/p", at="/data"),), False),
    ):
        jailed = ServerSpec(name="s", command="x", registered=True, cage=Cage(mounts=mounts))
        spec, note = in_folder(jailed, ANN, "project", quoted="/p")
        assert (spec.cwd == "/p") is runs
        assert (note == "its jail does not grant /p, so it does not run there") is not runs


def test_the_owner_of_an_instance_is_named_in_short() -> None:
    def owner(**keys: str) -> str:
        return Instance(sharer=Sharer(**keys), health=Health()).owner

    assert owner(principal=LOCAL, client="5f0c12ab99", folder="/src/a") == "client 5f0c12ab, /src/a"
    assert owner(principal="ann") == "ann"
    assert owner(principal=LOCAL) == "a client"
