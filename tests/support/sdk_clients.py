"""Clients of the SDKs that are in use, one interface for all: a test lists, calls, and answers for the user.

The Python SDK 2 runs in the test itself. The others are programs (`driven_sdk1.py`, `driven_ts.mjs`) that
take commands as lines of JSON and answer so; what they hear of the gateway they say at once.
"""

import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.abc
import mcp_types as types
import pytest
from anyio.streams.text import TextReceiveStream
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from tests.support.real_servers import NPM, OLD

HERE = Path(__file__).parent
MODERN = "2026-07-28"
PATIENCE_S = 120.0

Era = Literal["handshake", "stateless"]
Json = dict[str, Any]
YES: Json = {"action": "accept", "content": {}}
NO: Json = {"action": "decline"}


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """An SDK in an era; `program` is the command of its client, empty for the SDK of the tests."""

    name: str
    era: Era
    program: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        """Whether `make servers` installed it."""
        paths = [part for part in (*self.program, *self.after) if os.sep in part]
        return all(Path(path).exists() for path in paths) and all(map(shutil.which, self.program[:1]))


def _typescript(era: Era) -> Sdk:
    mode = "legacy" if era == "handshake" else MODERN
    modules = str(NPM.parent)
    return Sdk(
        name="TypeScript SDK 2", era=era, program=("node", str(HERE / "driven_ts.mjs")), after=(mode, modules)
    )


SDKS = (
    Sdk(name="Python SDK 1", era="handshake", program=(str(OLD / "python"), str(HERE / "driven_sdk1.py"))),
    Sdk(name="Python SDK 2", era="handshake"),
    Sdk(name="Python SDK 2", era="stateless"),
    _typescript("handshake"),
    _typescript("stateless"),
)
"""A client of each era in each SDK that has it."""


