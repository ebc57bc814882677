"""A client on the Python SDK 1, of the handshake era, that a test drives; see `sdk_clients.py`.

Run in an environment with `mcp` 1.x as `driven_sdk1.py TARGET`. Each line of its standard input is a command.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

PATIENCE_S = 120.0


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Person:
    """The user: gives the answer that the test chose last; without one, waits for it."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None
        self.decided = anyio.Event()

    def decide(self, answer: dict[str, Any] | None) -> None:
        self.answer = answer
        if answer is None:
            self.decided = anyio.Event()
        else:
            self.decided.set()

    async def elicited(self, context: Any, params: Any) -> types.ElicitResult:
        say(asked=params.message)
        await self.decided.wait()
        return types.ElicitResult(**(self.answer or {}))


async def heard(message: Any) -> None:
    if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
        say(notice="tools")


async def listed(session: ClientSession) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
        cursor = page.nextCursor
        if cursor is None:
            return tools


async def do(session: ClientSession, person: Person, command: dict[str, Any]) -> None:
    """Carry a command out, and say what came of it."""
    number = command["id"]
    try:
        if command["do"] == "answer":
            person.decide(command["with"])
            say(id=number, result={})
        elif command["do"] == "list":
            say(id=number, result={"tools": await listed(session)})
        else:
            result = await session.call_tool(command["name"], command["arguments"])
            say(id=number, result=result.model_dump(mode="json", by_alias=True, exclude_none=True))
    except Exception as error:  # noqa: BLE001  # the test looks at whatever goes wrong
        say(id=number, error=f"{type(error).__name__}: {error}")


@asynccontextmanager
async def streams(target: dict[str, Any]) -> AsyncIterator[Any]:
    if command := target.get("command"):
        where = StdioServerParameters(command=command[0], args=command[1:], env=target["env"])
        async with stdio_client(where) as opened:
            yield opened
    else:
        async with streamable_http_client(target["url"]) as (read, write, _):
            yield read, write


async def main(target: dict[str, Any]) -> None:
    person = Person()
    async with (
        streams(target) as (read, write),
        ClientSession(
            read,
            write,
            read_timeout_seconds=timedelta(seconds=PATIENCE_S),
            elicitation_callback=person.elicited,
            message_handler=heard,
            client_info=types.Implementation(name=target.get("client", "driven"), version="1"),
        ) as session,
    ):
        await session.initialize()
        say(ready=True)
        async with anyio.create_task_group() as tasks:
            async for line in anyio.wrap_file(sys.stdin):
                tasks.start_soon(do, session, person, json.loads(line))
            tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
