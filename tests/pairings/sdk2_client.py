"""Try every feature through a gateway with the Python SDK 2, in either era; prints the outcomes as JSON.

Run as `-m tests.pairings.sdk2_client TARGET MODE`: TARGET is JSON, `{"command": [...]}` or `{"url": "..."}`.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated
from pydantic import FileUrl
from tests.support.task_client import User, said

Outcome = Awaitable[str]

PATIENCE_S = 60.0
SERVERS = ("handshake", "stateless")
QUESTIONS = ("form", "url", "sampling", "sampling_tools", "roots")


class Person:
    """Answers what servers ask, and keeps what they send."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.updated: list[str] = []
        self.news = anyio.Event()

    async def elicited(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        content: dict[str, Any] | None = {"name": "Ann"}
        if isinstance(params, types.ElicitRequestURLParams):
            content = None
        return types.ElicitResult(action="accept", content=content)

    async def sampled(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        said = "hello" + (f" with {params.tools[0].name}" if params.tools else "")
        return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text=said))

    async def roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///pairs"))])

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(f"{params.level} {params.logger} {params.data}")
        self._tell()

    async def message(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.append(str(message.params.uri))
            self._tell()

    def _tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def until(self, true: Callable[[], object]) -> None:
        while not true():
            await self.news.wait()


class Features:
    """Tries the features of one server, one method each; an outcome is a short text."""

    def __init__(self, client: Client, person: Person, server: str, *, modern: bool) -> None:
        self.client = client
        self.person = person
        self.server = server
        self.modern = modern

    async def call(self, tool: str, **options: Any) -> str:
        result = await self.client.call_tool(f"{self.server}__{tool}", {}, **options)
        return "".join(block.text for block in result.content if isinstance(block, types.TextContent))

    async def log(self) -> str:
        self.person.logs.clear()
        if not self.modern:
            await self.client.set_logging_level("info")
        await self.call("log")
        await self.person.until(lambda: self.person.logs)
        return "; ".join(self.person.logs)

    async def level(self) -> str:
        if self.modern:
            return "not in the protocol"
        await self.client.set_logging_level("error")
        self.person.logs.clear()
        await self.call("log")
        await self.client.set_logging_level("debug")
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
        before = int(await self.call("cancelled"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.call, "wait")
            while (await self.call("waiting")) == "0":
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        while (now := int(await self.call("cancelled"))) == before:
            await anyio.lowlevel.checkpoint()
        return f"{now - before} cancelled"

    async def subscription(self) -> str:
        [uri] = [
            str(one.uri)
            for one in (await self.client.list_resources()).resources
            if self.server in str(one.uri) and str(one.uri).endswith("watched")
        ]
        if self.modern:
            async with self.client.listen(resource_subscriptions=[uri]) as stream:
                await self.call("touch")
                async for event in stream:
                    if isinstance(event, ResourceUpdated):
                        return "updated" if event.uri == uri else f"updated {event.uri}"
            return "ended"
        await self.client.subscribe_resource(uri)
        self.person.updated.clear()
        await self.call("touch")
        await self.person.until(lambda: self.person.updated)
        await self.client.unsubscribe_resource(uri)
        return "updated" if self.person.updated == [uri] else f"updated {self.person.updated}"

    async def tasks(self) -> str:
        """One task to its end, another until it is cancelled."""
        user = User(client=self.client, era="stateless" if self.modern else "handshake", server=self.server)
        ends, waits = await user.start("task"), await user.start("task", wait=True)
        words = said(await user.result(ends))
        listed = () if self.modern else (await user.ask("tasks/list"))["tasks"]
        await user.ask("tasks/cancel", taskId=waits)
        outcome = f"{words}, {(await user.get(waits))['status']}"
        known = {one["taskId"] for one in listed} & {ends, waits}
        return outcome if self.modern else f"{outcome}, {len(known)} listed"

    async def completion(self) -> str:
        reference = types.PromptReference(name=f"{self.server}__greet")
        found = await self.client.complete(reference, {"name": "who", "value": "A"})
        return ", ".join(found.completion.values)


async def outcome(work: Callable[[], Outcome]) -> str:
    """What came of one feature; a failure is a text that begins with "FAILED"."""
    try:
        with anyio.fail_after(PATIENCE_S):
            return await work()
    except Exception as error:  # noqa: BLE001  # whatever goes wrong is the outcome
        leaf: BaseException = error
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        return f"FAILED {type(leaf).__name__}: {leaf}"


async def main(target: dict[str, Any], mode: str) -> None:
    person = Person()
    command = target.get("command")
    where = (
        StdioServerParameters(command=command[0], args=command[1:], env=target["env"])
        if command
        else target["url"]
    )
    client = Client(
        where,
        mode=mode,
        elicitation_callback=person.elicited,
        sampling_callback=person.sampled,
        sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
        list_roots_callback=person.roots,
        logging_callback=person.log,
        message_handler=person.message,
        log_level="info",
        read_timeout_seconds=PATIENCE_S,
    )
    outcomes: dict[str, dict[str, str]] = {}
    async with client:
        for server in SERVERS:
            features = Features(client, person, server, modern=mode != "legacy")
            tried: dict[str, Callable[[], Outcome]] = {
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
    anyio.run(main, json.loads(sys.argv[1]), sys.argv[2])