def each_sdk(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a test with a client of each SDK in each era, its parameter `sdk`."""
    parameters = pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: f"{sdk.name}, {sdk.era}")
    decorated: Callable[..., Any] = parameters(function)
    return decorated


@dataclass(kw_only=True)
class SdkClient(ABC):
    """A client with what it heard: `told` counts the notices that its list changed, `asked` are questions.

    `prefix` is left out of the names of tools, as a test writes them.
    """

    era: Era
    prefix: str = ""
    told: int = 0
    asked: list[str] = field(default_factory=list)
    news: anyio.Event = field(default_factory=anyio.Event)

    def ring(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait for something that the client hears."""
        with anyio.fail_after(PATIENCE_S):
            while not is_true():
                await self.news.wait()

    @abstractmethod
    async def definitions(self) -> list[Json]:
        """The tools that it lists now, as MCP has them."""

    @abstractmethod
    async def result(self, name: str, arguments: Mapping[str, Any]) -> Json:
        """The result of a call; the error of the protocol is one, too."""

    @abstractmethod
    async def answer(self, answer: Json | None) -> None:
        """What the user answers to each question from now on; `None`: nothing, until there is an answer."""

    async def listed(self) -> frozenset[str]:
        """The names of the tools that it lists now."""
        return frozenset(tool["name"].removeprefix(self.prefix) for tool in await self.definitions())

    async def until_listed(self, count: int) -> None:
        """Wait until it lists so many tools; it reads the list again with each notice."""
        with anyio.fail_after(PATIENCE_S):
            news = self.news
            while len(await self.listed()) != count:
                await news.wait()
                news = self.news

    async def call(self, name: str, /, **arguments: Any) -> str:
        """The text of an answer, which begins with `error: ` if the call failed."""
        return text_of(await self.result(f"{self.prefix}{name}", arguments))


def text_of(result: Mapping[str, Any]) -> str:
    """The text of a result, which begins with `error: ` if the call failed."""
    text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
    return f"error: {text}" if result.get("isError") else text


def _failed(why: str) -> Json:
    return {"content": [{"type": "text", "text": why}], "isError": True}


# --- the SDK of the tests ---------------------------------------------------------------------------------


@dataclass(kw_only=True)
class _OwnClient(SdkClient):
    client: Client = field(init=False)
    decision: Json | None = None

    async def definitions(self) -> list[Json]:
        tools: list[Json] = []
        cursor = None
        while True:
            page = await self.client.list_tools(cursor=cursor, cache_mode="refresh")
            tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return tools

    async def result(self, name: str, arguments: Mapping[str, Any]) -> Json:
        try:
            made = await self.client.call_tool(name, dict(arguments))
        except MCPError as error:
            return _failed(str(error))
        assert isinstance(made, types.CallToolResult)
        return made.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def answer(self, answer: Json | None) -> None:
        self.decision = answer
        self.ring()

    async def elicited(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        self.ring()
        await self.until(lambda: self.decision is not None)
        return types.ElicitResult(**(self.decision or {}))

    async def heard(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.told += 1
            self.ring()


@asynccontextmanager
async def own_client(
    transport: Any, era: Era, prefix: str = "", *, can_ask: bool = True, name: str = "driven"
) -> AsyncIterator[SdkClient]:
    """A client of the Python SDK 2; `transport` is what its `Client` takes, a server in this process too."""
    made = _OwnClient(era=era, prefix=prefix)
    handler = made.heard if era == "handshake" else None
    mode: Any = "legacy" if era == "handshake" else MODERN
    asking = made.elicited if can_ask else None
    own = types.Implementation(name=name, version="1")
    async with Client(
        transport, mode=mode, message_handler=handler, elicitation_callback=asking, client_info=own
    ) as client:
        made.client = client
        yield made


# --- programs ---------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class _DrivenClient(SdkClient):
    process: anyio.abc.Process
    answers: dict[int, Json] = field(default_factory=dict)
    is_ready: bool = False
    commands: int = 0

    async def definitions(self) -> list[Json]:
        answer = await self._do({"do": "list"})
        assert "result" in answer, answer
        tools: list[Json] = answer["result"]["tools"]
        return tools

    async def result(self, name: str, arguments: Mapping[str, Any]) -> Json:
        answer = await self._do({"do": "call", "name": name, "arguments": dict(arguments)})
        made: Json = answer["result"] if "result" in answer else _failed(answer["error"])
        return made

    async def answer(self, answer: Json | None) -> None:
        await self._do({"do": "answer", "with": answer})

    async def _do(self, command: Json) -> Json:
        self.commands += 1
        number = self.commands
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps({"id": number, **command}).encode() + b"\n")
        await self.until(lambda: number in self.answers)
        return self.answers.pop(number)

    async def follow(self) -> None:
        """Take what the program says, until it ends."""
        assert self.process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(self.process.stdout):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, message: Json) -> None:
        if "id" in message:
            self.answers[message["id"]] = message
        elif "asked" in message:
            self.asked.append(message["asked"])
        elif "notice" in message:
            self.told += 1
        self.is_ready = self.is_ready or "ready" in message
        self.ring()


@asynccontextmanager
async def _driven(sdk: Sdk, target: Json, prefix: str) -> AsyncIterator[SdkClient]:
    command = [*sdk.program, json.dumps(target), *sdk.after]
    async with await anyio.open_process(command, stderr=None) as process, anyio.create_task_group() as tasks:
        made = _DrivenClient(era=sdk.era, prefix=prefix, process=process)
        tasks.start_soon(made.follow)
        try:
            await made.until(lambda: made.is_ready)
            yield made
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(PATIENCE_S / 4) as patience:
                assert process.stdin is not None
                await process.stdin.aclose()
                await process.wait()
            if patience.cancelled_caught:
                process.kill()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def sdk_client(sdk: Sdk, target: Json, prefix: str = "") -> AsyncIterator[SdkClient]:
    """A client at a target, `{"url": …}` or `{"command": […]}`; skipped where its SDK is not installed.

    With `"client": NAME` in the target, it introduces itself by that name.
    """
    if not sdk.is_installed:
        pytest.skip(f"{sdk.name} is not here; `make servers` installs it")
    environment = {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}
    if sdk.program:
        async with _driven(sdk, {**target, "env": environment}, prefix) as driven:
            yield driven
        return
    transport: Any = target.get("url")
    if command := target.get("command"):
        program = StdioServerParameters(command=command[0], args=command[1:], env=environment)
        transport = stdio_client(program)
    async with own_client(transport, sdk.era, prefix, name=target.get("client", "driven")) as own:
        yield own
