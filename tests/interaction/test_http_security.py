"""Who may talk to a gateway that listens: Host, Origin, the token, and where it refuses to listen at all."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.interaction.harness import (
    LEGACY,
    MODERN,
    HttpGateway,
    Json,
    Mode,
    call,
    cli,
    faulty,
    serving,
    text_of,
    write_settings,
)
from tests.interaction.requirements import requirement

pytestmark = pytest.mark.anyio

KEY = "a-key-of-the-tests"
INITIALIZE: Json = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}
ENVELOPE: Json = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ERAS: dict[Mode, tuple[str, Json, dict[str, str]]] = {
    "legacy": ("initialize", INITIALIZE, {}),
    "auto": (
        "server/discover",
        {"_meta": ENVELOPE},
        {"MCP-Protocol-Version": MODERN, "Mcp-Method": "server/discover"},
    ),
}
MODES = list(ERAS)


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    return lambda folder: write_settings(folder, {"counter": faulty("count")})


@pytest.fixture(scope="module", params=["variable", "reference", "option"])
def guarded(
    request: pytest.FixtureRequest, config: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpGateway]:
    """A gateway with a token, which it has from MAITRED_TOKEN, from the file, or from its command line."""
    if request.param == "reference":
        folder = tmp_path_factory.mktemp("guarded")
        servers, http = {"counter": faulty("count")}, {"token": "${DOOR_KEY}"}
        with serving(write_settings(folder, servers, http=http), env={"DOOR_KEY": KEY}) as gateway:
            yield gateway
    elif request.param == "variable":
        with serving(config, env={"MAITRED_TOKEN": KEY}) as gateway:
            yield gateway
    else:
        with serving(config, "--token", KEY) as gateway:
            yield gateway


# --- Host and Origin --------------------------------------------------------------------------------------


@requirement("http:host")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80"])
async def test_a_request_for_another_host_is_refused(
    http_gateway: HttpGateway, mode: Mode, host: str
) -> None:
    """A name that a foreign DNS server points at loopback gets 421. Source: docs/serve.md."""
    assert await status(http_gateway, mode, {"Host": host}) == 421


@requirement("http:origin")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost.evil.example", "null"])
async def test_a_request_from_a_foreign_page_is_refused(
    http_gateway: HttpGateway, mode: Mode, origin: str
) -> None:
    """What a browser sends for a page from elsewhere gets 403. Source: MCP specification, transports."""
    assert await status(http_gateway, mode, {"Origin": origin}) == 403


@requirement("http:local")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "http://localhost:3000"}, {"Host": "localhost:1"}, {"Host": "[::1]"}], ids=str
)
async def test_a_request_of_this_machine_is_answered(
    http_gateway: HttpGateway, mode: Mode, headers: dict[str, str]
) -> None:
    """Programs send no Origin, and local pages a loopback one. Source: docs/serve.md."""
    assert await status(http_gateway, mode, headers) == 200


@requirement("http:allowed")
async def test_hosts_and_origins_that_the_operator_names_are_accepted(tmp_path: Path) -> None:
    """A reverse proxy may pass on its own name, and no other. Source: docs/serve.md."""
    http = {"allowed_hosts": ["tools.example"], "allowed_origins": ["https://tools.example"], "token": KEY}
    named = {"Host": "tools.example", "Origin": "https://tools.example"}
    proxied = {**named, "Authorization": f"Bearer {KEY}"}

    with serving(write_settings(tmp_path, {"counter": faulty("count")}, http=http)) as gateway:
        assert await status(gateway, "auto", proxied) == 200
        assert await status(gateway, "auto", proxied | {"Host": "other.example"}) == 421
        assert await status(gateway, "auto", proxied | {"Origin": "https://other.example"}) == 403


# --- the token --------------------------------------------------------------------------------------------


@requirement("token:refused")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Basic {KEY}", KEY]
)
async def test_without_the_token_nothing_is_answered(guarded: HttpGateway, mode: Mode, given: str) -> None:
    """No token and any other are 401, with a word on what to send and none on the token. Source: issue 2."""
    answer = await post(guarded, mode, {"Authorization": given} if given else {})

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] in ("Bearer", 'Bearer error="invalid_token"')
    assert "Authorization: Bearer" in answer.json()["message"]
    assert KEY not in answer.text


@requirement("token:accepted")
@pytest.mark.parametrize("mode", MODES)
async def test_with_the_token_tools_are_called(guarded: HttpGateway, mode: Mode) -> None:
    """The right token opens the gateway to clients of both eras. Source: docs/serve.md."""
    async with guarded.connect(mode, token=KEY) as client:
        result = await call(client, "counter__add", {"a": 2, "b": 40})

    assert text_of(result) == "42"


@requirement("token:secret")
async def test_the_token_is_never_logged(guarded: HttpGateway) -> None:
    """What the gateway prints may be read by others than its operator. Source: maitred."""
    assert await status(guarded, "auto", {"Authorization": f"Bearer {KEY}x"}) == 401
    assert await status(guarded, "auto", {"Authorization": f"Bearer {KEY}"}) == 200

    assert KEY not in "\n".join(guarded.output.lines)


@requirement("token:unset")
async def test_a_token_whose_variable_is_not_set_stops_the_start(tmp_path: Path) -> None:
    """An empty token would open the gateway in silence. Source: docs/serve.md."""
    config = write_settings(tmp_path, {}, http={"token": "${NO_SUCH_DOOR_KEY}"})

    said = await refusal(config, "--port", "0")

    assert "http.token" in said
    assert "NO_SUCH_DOOR_KEY" in said


# --- where it listens -------------------------------------------------------------------------------------


@requirement("listen:token")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "gateway.example"])
async def test_another_address_than_loopback_needs_a_token(tmp_path: Path, host: str) -> None:
    """Where everybody could call every tool, the gateway does not start. Source: docs/serve.md."""
    said = await refusal(write_settings(tmp_path, {}), "--host", host, "--port", "0")

    assert f"http.host: {host} can be reached from other machines" in said
    assert "set `http.token` or pass --token" in said


@requirement("listen:any")
async def test_with_a_token_the_gateway_may_listen_everywhere(config: Path) -> None:
    """All addresses are open to whoever has the token, and to nobody else. Source: docs/serve.md."""
    with serving(config, "--host", "0.0.0.0", env={"MAITRED_TOKEN": KEY}) as gateway:
        local = HttpGateway(
            url=gateway.url.replace("0.0.0.0", "127.0.0.1"), process=gateway.process, output=gateway.output
        )
        refused = await status(local, "auto", {})
        opened = await status(local, "auto", {"Authorization": f"Bearer {KEY}"})

    assert (refused, opened) == (401, 200)


@requirement("listen:taken")
async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """The message says where it cannot listen, and not how that came out. Source: maitred."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = await refusal(write_settings(tmp_path, {}), "--port", str(port))

    assert f"cannot listen on 127.0.0.1:{port}" in said


