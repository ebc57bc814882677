"""A shop page of our own, a task of twenty steps in it, and an agent that does the task by the texts it gets.

The agent is a script without knowledge of the page. It acts on an element only if a line of a text that it
was given names it and has its id, and it goes on only when it has read what the step should bring about. It
looks at the page after each step, as models do. Where an answer is a part of a stored one, it asks for the
rest by words. It counts the tokens of all that goes into a model's context.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import mcp_types as types
from mcp import Client

from maitred.catalog.token_count import count_tokens

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".servers" / "npm" / "node_modules" / ".bin"
ORDER = re.compile(r"HC-p13x3-\d+")
_STORED = re.compile(r"maitred://result/[\w-]+")
_RENUMBERED = "with new ids"
_NEAR_LINES = 12

Json = dict[str, Any]


def chromium() -> str:
    """The browser of the system; empty if there is none."""
    return shutil.which("chromium") or ""


# --- the task ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Element:
    """An element by its role and name; `after` is a text shortly before it, if the name is not enough."""

    role: str
    name: str
    after: str = ""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is done to which elements, and the pattern of a line that the agent must read afterwards.

    `words` are what the agent asks for if it has not read such a line. `loads`: a new page is loaded.
    """

    act: str
    expect: str
    words: str
    on: Sequence[tuple[Element, str]] = ()
    loads: bool = False


def _field(name: str, role: str = "textbox") -> Element:
    return Element(role=role, name=name)


_ADDRESS = {
    "Full name": "Ada Byron",
    "Street": "1 Mill Lane",
    "City": "Porto",
    "Mail address": "ada@example.org",
}
STEPS = (
    Step(act="open", expect='heading "Our best"', words="Our best", loads=True),
    Step(act="fill", on=[(_field("Search the shop", "searchbox"), "kettle")],
         expect='searchbox "Search the shop".*kettle', words="Search the shop"),
    Step(act="click", on=[(Element(role="button", name="Search"), "")],
         expect="24 products", words="24 products", loads=True),
    Step(act="choose", on=[(_field("Sort by", "combobox"), "Price, low to high")],
         expect='option "Price, low to high".*selected', words="Sort by|Price, low"),
    Step(act="click", on=[(Element(role="link", name="Brunner Stoneware Kettle"), "")],
         expect='heading "Brunner Stoneware Kettle"', words="Brunner Stoneware Kettle", loads=True),
    Step(act="choose", on=[(_field("Colour", "combobox"), "blue")],
         expect='option "blue".*selected', words="Colour|blue"),
    Step(act="fill", on=[(_field("Quantity", "spinbutton"), "2")],
         expect='spinbutton "Quantity".*2"', words="Quantity"),
    Step(act="click", on=[(Element(role="button", name="Add to cart", after='spinbutton "Quantity"'), "")],
         expect="Added 2 . Brunner Stoneware Kettle", words="Added"),
    Step(act="fill", on=[(_field("Search the shop", "searchbox"), "teapot")],
         expect='searchbox "Search the shop".*teapot', words="Search the shop"),
    Step(act="click", on=[(Element(role="button", name="Search"), "")],
         expect="24 products", words="24 products", loads=True),
    Step(act="click", on=[(Element(role="button", name="Add to cart", after='"Castell Glass Teapot"'), "")],
         expect="Added 1 . Castell Glass Teapot", words="Added"),
    Step(act="click", on=[(Element(role="link", name="Cart (3)"), "")],
         expect='heading "Cart"', words="Cart", loads=True),
    Step(act="fill", on=[(_field("Quantity of Brunner Stoneware Kettle", "spinbutton"), "3")],
         expect='link "Cart \\(4\\)"', words="Cart (4)"),
    Step(act="click", on=[(Element(role="button", name="Remove Castell Glass Teapot"), "")],
         expect='link "Cart \\(3\\)"', words="Cart (3)"),
    Step(act="fill", on=[(_field("Coupon code"), "TEA10")],
         expect='textbox "Coupon code".*TEA10', words="Coupon code"),
    Step(act="click", on=[(Element(role="button", name="Apply coupon"), "")],
         expect="Coupon applied", words="Coupon applied"),
    Step(act="click", on=[(Element(role="link", name="Go to checkout"), "")],
         expect='heading "Checkout"', words="Checkout", loads=True),
    Step(act="fill", on=[(_field(name), value) for name, value in _ADDRESS.items()],
         expect='textbox "Mail address".*ada@example.org', words="Mail address"),
    Step(act="click", on=[(Element(role="radio", name="Express, €9.00"), "")],
         expect='radio "Express, €9.00".*checked', words="Express"),
    Step(act="click", on=[(Element(role="button", name="Place order"), "")],
         expect=ORDER.pattern, words="Order number", loads=True),
)  # fmt: skip
"""Search, sort, open, choose, put into the cart, change it, use a coupon, check out."""


