"""Who may do what: every role with every ability over HTTP, and over MCP in both eras."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from tests.access.house import House
from tests.access.table import CASES, REFUSED
from tests.interaction.harness import Mode

from maitred.model.access import ROLES, Role

pytestmark = pytest.mark.anyio

YAML = {"Content-Type": "application/yaml"}
MANIFEST = b"name: new\ntransport: stdio\ncommand: no-such-program\n"
VERDICT = {"verdict": "suspend", "why": "a test"}


def cases(abilities: Mapping[str, Any]) -> pytest.MarkDecorator:
    """The rows of the table for abilities that a surface has, for each way to use them."""
    rows = [
        pytest.param(role, way, allowed, id=f"{role}-{ability}-{number}")
        for role, ability, allowed in CASES
        for number, way in enumerate(abilities.get(ability, ()))
    ]
    return pytest.mark.parametrize(("role", "way", "allowed"), rows)


# --- over HTTP --------------------------------------------------------------------------------------------

API = "/api/v1"
CALL = f"{API}/tools/files/read_note/call"
HTTP: Mapping[str, Sequence[tuple[str, str, Mapping[str, Any]]]] = {
    "see": [
        ("GET", f"{API}/tools/hot", {}),
        ("GET", f"{API}/tools/categories", {}),
        ("GET", f"{API}/tools/category/files_text", {}),
        ("GET", f"{API}/tools/files/read_note", {}),
        ("GET", f"{API}/tools/search?q=note", {}),
    ],
    "call": [("POST", CALL, {"json": {"arguments": {}}})],
    "watch": [
        ("GET", f"{API}/servers", {}),
        ("GET", f"{API}/servers/files", {}),
        ("GET", "/healthz/files", {}),
        ("GET", f"{API}/stats", {}),
        ("GET", "/metrics", {}),
    ],
    "register": [("POST", f"{API}/servers/check", {"content": MANIFEST, "headers": YAML})],
    "approve": [("POST", f"{API}/servers/no-such-server/approval", {"json": VERDICT})],
    "audit": [("GET", f"{API}/audit", {})],
    "grant": [("GET", f"{API}/tokens", {}), ("DELETE", f"{API}/tokens/nobody", {})],
}


@cases(HTTP)
async def test_over_http(
    house: House, role: Role, way: tuple[str, str, Mapping[str, Any]], allowed: bool
) -> None:
    """What is not allowed is 403 with the code `not_allowed` and the reason."""
    method, path, sent = way
    async with house.http(role) as http:
        answer = await http.request(method, path, **sent)

    assert answer.status_code < 500
    assert (answer.status_code == 403) is not allowed, answer.text
    if not allowed:
        assert answer.json()["error"] == "not_allowed"
        assert answer.json()["message"].startswith(REFUSED)
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


# --- over MCP ---------------------------------------------------------------------------------------------


async def asked(way: Awaitable[Any]) -> str:
    """What was answered, an error included, as text."""
    try:
        return str(await way)
    except MCPError as error:
        return error.message


MCP: Mapping[str, Sequence[Callable[[Any], Awaitable[Any]]]] = {
    "see": [
        lambda client: client.list_tools(),
        lambda client: client.call_tool("search_tools", {"phrases": ["read note"]}),
        lambda client: client.call_tool("list_tools_meta", {"path": "server/files"}),
        lambda client: client.call_tool("tool_info", {"names": ["files__read_note"]}),
        lambda client: client.read_resource("maitred://tool/files__read_note"),
        lambda client: client.get_prompt("discover"),
    ],
    "call": [
        lambda client: client.call_tool("files__read_note", {}),
        lambda client: client.call_tool("call_tool", {"name": "files__read_note"}),
        lambda client: client.call_tool("call_read_only_tool", {"name": "files__read_note"}),
        lambda client: client.call_tool("call_tool_chain", {"code": "files.read_note()"}),
        lambda client: client.read_resource("maitred://resource/files/files://all"),
        lambda client: client.get_prompt("files__sum_up"),
    ],
    "watch": [
        lambda client: client.read_resource("maitred://servers"),
        lambda client: client.read_resource("maitred://server/files"),
        lambda client: client.get_prompt("server_status"),
    ],
}


@pytest.fixture(params=["legacy", "auto"], scope="module")
def mode(request: pytest.FixtureRequest) -> Mode:
    """Clients of both eras."""
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("role", ROLES)
async def test_over_mcp(house: House, mode: Mode, role: Role) -> None:
    """What is not allowed is an error, or an error result that a model reads, with the reason."""
    async with house.mcp(role, mode) as client:
        refused = {
            (ability, number): REFUSED in await asked(way(client))
            for ability, ways in MCP.items()
            for number, way in enumerate(ways)
        }

    expected = {
        (ability, number): not allowed
        for one, ability, allowed in CASES
        for number in range(len(MCP.get(ability, ())))
        if one == role
    }
    assert refused == expected
