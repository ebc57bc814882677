"""Try every feature through a gateway with the Python SDK 1, of the handshake era; prints outcomes as JSON.

Run in an environment with `mcp` 1.x as `sdk1_client.py TARGET`; see `sdk2_client.py`, which does the same.
"""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

PATIENCE_S = 60.0
SERVERS = ("handshake", "stateless")
QUESTIONS = ("form", "url", "sampling", "sampling_tools", "roots")


class Person:
    """Answers what servers ask, and keeps what they send."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.updated: list[str] = []
        self.news = anyio.Event()

    async def elicited(self, context: Any, params: Any) -> types.ElicitResult:
        content = None if params.mode == "url" else {"name": "Ann"}
        return types.ElicitResult(action="accept", content=content)

    async def sampled(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        said = "hello" + (f" with {params.tools[0].name}" if params.tools else "")
        content = types.TextContent(type="text", text=said)
        return types.CreateMessageResult(role="assistant", model="m", content=content)

    async def roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///pairs")])

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(f"{params.level} {params.logger} {params.data}")
        self._tell()

    async def message(self, message: Any) -> None:
        notice = getattr(message, "root", None)
        if isinstance(notice, types.ResourceUpdatedNotification):
            self.updated.append(str(notice.params.uri))
            self._tell()

    def _tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def until(self, true: Callable[[], object]) -> None:
        while not true():
            await self.news.wait()


class Features:
    """Tries the features of one server, one method each; an outcome is a short text."""

    def __init__(self, session: ClientSession, person: Person, server: str) -> None:
        self.session = session
        self.person = person
        self.server = server

    async def call(self, tool: str, **options: Any) -> str:
        result = await self.session.call_tool(f"{self.server}__{tool}", {}, **options)
        return "".join(block.text for block in result.content if isinstance(block, types.TextContent))

    async def log(self) -> str:
        self.person.logs.clear()
        await self.session.set_logging_level("info")
        await self.call("log")
        await self.person.until(lambda: self.person.logs)
        return "; ".join(self.person.logs)

    async def level(self) -> str:
        await self.session.set_logging_level("error")
        self.person.logs.clear()
        await self.call("log")
        await self.session.set_logging_level("debug")
        await self.call("log")
        await self.person.until(lambda: len(self.person.logs) == 2)
        return "; ".join(self.person.logs)

    async def progress(self) -> str:
        steps: list[str] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            steps.append(f"{progress:g}/{total:g} {message}")

        await self.call("progress", progress_callback=report)
        return ", ".join(steps)

    async def cancel(self) -> str:
        """Cancel by the notification: this SDK sends none by itself."""
        before, number = int(await self.call("cancelled")), 0

        async def wait() -> None:
            nonlocal number
            number = self.session._request_id
            await self.call("wait")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            while (await self.call("waiting")) == "0":
                await anyio.lowlevel.checkpoint()
            params = types.CancelledNotificationParams(requestId=number, reason="tried")
            await self.session.send_notification(
                types.ClientNotification(types.CancelledNotification(params=params))
            )
            tasks.cancel_scope.cancel()
        while (now := int(await self.call("cancelled"))) == before:
            await anyio.lowlevel.checkpoint()
        return f"{now - before} cancelled"

    async def subscription(self) -> str:
        [uri] = [
            str(one.uri)
            for one in (await self.session.list_resources()).resources
            if self.server in str(one.uri) and str(one.uri).endswith("watched")
        ]
        await self.session.subscribe_resource(AnyUrl(uri))
        self.person.updated.clear()
        await self.call("touch")
        await self.person.until(lambda: self.person.updated)
        await self.session.unsubscribe_resource(AnyUrl(uri))
        return "updated" if self.person.updated == [uri] else f"updated {self.person.updated}"

    async def tasks(self) -> str:
        """One task to its end, another until it is cancelled."""
        with_tasks, tool = self.session.experimental, f"{self.server}__task"
        ends = (await with_tasks.call_tool_as_task(tool)).task.taskId
        waits = (await with_tasks.call_tool_as_task(tool, {"wait": True})).task.taskId
        async for _ in with_tasks.poll_task(ends):
            pass
        said = "".join(
            block.text for block in (await with_tasks.get_task_result(ends, types.CallToolResult)).content
        )
        listed = {one.taskId for one in (await with_tasks.list_tasks()).tasks}
        await with_tasks.cancel_task(waits)
        return f"{said}, {(await with_tasks.get_task(waits)).status}, {len(listed & {ends, waits})} listed"

    async def completion(self) -> str:
        reference = types.PromptReference(type="ref/prompt", name=f"{self.server}__greet")
        found = await self.session.complete(reference, {"name": "who", "value": "A"})
        return ", ".join(found.completion.values)


async def outcome(work: Callable[[], Awaitable[str]]) -> str:
    """What came of one feature; a failure is a text that begins with "FAILED"."""
    try:
        with anyio.fail_after(PATIENCE_S):
            return await work()
    except Exception as error:  # noqa: BLE001  # whatever goes wrong is the outcome
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return f"FAILED {type(error).__name__}: {error}"


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
    outcomes: dict[str, dict[str, str]] = {}
    async with (
        streams(target) as (read, write),
        ClientSession(
            read,
            write,
            read_timeout_seconds=timedelta(seconds=PATIENCE_S),
            elicitation_callback=person.elicited,
            sampling_callback=person.sampled,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            list_roots_callback=person.roots,
            logging_callback=person.log,
            message_handler=person.message,
        ) as session,
    ):
        await session.initialize()
        await session.list_tools()
        for server in SERVERS:
            features = Features(session, person, server)
            tried: dict[str, Callable[[], Awaitable[str]]] = {
                "log messages": features.log,
                "log level": features.level,
                "progress": features.progress,
                "cancel": features.cancel,
                "subscription": features.subscription,
                "completion": features.completion,
                "tasks": features.tasks,
                **{name: partial(features.call, name) for name in QUESTIONS},
            }
            outcomes[server] = {name: await outcome(work) for name, work in tried.items()}
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
