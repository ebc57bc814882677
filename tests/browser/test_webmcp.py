"""What Chromium's own WebMCP does, documented nowhere: a change of it fails here, and nowhere else first.

Each test pins what `maitred.browser.pages` relies on. Source: notes, behavior of the domain `WebMCP`.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from tests.support.chromium import SOON_S, Running, browser
from tests.support.pages import tool_script
from tests.support.web_site import Site, serve_site

from maitred.browser.cdp import CdpConnection, CdpError, connect

pytestmark = pytest.mark.anyio
EVENTS = (
    "WebMCP.toolsAdded", "WebMCP.toolsRemoved", "WebMCP.toolResponded", "Runtime.executionContextsCleared",
    "Page.frameNavigated", "Page.loadEventFired",
)  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with browser("--enable-features=WebMCP") as one:
        yield one


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with serve_site() as made:
        yield made


@dataclass
class Tab:
    """A tab over the protocol, with the events that came."""

    connection: CdpConnection
    session: str
    heard: list[tuple[str, Any]] = field(default_factory=list)
    news: anyio.Event = field(default_factory=anyio.Event)

    def hear(self, event: str, params: Any) -> None:
        self.heard.append((event, params))
        self.news.set()
        self.news = anyio.Event()

    async def until(self, is_true: Callable[[], bool]) -> None:
        with anyio.fail_after(SOON_S):
            while not is_true():
                await self.news.wait()

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.connection.send(method, params, self.session)

    def names(self, event: str = "WebMCP.toolsAdded") -> list[str]:
        return [tool["name"] for one, params in self.heard if one == event for tool in params["tools"]]

    async def open(self, url: str) -> None:
        """Load a page, and forget what came before."""
        self.heard.clear()
        await self.send("Page.navigate", url=url)
        await self.until(lambda: any(event == "Page.loadEventFired" for event, _ in self.heard))

    async def invoke(self, name: str, *, frame: str = "", **given: Any) -> dict[str, Any]:
        frame = frame or (await self.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        made = await self.send("WebMCP.invokeTool", frameId=frame, toolName=name, input=given)
        number = made["invocationId"]
        return await self.response(number)

    async def response(self, number: str) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            responses = [params for event, params in self.heard if event == "WebMCP.toolResponded"]
            return [params for params in responses if params["invocationId"] == number]

        await self.until(lambda: bool(found()))
        return found()[0]


@asynccontextmanager
async def tab(running: Running, *, enabled: bool = True) -> AsyncIterator[Tab]:
    async with connect(running.address) as connection:
        target = (await connection.send("Target.createTarget", {"url": "about:blank"}))["targetId"]
        attaching = {"targetId": target, "flatten": True}
        session = (await connection.send("Target.attachToTarget", attaching))["sessionId"]
        made = Tab(connection, session)
        for event in EVENTS:
            connection.on(session, event, lambda params, event=event: made.hear(event, params))  # type: ignore[misc]
        for domain in ("Page", "Runtime", *(("WebMCP",) if enabled else ())):
            await made.send(f"{domain}.enable")
        yield made
        await connection.send("Target.closeTarget", {"targetId": target})


async def test_tools_come_with_schema_and_without_what_the_standard_lacks(
    running: Running, web: Site
) -> None:
    """Keys `x-…` of the schema survive, others of the tool are dropped. Nothing checks the schema."""
    more = "title: 'T', category: 'c', inputSchema: {type: 'objct', 'x-category': 'admin'},"
    async with tab(running) as one:
        await one.open(web.page("one", tool_script("first", more=more)))
        await one.until(lambda: one.names() == ["first"])
        [found] = [
            tool for event, params in one.heard if event == "WebMCP.toolsAdded" for tool in params["tools"]
        ]
        assert found["inputSchema"] == {"type": "objct", "x-category": "admin"}
        assert found.keys() <= {"name", "description", "inputSchema", "frameId", "stackTrace", "annotations"}
        assert (await one.invoke("first", odd=True))["status"] == "Completed"


async def test_no_event_says_that_tools_went_with_their_page(running: Running, web: Site) -> None:
    """So they are dropped with their document, not by `toolsRemoved`."""
    async with tab(running) as one:
        await one.open(web.page("one", tool_script("first")))
        await one.until(lambda: one.names() == ["first"])
        await one.open(web.page("two", tool_script("second")))
        await one.until(lambda: one.names() == ["second"])
        assert one.names("WebMCP.toolsRemoved") == []


async def test_a_page_from_the_cache_has_its_tools_before_it_is_navigated(
    running: Running, web: Site
) -> None:
    """The contexts are cleared before; so that is when tools are dropped."""
    async with tab(running) as one:
        await one.open(web.page("one", tool_script("first")))
        await one.until(lambda: one.names() == ["first"])
        await one.open(web.page("two"))
        one.heard.clear()
        await one.send("Runtime.evaluate", expression="history.back()", userGesture=True)
        await one.until(lambda: {"WebMCP.toolsAdded", "Page.frameNavigated"} <= {e for e, _ in one.heard})
        order = [event for event, _ in one.heard]
        cleared = order.index("Runtime.executionContextsCleared")
        assert cleared < order.index("WebMCP.toolsAdded") < order.index("Page.frameNavigated")


async def test_only_the_tools_of_the_top_frame_are_reported_late(running: Running, web: Site) -> None:
    """So frames that were loaded before are reached by the script."""
    web.page("inner", tool_script("within"))
    async with tab(running, enabled=False) as one:
        await one.open(web.page("outer", tool_script("around"), body="<iframe src=inner></iframe>"))
        await one.send("WebMCP.enable")
        await one.until(lambda: bool(one.names()))
        await one.send("Runtime.evaluate", expression="1")
        assert one.names() == ["around"]


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ("{a: 'e'}", '{"a":"e"}'),
        ("{a: 'é'}", '{"a":"é"}'),
        ("{a: '😀'}", '{"a":"😀"}'),
        ("'{\"a\":1}'", '{"a":1}'),
        ("undefined", "undefined"),
        ("'text'", "text"),
        ("5", "5"),
    ],
)
async def test_the_page_itself_gets_results_as_texts(
    running: Running, web: Site, result: str, output: str
) -> None:
    """So a text of JSON cannot be told from an object."""
    calling = (
        "(async () => document.modelContext.executeTool((await document.modelContext.getTools())[0], {}))"
    )
    async with tab(running) as one:
        await one.open(web.page("one", tool_script("first", result)))
        await one.until(lambda: one.names() == ["first"])
        answer = await one.send("Runtime.evaluate", expression=f"{calling}()", awaitPromise=True)
        assert answer["result"]["value"] == output


async def test_a_failure_is_reported_to_us_but_not_to_the_page_that_called(
    running: Running, web: Site
) -> None:
    """A script that calls a tool learns that it failed, not why; the domain says why."""
    calling = (
        "(async () => document.modelContext.executeTool((await document.modelContext.getTools())[0], {}))"
    )
    async with tab(running) as one:
        await one.open(web.page("one", tool_script("first", "(() => { throw new Error('sold out') })()")))
        await one.until(lambda: one.names() == ["first"])
        answer = await one.send("Runtime.evaluate", expression=f"{calling}()", awaitPromise=True)
        assert "sold out" not in answer["exceptionDetails"]["exception"]["description"]
        await one.until(lambda: any(event == "WebMCP.toolResponded" for event, _ in one.heard))
        [said] = [params for event, params in one.heard if event == "WebMCP.toolResponded"]
        assert said["status"] == "Error"
        assert said["exception"]["description"].startswith("Error: sold out\n")


async def test_a_binding_can_be_given_to_one_document_alone(running: Running, web: Site) -> None:
    """The parameter is deprecated. Without it each document of a tab would see the binding."""
    web.page("inner", "")
    async with tab(running) as one:
        made: list[Any] = []
        one.connection.on(
            one.session, "Runtime.executionContextCreated", lambda params: made.append(params["context"])
        )
        await one.open(web.page("outer", body='<iframe src="/inner"></iframe>'))
        first, second = made[-2:]
        await one.send("Runtime.addBinding", name="given", executionContextId=second["id"])
        kinds = []
        for context in (first, second):
            asking = {"expression": "typeof globalThis.given", "uniqueContextId": context["uniqueId"]}
            kinds.append((await one.send("Runtime.evaluate", **asking))["result"]["value"])
        assert kinds == ["undefined", "function"]


async def test_failures_are_reported_in_these_ways(running: Running, web: Site) -> None:
    """An exception, a tool that is not there, a call that is cancelled, a page that goes away."""
    scripts = (
        tool_script("throws", "(() => { throw new Error('out of stock') })()"),
        tool_script("waits", "await new Promise(() => {})"),
        tool_script("leaves", "await new Promise(() => { location = 'about:blank' })"),
    )
    async with tab(running) as one:
        await one.open(web.page("one", *scripts))
        await one.until(lambda: len(one.names()) == len(scripts))
        thrown = await one.invoke("throws")
        assert (thrown["status"], thrown["errorText"]) == ("Error", "")
        assert thrown["exception"]["description"].startswith("Error: out of stock\n")
        with pytest.raises(CdpError, match="Tool not found") as caught:
            await one.invoke("missing")
        assert caught.value.code == -32602
        frame = (await one.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        made = await one.send("WebMCP.invokeTool", frameId=frame, toolName="waits", input={})
        await one.send("WebMCP.cancelInvocation", invocationId=made["invocationId"])
        assert (await one.response(made["invocationId"]))["status"] == "Canceled"
        left = await one.invoke("leaves")
        assert (left["status"], left["output"]) == ("Completed", [])
