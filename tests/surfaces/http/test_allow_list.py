"""The allow list by HTTP: it counts at once, beside the file, and says who changed it."""

from pathlib import Path

import pytest
from tests.surfaces.http.test_admission import CLOCK, opened

pytestmark = pytest.mark.anyio

TIME = {"kind": "trusted_commands", "pattern": "clock-mcp"}


async def test_a_pattern_counts_for_the_next_registration_and_not_after_its_removal(tmp_path: Path) -> None:
    """Without a restart; what was approved by it stays approved. Source: design document 004, section 5."""
    async with opened(tmp_path) as client:
        waiting = await client.ask(200, "POST", "/servers/check", content=CLOCK)
        made = await client.ask(201, "POST", "/allow", json={**TIME, "why": "ours"})
        trusted = await client.ask(201, "POST", "/servers", content=CLOCK)
        listed = await client.ask(200, "GET", "/allow")
        gone = await client.ask(200, "DELETE", "/allow/trusted_commands/clock-mcp", params={"why": "old"})
        other = await client.ask(200, "POST", "/servers/check", content=CLOCK.replace("clock\nc", "watch\nc"))
        kept = await client.ask(200, "GET", "/servers/clock/approval")
        history = await client.ask(200, "GET", "/allow/history")
        left = await client.ask(200, "GET", "/allow")

    assert waiting["outcome"] == "needs approval"
    assert (made["source"], made["who"], made["why"]) == ("list", "ada", "ours")
    assert trusted["case"]["state"] == kept["state"] == "approved"
    assert [(one["kind"], one["pattern"]) for one in listed["patterns"]] == [
        ("trusted_commands", "clock-mcp")
    ]
    assert (gone["action"], gone["why"]) == ("removed", "old")
    assert other["outcome"] == "needs approval"
    assert [(one["action"], one["who"]) for one in history["changes"]] == [
        ("added", "ada"),
        ("removed", "ada"),
    ]
    assert left["patterns"] == []


async def test_what_the_file_says_stands(tmp_path: Path) -> None:
    """A pattern of the file is listed with its source, is not added twice, and is not taken away."""
    async with opened(tmp_path, trusted_commands=("clock-mcp",)) as client:
        twice = await client.ask(422, "POST", "/allow", json=TIME)
        kept = await client.ask(422, "DELETE", "/allow/trusted_commands/clock-mcp")
        listed = await client.ask(200, "GET", "/allow")
        trusted = await client.ask(200, "POST", "/servers/check", content=CLOCK)

    assert "is in the configuration file already" in twice["message"]
    assert "is in the configuration file (admission.trusted_commands), which alone can" in kept["message"]
    assert [one["source"] for one in listed["patterns"]] == ["configuration"]
    assert trusted["outcome"] == "approved"


@pytest.mark.parametrize(
    ("kind", "pattern", "said"),
    [
        ("images", "acme/*", "must begin with the host of the registry"),
        ("trusted_images", "ghcr.io/acme/to*l", "whole parts"),
        ("trusted_commands", "* --anything", "must begin with the name of a program"),
        ("trusted_digests", "sha256:abc", "64 hexadecimal digits"),
        ("trusted_hosts", "https://tools.example/", "must be a host"),
        ("trusted_hosts", " tools.example", "without spaces around it"),
        ("trusted_hosts", "tools\u202e.example", "printable"),
    ],
)
async def test_a_pattern_that_means_nothing_is_refused(
    tmp_path: Path, kind: str, pattern: str, said: str
) -> None:
    """It would match no server, without a sign for the operator."""
    async with opened(tmp_path) as client:
        refused = await client.ask(422, "POST", "/allow", json={"kind": kind, "pattern": pattern})
        unknown = await client.ask(422, "POST", "/allow", json={"kind": "anything", "pattern": "x"})
        history = await client.ask(200, "GET", "/allow/history")

    assert refused["error"] == "allow_pattern_refused"
    assert said in refused["message"]
    assert unknown["error"] == "request_invalid"
    assert history["changes"] == []


async def test_each_kind_of_pattern_is_added_once_and_found_by_its_nearest_name(tmp_path: Path) -> None:
    """Names with slashes are percent-encoded; a mistyped one is answered with the nearest."""
    digest = f"sha256:{'a' * 64}"
    patterns = {
        "images": "ghcr.io/acme/**",
        "trusted_images": "ghcr.io/acme/*:1.*",
        "trusted_digests": digest,
        "trusted_commands": "uvx mcp-server-time@* **",
        "trusted_hosts": "*.tools.example",
    }
    async with opened(tmp_path) as client:
        for kind, pattern in patterns.items():
            await client.ask(201, "POST", "/allow", json={"kind": kind, "pattern": pattern})
        again = await client.ask(422, "POST", "/allow", json={"kind": "trusted_digests", "pattern": digest})
        wrong = await client.ask(404, "DELETE", "/allow/images/ghcr.io%2Facme%2F*")
        await client.ask(200, "DELETE", "/allow/images/ghcr.io%2Facme%2F**")
        listed = await client.ask(200, "GET", "/allow")

    assert "is in the list already" in again["message"]
    assert wrong["nearest"][0] == "ghcr.io/acme/**"
    found = {one["kind"]: one["pattern"] for one in listed["patterns"]}
    assert found == {kind: pattern for kind, pattern in patterns.items() if kind != "images"}


async def test_only_who_may_configure_sees_and_changes_it_and_every_act_is_recorded(tmp_path: Path) -> None:
    """An operator approves single servers, but does not make the policy."""
    async with opened(tmp_path) as client:
        await client.ask(201, "POST", "/allow", json={**TIME, "why": "ours"})
        await client.ask(200, "DELETE", "/allow/trusted_commands/clock-mcp")
        client.act_as("operator")
        refused = [
            await client.status("GET", "/allow"),
            await client.status("GET", "/allow/history"),
            await client.status("POST", "/allow", json=TIME),
            await client.status("DELETE", "/allow/trusted_commands/clock-mcp"),
        ]
        client.act_as("admin")
        lines = (await client.ask(200, "GET", "/audit"))["lines"]

    assert refused == [403] * 4
    acts = {line["action"]: line for line in lines}
    assert acts["allow.add"]["who"] == acts["allow.remove"]["who"] == "ada"
    assert acts["allow.add"]["detail"] == "trusted_commands: clock-mcp (ours)"
