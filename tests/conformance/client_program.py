"""A client for the conformance suite, whose requests the gateway makes: client, gateway, server of the suite.

The suite starts `python -m tests.conformance.client_program FOLDER URL`, and judges what arrives at the URL.
The program opens a gateway over that one server, connects a client of the SDK to it in this process, and does
what the scenario wants by tools, prompts and resources. Where the server wants a login, it does what the
gateway tells the operator: it runs `maitred login` with a browser that agrees to everything, and sets
`auth.scopes` where the message says so.

The suite starts all scenarios at once. A few run at a time, by locks in FOLDER; those that are not among
`CONFORMANCE_SCENARIOS` end at once. The last line of output says that a program ended without an error.
"""

import fcntl
import json
import os
import re
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred.backends.oauth.login import log_in
from maitred.config.settings import Catalog, Disclosure, Settings
from maitred.errors import LoginError
from maitred.model.access import LOCAL_USER
from maitred.model.servers import OAuth, ServerSpec
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import make_access, open_gateway, open_store

NAME = "suite"
CIMD_URL = "https://conformance-test.local/client-metadata.json"
AT_ONCE = 2
ENDED_WELL = "the program ended without an error"
LOGINS = 3
LOGIN_S = 60.0
SOON_S = 60.0
SCOPES = re.compile(r"auth\.scopes to \[([^\]]+)\]")
Act = Callable[["Session"], Awaitable[None]]


class LoginWantedError(Exception):
    """The gateway asks the operator to log in; the text is its message."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A client of the gateway, and what the suite wants of it."""

    client: Client
    context: Mapping[str, Any]

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> types.CallToolResult:
        """Call a tool of the suite's server by its own name.

        Raises:
            LoginWantedError: The server refuses the credentials.
        """
        result = await self.client.call_tool(f"{NAME}__{tool}", dict(arguments or {}))
        told = " ".join(part.text for part in result.content if isinstance(part, types.TextContent))
        if result.is_error and "maitred login" in told:
            raise LoginWantedError(told)
        sys.stdout.write(f"{tool}: {told}\n")
        return result

    async def tools(self) -> list[types.Tool]:
        """The tools of the suite's server, with its own names."""
        listed = (await self.client.list_tools()).tools
        own = [tool for tool in listed if tool.name.startswith(f"{NAME}__")]
        return [tool.model_copy(update={"name": tool.name.removeprefix(f"{NAME}__")}) for tool in own]


# --- what the scenarios want ------------------------------------------------------------------------------


async def call_all(session: Session) -> None:
    """Call each tool with the least arguments that its schema allows."""
    for tool in await session.tools():
        await session.call(tool.name, least(tool.input_schema))


def least(schema: Mapping[str, Any]) -> dict[str, Any]:
    values = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    properties = schema.get("properties") or {}
    return {name: values[properties[name]["type"]] for name in schema.get("required") or ()}


async def call_as_told(session: Session) -> None:
    for one in session.context["toolCalls"]:
        await session.call(one["name"], one["arguments"])


async def use_everything(session: Session) -> None:
    await call_all(session)
    for resource in (await session.client.list_resources()).resources:
        if not resource.uri.startswith("maitred:"):
            await session.client.read_resource(resource.uri)
    for prompt in (await session.client.list_prompts()).prompts:
        if prompt.name.startswith(f"{NAME}__"):
            await session.client.get_prompt(prompt.name)


async def call_side_by_side(session: Session) -> None:
    """Call all tools at once, and one after the other; answers must not be mixed up."""
    async with anyio.create_task_group() as tasks:
        for tool in await session.tools():
            tasks.start_soon(session.call, tool.name, least(tool.input_schema))


async def echo_schema(session: Session) -> None:
    tools = {tool.name: tool for tool in await session.tools()}
    focal = tools.pop("json_schema_2020_12_tool")
    for name in tools:
        await session.call(name, {"schema": focal.input_schema})


async def only_list(session: Session) -> None:
    await session.tools()