# --- the servers ------------------------------------------------------------------------------------------

Calls = Sequence[tuple[str, Json]]
"""Tools to call one after the other, with their arguments."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A browser server: its program, and its calls. `ids` finds the id of an element in its line.

    `search` is its own tool that finds words in the page, if it has one. `entry` is the server in a
    configuration of maitred, if that is not the program. `read` writes a text with the roles and names by
    which the task names elements. `begin` is called first. With `looks_in_part` a look shows the first
    elements only, and their ids count until something is done.
    """

    name: str
    program: Path
    args: Sequence[str]
    ids: re.Pattern[str]
    look: Callable[[], tuple[str, Json]]
    act: Callable[[str, Sequence[tuple[str, Element, str]]], Calls]
    tools: Sequence[str]
    search: Callable[[str], tuple[str, Json]] | None = None
    entry: Json | None = None
    read: Callable[[str], str] = str
    begin: Calls = ()
    looks_in_part: bool = False

    @property
    def command(self) -> list[str]:
        return [str(self.program), *self.args]

    @property
    def server(self) -> Json:
        return self.entry or {"command": str(self.program), "args": list(self.args)}

    @property
    def is_installed(self) -> bool:
        return self.program.exists()


def _act_playwright(act: str, on: Sequence[tuple[str, Element, str]]) -> Calls:
    if act == "open":
        return [("browser_navigate", {"url": on[0][2]})]
    if len(on) > 1:
        fields = [{"element": one.name, "target": ref, "name": one.name, "type": one.role, "value": value}
                  for ref, one, value in on]  # fmt: skip
        return [("browser_fill_form", {"fields": fields})]
    [(ref, element, value)] = on
    target = {"element": f"{element.name} {element.role}", "target": ref}
    if act == "choose":
        return [("browser_select_option", {**target, "values": [value]})]
    return [("browser_type", {**target, "text": value}) if act == "fill" else ("browser_click", target)]


def _act_chrome(act: str, on: Sequence[tuple[str, Element, str]]) -> Calls:
    page = {"pageId": 1}
    if act == "open":
        return [("navigate_page", {**page, "type": "url", "url": on[0][2]})]
    if len(on) > 1:
        return [("fill_form", {**page, "elements": [{"uid": uid, "value": value} for uid, _, value in on]})]
    [(uid, _, value)] = on
    is_click = act == "click"
    return [("click", {**page, "uid": uid}) if is_click else ("fill", {**page, "uid": uid, "value": value})]


_SELECTOR = "h1, main, [role=status], a, button, input, select, textarea"
_ROLES = {"a": "link", "h1": "heading", "select": "combobox", "textarea": "textbox", "input": "textbox"}
_FIELDS = {"search": "searchbox", "number": "spinbutton", "radio": "radio", "checkbox": "checkbox"}
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ELEMENT = re.compile(
    rf"^(?:(\d+): |(?:Clicked|Filled) )<(\w+)((?: [\w-]+(?:={_QUOTED})?)*)>(?: ({_QUOTED}))?", re.MULTILINE
)
_ATTRIBUTE = re.compile(rf" ([\w-]+)(?:=({_QUOTED}))?")


def _act_maitred(act: str, on: Sequence[tuple[str, Element, str]]) -> Calls:
    if act == "open":
        return [("navigate", {"url": on[0][2]})]
    places = [({"selector": _SELECTOR, "index": int(number)}, value) for number, _, value in on]
    if act == "click":
        return [("click_element", place) for place, _ in places]
    return [("fill_element", {**place, "text": value}) for place, value in places]


def _read_maitred(text: str) -> str:
    """Its lines have tags and attributes; a model knows what roles and names these are."""
    return _ELEMENT.sub(lambda found: _by_role(*found.groups(default="")), text)