@requirement("listen:impossible")
@pytest.mark.parametrize("port", ["99999", "-1"])
async def test_a_port_that_cannot_be_is_named_with_those_that_can(tmp_path: Path, port: str) -> None:
    """Whether it stands in the command or in the configuration. Source: issue "What broke", 14, elsewhere."""
    options = ("serve", "--transport", "http", "--port", port)
    asked = await anyio.to_thread.run_sync(cli, write_settings(tmp_path, {}), *options)
    set_so = await refusal(write_settings(tmp_path, {}, http={"port": int(port)}))

    assert asked.returncode == 2
    for said in (asked.stderr, set_so):
        assert "port" in said
        assert re.search("65,?535|least 0|equal to 0", said)
        assert "Traceback" not in said


# --- helpers ----------------------------------------------------------------------------------------------


async def post(gateway: HttpGateway, mode: Mode, headers: dict[str, str]) -> httpx2.Response:
    """Send the first request of an era as a program does that is no MCP client."""
    method, params, own = ERAS[mode]
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    with anyio.fail_after(120):
        async with httpx2.AsyncClient(timeout=120) as http:
            return await http.post(gateway.url, content=body, headers=accept | own | headers)


async def status(gateway: HttpGateway, mode: Mode, headers: dict[str, str]) -> int:
    return (await post(gateway, mode, headers)).status_code


async def refusal(config: Path, *options: str) -> str:
    """What a gateway says that must not start: exit code 2, and a message instead of a traceback."""

    def start() -> tuple[int, str]:
        done = cli(config, "serve", "--transport", "http", *options)
        return done.returncode, done.stderr

    code, said = await anyio.to_thread.run_sync(start)
    assert "Traceback" not in said, said[-800:]
    assert code == 2
    assert "error: " in said
    return said
