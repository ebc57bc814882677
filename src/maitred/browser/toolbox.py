"""Answers calls of the tools for one client: checks the arguments and the state, and never raises.

It is what MCP servers and the gateway share. The rules decide first: a call that makes no sense now is not
made, and its answer says why and what to do.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import anyio
from jsonschema_rs import ValidationError, Validator, validator_for

from maitred.backends.listing import clean
from maitred.browser.browsers import Browsers
from maitred.browser.cdp import CdpClosedError, CdpError, CdpTimeoutError
from maitred.browser.errors import BrowserFaultError
from maitred.browser.state import DECLARATIONS, BrowserState
from maitred.browser.tools.base import BrowserTool
from maitred.browser.tools.table import TOOLS
from maitred.browser.workspace import GONE, Workspace
from maitred.model.browsers import BrowserOptions
from maitred.model.sharing import Sharer
from maitred.visibility.declarations import read
from maitred.visibility.facts import Facts
from maitred.visibility.rules import RuleRegistry
from maitred.visibility.visibility import VisibilityTable, became_visible
from maitred.wording import did_you_mean, shorten_middle

TITLE: Final = "Chrome"
INSTRUCTIONS: Final = (
    "Drives Chrome: tabs, elements, console, and the JavaScript debugger. Begin with chrome_launch, or with"
    " chrome_connect for a browser that runs."
)

_CALL_S: Final = 90.0
_MOST_TEXT: Final = 100_000
_MOST_FAULT: Final = 300


@cache
def visibility_table() -> VisibilityTable:
    """The rules of the tools, compiled."""

    def fault(keys: Sequence[Any], message: str) -> None:
        raise ValueError(f"{'.'.join(map(str, keys))}: {message}")

    return read(DECLARATIONS, RuleRegistry(), fault)


@cache
def _validator(name: str) -> Validator:
    return validator_for(TOOLS[name].definition["inputSchema"])


class Toolbox:
    """The tools of one instance. `on_state` is called with each new state of its browsers.

    `serves` says whether a client of the gateway is one of this instance.
    """

    def __init__(
        self,
        browsers: Browsers,
        options: BrowserOptions,
        on_state: Callable[[BrowserState], None] = lambda _: None,
        serves: Callable[[Sharer], bool] = lambda _: False,
    ) -> None:
        self._browsers = browsers
        self._options = options
        self._on_state = on_state
        self._serves = serves
        self._workspace: Workspace | None = None
        self._is_closed = False

    @property
    def state(self) -> BrowserState:
        """The state of the client's browsers."""
        return self._workspace.state if self._workspace else BrowserState()

    def visible(self) -> frozenset[str]:
        """The tools that make sense now."""
        return visibility_table().visible_set(TOOLS, Facts(values=self.state.facts))

    def definitions(self, names: frozenset[str] | None = None) -> list[dict[str, Any]]:
        """The definitions of some tools, or of all."""
        return [tool.definition for name, tool in TOOLS.items() if names is None or name in names]

    async def close(self) -> None:
        """End all browsers of the client, which can call no more."""
        self._is_closed = True
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            await workspace.close()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        principal: str = "",
        announce: bool = False,
        timeout_s: float = _CALL_S,
    ) -> dict[str, Any]:
        """The result of a call, as MCP has it. With `announce` it names the tools that became available.

        Calls of one client run one after the other; waiting for those before it counts for `timeout_s`.
        """
        tool = TOOLS.get(name)
        if tool is None:
            hint = did_you_mean(name, TOOLS, otherwise=f"there are {', '.join(TOOLS)}")
            return _result(f"there is no tool {name!r}; {hint}", error=True)
        if fault := _argument_fault(tool, arguments):
            return _result(fault, error=True)
        if self._workspace is None and not self._is_closed:
            self._workspace = Workspace(
                self._browsers, self._options, self._on_state, principal=principal, serves=self._serves
            )
        if (workspace := self._workspace) is None:
            return _result(GONE, error=True)
        try:
            with anyio.fail_after(timeout_s):
                async with workspace.turn:
                    if workspace.is_closed:  # while it waited
                        return _result(GONE, error=True)
                    return await self._run(tool, workspace, arguments, announce=announce)
        except TimeoutError:
            return _result(f"{name} and the calls before it were not done within {timeout_s:g} s", error=True)

    async def _run(
        self, tool: BrowserTool, workspace: Workspace, arguments: Mapping[str, Any], *, announce: bool
    ) -> dict[str, Any]:
        before = self.visible()
        if tool.name not in before and (why := self._why_not(tool, arguments)):
            return _result(f"{tool.name} cannot be called now: {why}", error=True)
        try:
            answer = await _answer(tool, workspace, arguments)
        except BrowserFaultError as error:
            return _result(str(error), error=True)
        opened = became_visible(before, self.visible()) if announce else ()
        return _result(answer + (f"\nNow available: {', '.join(opened)}" if opened else ""))

    def _why_not(self, tool: BrowserTool, arguments: Mapping[str, Any]) -> str:
        """Why a tool makes no sense now. If a call names another connection, the tool itself decides."""
        table, active = visibility_table(), self._workspace.active_id if self._workspace else ""
        if table.leaves_to_server(tool.name, arguments) and arguments["connection_id"] != active:
            return ""
        found = table.why_hidden(tool.name, Facts(values=self.state.facts))
        return f"it {found.text}" if found else ""


async def _answer(tool: BrowserTool, workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    """What a tool answers; the errors of the protocol become errors for an agent.

    Raises:
        BrowserFaultError: It cannot do what was asked.
    """
    try:
        return await tool.run(workspace, tool.with_defaults(arguments))
    except CdpClosedError as error:
        raise BrowserFaultError(
            f"the page or its browser has gone during the call: {error.reason}"
        ) from error
    except CdpError as error:
        raise BrowserFaultError(f"the browser refused: {error.message}") from error
    except CdpTimeoutError as error:
        raise BrowserFaultError(f"{error}; its page may be busy") from error


def _argument_fault(tool: BrowserTool, arguments: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a call; empty if they fit."""
    for name in arguments:
        if name not in tool.parameters:
            otherwise = f"it has {', '.join(tool.parameters) or 'none'}"
            hint = did_you_mean(name, tool.parameters, otherwise=otherwise)
            return f"{tool.name} has no parameter {name!r}; {hint}"
    try:
        _validator(tool.name).validate(dict(arguments))
    except ValidationError as error:
        at = ".".join(map(str, error.instance_path))
        message = f"`{at}`: {error.message}" if at else error.message
        return f"{tool.name}: {shorten_middle(message, _MOST_FAULT)}"
    return ""


def _result(text: str, *, error: bool = False) -> dict[str, Any]:
    cleaned = clean(text)
    more = len(cleaned) - _MOST_TEXT
    shown = f"{cleaned[:_MOST_TEXT]}… ({more:,} more characters)" if more > 0 else cleaned
    return {"content": [{"type": "text", "text": shown}], "isError": error}