def _by_role(number: str, tag: str, attributes: str, text: str) -> str:
    given = {key: json.loads(value) if value else "" for key, value in _ATTRIBUTE.findall(attributes)}
    kind = _FIELDS.get(given.get("type", "")) if tag == "input" else None
    role = given.get("role") or kind or _ROLES.get(tag, tag)
    content = json.loads(text) if text and tag != "select" else ""
    name = given.get("aria-label") or given.get("label") or content
    value = given.get("value", "")
    states = [f'value="{value}"', *(["checked"] if "checked" in given else [])]
    chosen = f' option "{given.get("chosen", value)}" selected' if tag == "select" else ""
    return f'{role} "{name}"{f" [ref={number}]" if number else ""} {" ".join(states)}{chosen}'


def playwright(chromium: str, folder: Path) -> Peer:
    """`@playwright/mcp` with a browser of the system; it writes snapshots into a folder."""
    return Peer(
        name="playwright",
        program=PEERS / "playwright-mcp",
        args=[
            *("--headless", "--isolated", "--no-sandbox"),
            *("--executable-path", chromium, "--output-dir", str(folder)),
        ],
        ids=re.compile(r"\[ref=(\w+)\]"),
        look=lambda: ("browser_snapshot", {}),
        search=lambda words: ("browser_find", {"text": words}),
        act=_act_playwright,
        tools=[
            *("browser_navigate", "browser_snapshot", "browser_click"),
            *("browser_type", "browser_select_option", "browser_fill_form"),
        ],
    )


def chrome_devtools(chromium: str, _: Path) -> Peer:
    """`chrome-devtools-mcp` with a browser of the system; it sends no statistics."""
    return Peer(
        name="chrome-devtools",
        program=PEERS / "chrome-devtools-mcp",
        args=["--headless", "--isolated", "--executablePath", chromium, "--chromeArg=--no-sandbox",
              "--no-usage-statistics", "--no-performance-crux"],
        ids=re.compile(r"\buid=(\w+)"),
        look=lambda: ("take_snapshot", {"pageId": 1}),
        act=_act_chrome,
        tools=["navigate_page", "take_snapshot", "click", "fill", "fill_form"],
    )  # fmt: skip


def maitred_browser(chromium: str, _: Path) -> Peer:
    """maitred's own browser server: as a program alone, and as a server of the gateway."""
    query: Json = {"selector": _SELECTOR, "limit": 100}
    return Peer(
        name="maitred",
        program=Path(sys.executable),
        args=["-m", "maitred", "browser", "serve", "--executable", chromium, "--no-sandbox"],
        entry={"transport": "browser", "browser": {"executable": chromium, "sandbox": False}},
        ids=re.compile(r"\[ref=(\d+)\]"),
        look=lambda: ("query_elements", query),
        search=lambda words: ("query_elements", {**query, "limit": 10, "text_contains": words}),
        act=_act_maitred,
        read=_read_maitred,
        begin=[("chrome_launch", {"headless": True})],
        tools=["chrome_launch", "navigate", "query_elements", "click_element", "fill_element"],
        looks_in_part=True,
    )


PEERS_IN_SHOP = {
    "playwright": playwright,
    "chrome-devtools": chrome_devtools,
    "maitred-browser": maitred_browser,
}
"""How each server is made, by the name of its preset."""


# --- the agent --------------------------------------------------------------------------------------------


class LostError(Exception):
    """The agent was not given what a step needs."""


@dataclass(kw_only=True)
class Spent:
    """Tokens of a run: definitions of tools, calls, answers. `asked` counts questions about stored ones."""

    definitions: int = 0
    calls: int = 0
    answers: int = 0
    requests: int = 0
    asked: int = 0
    steps: int = 0
    largest: int = 0
    order: str = ""
    lost: str = ""
    by_step: list[int] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.definitions + self.calls + self.answers