ACTS: Mapping[str, Act] = {
    "http-custom-headers": call_as_told,
    "http-standard-headers": use_everything,
    "sep-2322-client-request-state": call_side_by_side,
    "json-schema-2020-12-preservation": echo_schema,
    "json-schema-ref-no-deref": only_list,
}


# --- the gateway, its client and its operator -------------------------------------------------------------


async def accept_defaults(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """Answer a form as a user who changes nothing."""
    del context
    if not isinstance(params, types.ElicitRequestFormParams):
        return types.ElicitResult(action="decline")
    fields: Mapping[str, Any] = params.requested_schema.get("properties", {})
    content = {name: field["default"] for name, field in fields.items() if "default" in field}
    return types.ElicitResult(action="accept", content=content)


@asynccontextmanager
async def session_with(settings: Settings, context: Mapping[str, Any]) -> AsyncIterator[Session]:
    is_modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") in MODERN_PROTOCOL_VERSIONS
    async with open_gateway(settings, asks_models=False) as gateway:
        [report] = await gateway.sync([NAME], viewer=LOCAL_USER)
        if "maitred login" in report.error:
            raise LoginWantedError(report.error)
        if report.error:
            sys.stderr.write(f"{report.error}\n")
        surface = McpSurface(gateway)
        mode = "auto" if is_modern else "legacy"
        async with Client(surface.server, mode=mode, elicitation_callback=accept_defaults) as client:
            yield Session(client=client, context=context)


async def browse(page: str) -> None:
    """Follow an authorization page to where it leads, as a browser of a user who agrees."""
    async with httpx2.AsyncClient() as browser:
        for _ in range(5):
            response = await browser.get(page)
            if not response.has_redirect_location:
                return
            page = urljoin(page, response.headers["location"])


async def logged_in(settings: Settings, told: str) -> Settings:
    """Do what the gateway told its operator: set scopes if it names some, and log in."""
    spec = settings.servers[NAME]
    auth = spec.auth or OAuth()
    if (match := SCOPES.search(told)) is not None:
        auth = replace(auth, scopes=tuple(match[1].split(", ")))
    spec = replace(spec, auth=auth)
    async with open_store(settings):
        await log_in(make_access(spec, settings), browse, timeout_s=LOGIN_S)
    return replace(settings, servers={NAME: spec})


def settings_for(url: str, folder: Path, scenario: str, context: Mapping[str, Any]) -> Settings:
    auth = None
    if scenario.startswith("auth/"):
        ids = {key: context[key] for key in ("client_id", "client_secret") if key in context}
        auth = OAuth(**ids) if ids else OAuth(client_metadata_url=CIMD_URL)
    spec = ServerSpec(name=NAME, transport="http", url=url, auth=auth)
    return Settings(
        source=folder / "maitred.yaml",
        servers={NAME: spec},
        disclosure=Disclosure(mode="all"),
        catalog=Catalog(path=str(folder / "catalog.db")),
    )


async def main(url: str) -> None:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    act = ACTS.get(scenario, call_all)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CONFIG_HOME", "STATE_HOME", "DATA_HOME", "RUNTIME_DIR"):
            os.environ[f"XDG_{name}"] = folder
        settings = settings_for(url, Path(folder), scenario, context)
        for _ in range(LOGINS):
            try:
                async with session_with(settings, context) as session:
                    await act(session)
                    return
            except* LoginWantedError as wanted:
                told = str(wanted.exceptions[0])
            except* (LoginError, MCPError) as failed:
                sys.exit(str(failed.exceptions[0]))
            settings = await logged_in(settings, told)


@contextmanager
def turn(folder: Path, scenario: str) -> Iterator[None]:
    """Wait until fewer than `AT_ONCE` scenarios run."""
    with (folder / f"turn{zlib.crc32(scenario.encode()) % AT_ONCE}").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    own = os.environ["MCP_CONFORMANCE_SCENARIO"]
    assert urlsplit(sys.argv[2]).scheme == "http"
    if own in os.environ.get("CONFORMANCE_SCENARIOS", own).split(","):
        with turn(Path(sys.argv[1]), own):
            anyio.run(main, sys.argv[2])
    sys.stdout.write(f"{ENDED_WELL}\n")
