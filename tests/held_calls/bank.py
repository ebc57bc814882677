"""A server that writes down which calls it carried out, behind a gateway that holds some of them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from tests.gateway.rig import SOON_S, settings_of
from tests.support.callers import Answering
from tests.support.viewers import agent

from maitred.backends.base import NOT_ASKED, Caller
from maitred.config.settings import HeldCallSettings, HoldRule
from maitred.errors import MaitredError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.held_calls import HeldCall
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
}
ANN = agent("ann", connection="1", client="editor", surface="mcp", era="handshake")
OVER_100 = HoldRule(when="args.amount > 100")
NEVER_S = 3_600.0
Context = ServerRequestContext[Any, Any]


class Bank:
    """`refund` may destroy something, `balance` only reads; `made` are the arguments of all calls."""

    def __init__(self) -> None:
        self.made: list[Mapping[str, Any]] = []
        self.description = "Pay something back."
        self.server: Server[Any] = Server("bank", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _: Context, __: object) -> types.ListToolsResult:
        reads = types.ToolAnnotations(read_only_hint=True)
        return types.ListToolsResult(
            tools=[
                types.Tool(name="refund", description=self.description, input_schema=SCHEMA),
                types.Tool(name="balance", description="Read.", input_schema=SCHEMA, annotations=reads),
            ]
        )

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.made.append({"tool": params.name, **(params.arguments or {})})
        return types.CallToolResult(content=[types.TextContent(text=f"done {params.name}")])


class Held(Answering):
    """A client without a person that says when its call is held."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(answers, capabilities={"elicitation": {}} if answers else {})
        self.held = anyio.Event()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await super().progress(progress, total, message)
        self.held.set()


@asynccontextmanager
async def opened(
    folder: Path, bank: Bank, *rules: HoldRule, wait_s: float = NEVER_S, **fields: Any
) -> AsyncIterator[Gateway]:
    """A gateway that knows the bank, with these rules."""
    held_calls = HeldCallSettings(rules=rules, wait_s=wait_s) if rules else HeldCallSettings()
    settings = settings_of(folder, "bank", held_calls=held_calls, **fields)
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process={"bank": bank.server}) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def make(
    gateway: Gateway,
    arguments: Mapping[str, Any],
    *,
    tool: str = "bank__refund",
    viewer: Viewer = ANN,
    caller: Caller = NOT_ASKED,
) -> str:
    """Call a tool; the text of its answer, or of the error that ends the call."""
    try:
        call = ToolCall(name=tool, arguments=arguments)
        answer = await gateway.call(call, viewer=viewer, caller=caller)
    except MaitredError as error:
        return f"{error.code}: {error}"
    text: str = answer["content"][0]["text"]
    return text


class Calling:
    """A call in a task of its own."""

    def __init__(self) -> None:
        self.text = ""
        self.caller = Held()
        self.scope = anyio.CancelScope()
        self.over = anyio.Event()

    async def run(self, gateway: Gateway, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        try:
            with self.scope:
                self.text = await make(gateway, arguments, **{"caller": self.caller, **options})
        finally:
            self.over.set()


@asynccontextmanager
async def calling(
    gateway: Gateway, arguments: Mapping[str, Any], **options: Any
) -> AsyncIterator[tuple[Calling, HeldCall]]:
    """A call that is held; when the context is left, it has ended."""
    one = Calling()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.run, gateway, arguments, options)
        await options.get("caller", one.caller).held.wait()
        *_, held = await gateway.held_calls(LOCAL_USER)
        yield one, held