class ShopAgent:
    """Does the task with one peer, alone or (`prefix` is that of its tools) through the gateway.

    If it `searches`, it looks at a page once, and then uses the server's own search.
    """

    def __init__(
        self, client: Client, peer: Peer, url: str, *, prefix: str = "", searches: bool = False
    ) -> None:
        self._client = client
        self._peer = peer
        self._url = url
        self._prefix = prefix
        self._searches = searches
        self._search = peer.search if searches or peer.looks_in_part else None
        self._texts: list[str] = []
        self._stored = ""
        self.spent = Spent()
        self.log: list[str] = []

    async def run(self, steps: Sequence[Step] = STEPS) -> Spent:
        """Begin, learn the tools, and do the steps; one that fails ends the run."""
        for tool, arguments in self._peer.begin:
            await self._call(tool, arguments)
        await self._learn()  # after that, since a list may grow with the first calls
        try:
            for step in steps:
                before = self.spent.answers + self.spent.calls
                await self._do(step)
                self.spent.steps += 1
                self.spent.by_step.append(self.spent.answers + self.spent.calls - before)
        except LostError as error:
            self.spent.lost = f"step {self.spent.steps + 1}: {error}"
        found = ORDER.search(self._texts[-1]) if self._texts else None
        self.spent.order = found[0] if found else ""
        return self.spent

    async def _learn(self) -> None:
        listed = (await self._client.list_tools()).tools
        definitions = [tool.model_dump(by_alias=True, exclude_none=True, exclude={"meta"}) for tool in listed]
        self.spent.definitions = count_tokens([json.dumps(definitions, ensure_ascii=False)])[0]
        if self._prefix:
            names = [f"{self._prefix}{tool}" for tool in self._peer.tools]
            await self._request("tool_info", {"names": names})

    async def _do(self, step: Step) -> None:
        if step.act == "open":
            calls = self._peer.act("open", [("", Element(role="", name=""), self._url)])
            answer = await self._call_all(calls)
        else:
            calls, answer = await self._act(step)
        if step.loads or (self._peer.looks_in_part and not self._prefix):  # else answers build on others
            self._texts.clear()
        number = len(self._texts)
        self._texts.append(answer)
        if step.loads or not self._searches:
            self._texts.append(await self._call(*self._peer.look()))
        expected = re.compile(step.expect)
        if not any(expected.search(text) for text in self._texts[number:]):
            await self._ask(step.words)
        if not any(expected.search(text) for text in self._texts[number:]):
            raise LostError(f"{step.expect!r} was not to be read after {calls}")

    async def _act(self, step: Step) -> tuple[Calls, str]:
        """Make the calls of a step; if an id is not valid any more, search for all of them once more."""
        for is_last in (not self._search, True):
            on = [(await self._id_of(element), element, value) for element, value in step.on]
            calls = self._peer.act(step.act, on)
            try:
                return calls, await self._call_all(calls)
            except LostError:
                if is_last:
                    raise
            for element, _ in step.on:
                await self._ask(element.name)
        raise AssertionError("the last try returns or raises")

    async def _id_of(self, element: Element) -> str:
        if found := self._find(element):
            return found
        await self._ask(element.after.split('"')[1] if element.after else element.name)
        if found := self._find(element):
            return found
        raise LostError(f"no id of {element} was given")

    def _find(self, element: Element) -> str:
        """The id in the newest line that was given of an element."""
        label = f'{element.role} "{element.name}"'
        for text in reversed(self._texts):
            near = 0 if element.after else _NEAR_LINES
            for line in text.splitlines():
                near = _NEAR_LINES if element.after and element.after in line else near - bool(element.after)
                if near > 0 and label in line and (found := self._peer.ids.search(line)):
                    return found[1]
            if _RENUMBERED in text:  # ids of texts before it may be others now
                return ""
        return ""

    async def _ask(self, words: str) -> None:
        """Ask for what has some words: the stored answer that was named last, or the server's search."""
        if self._search and not self._stored:
            self._texts += [await self._call(*self._search(one)) for one in words.split("|")]
        if not self._stored:
            return
        uri = f"{self._stored}?find={quote_plus(words)}"
        self.spent.asked += 1
        contents = (await self._client.read_resource(uri)).contents
        text = "\n".join(one.text for one in contents if isinstance(one, types.TextResourceContents))
        self._note({"uri": uri}, text)
        self._texts.append(self._peer.read(text))

    async def _call_all(self, calls: Calls) -> str:
        return "\n".join([await self._call(tool, arguments) for tool, arguments in calls])

    async def _call(self, tool: str, arguments: Json) -> str:
        if self._prefix:
            tool, arguments = "call_tool", {"name": f"{self._prefix}{tool}", "arguments": arguments}
        return self._peer.read(await self._request(tool, arguments))

    async def _request(self, tool: str, arguments: Json) -> str:
        result = await self._client.call_tool(tool, arguments)
        text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
        self._note({"name": tool, "arguments": arguments}, text)
        if result.is_error:
            raise LostError(f"{tool} {arguments} failed: {text[:300]}")
        found = _STORED.search(text)
        self._stored = found[0] if found else self._stored
        return text

    def _note(self, request: Mapping[str, Any], text: str) -> None:
        sent, got = count_tokens([json.dumps(request, ensure_ascii=False), text])
        self.spent.requests += 1
        self.spent.calls += sent
        self.spent.answers += got
        self.spent.largest = max(self.spent.largest, got)
        self.log.append(f"--- {request} ({sent} + {got})\n{text}")
