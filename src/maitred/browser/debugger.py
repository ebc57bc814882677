"""The JavaScript debugger of one page: breakpoints, where the page is paused, steps, values in a frame.

Lines are counted from 1 here, as editors do; the protocol counts from 0. The debugger is off until `enable`.
A breakpoint is set by the address of a script, so it also holds for scripts that are loaded later.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, Protocol

from maitred.browser.cdp import CdpConnection, CdpError, CdpTimeoutError, Params

Step = Literal["stepOver", "stepInto", "stepOut", "resume"]

OUR_SCRIPTS: Final = "maitred:"
"""How the addresses of our own scripts in a page begin; the debugger never pauses in them."""

_STEP_END: Final = "maitred-step-end"
_STEP_END_S: Final = 10.0

_MOST_SCRIPTS: Final = 2_000
_MOST_PLACES: Final = 20
_MOST_FRAMES: Final = 20
_MOST_VALUES: Final = 30
_VALUE: Final = 200
_AROUND: Final = 1
_REASONS: Final[Mapping[str, str]] = {"other": "a statement `debugger`, or debugger_pause"}


class SendCommand(Protocol):
    """Sends a command to the page."""

    async def __call__(self, method: str, params: Params | None = None, *, timeout_s: float = 10.0) -> Any:
        """Return the result."""
        ...


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A function on the stack. `scopes` are the objects that hold its variables, the innermost first."""

    id: str
    function: str
    url: str
    line: int
    column: int
    script: str = ""
    scopes: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """The function with its place."""
        return f"{self.function or '(anonymous)'} ({self.url or 'inline'}:{self.line}:{self.column})"


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Where and why the page is paused."""

    reason: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, kw_only=True)
class Breakpoint:
    """A breakpoint, and the places in scripts that it was found at; none if no such script is loaded yet.

    `key` is its id at the browser.
    """

    id: str
    key: str
    places: tuple[str, ...] = ()
    unbound: str = ""
    """Why it stops nowhere, although a script of its address is loaded."""


@dataclass(frozen=True, kw_only=True)
class _Script:
    """A script of the page, and its lines in the document of its address."""

    url: str
    first: int
    last: int


class PageDebugger:
    """The debugger of a page. `paused` is where it is paused; `None` while it runs."""

    def __init__(self, send: SendCommand, on_change: Callable[[], None]) -> None:
        self._send = send
        self._on_change = on_change
        self._resume: Callable[[], None] = lambda: None
        self._scripts: dict[str, _Script] = {}
        self.enabled = False
        self.paused: Pause | None = None
        self.breakpoints: dict[str, Breakpoint] = {}
        self._number = 0
        self._is_stepping = False

    @property
    def holds_page(self) -> bool:
        """Whether the page is paused, or runs for one step after which it may be paused again."""
        return self.paused is not None or self._is_stepping

    def listen(self, connection: CdpConnection, session: str) -> None:
        """Follow the events of a session."""
        self._resume = partial(connection.post, "Debugger.resume", {}, session)
        connection.on(session, "Debugger.scriptParsed", self._on_script)
        connection.on(session, "Debugger.paused", self._on_paused)
        connection.on(session, "Debugger.resumed", self._on_resumed)
        connection.on(session, "Debugger.breakpointResolved", self._on_resolved)
        connection.on(session, "Runtime.executionContextsCleared", self._on_left)
        connection.on(session, "Page.frameNavigated", self._on_navigated)

    def end(self) -> None:
        """The page has gone."""
        self.enabled, self.paused, self._is_stepping = False, None, False
        self.breakpoints.clear()

    async def enable(self) -> None:
        """Turn the debugger on."""
        await self._send("Debugger.enable")
        await self._send("Debugger.setBlackboxPatterns", {"patterns": [f"^{OUR_SCRIPTS}"]})
        self.enabled = True
        self._on_change()

    async def set_breakpoint(self, url: str, line: int, column: int, condition: str) -> Breakpoint:
        """Stop at a line of the scripts whose address is `url`, or ends with it."""
        exact, pattern = "://" in url, f"(^|/){re.escape(url.lstrip('/'))}([?#].*)?$"
        where = {"url": url} if exact else {"urlRegex": pattern}
        params = {**where, "lineNumber": line - 1, "columnNumber": column}
        answer = await self._send(
            "Debugger.setBreakpointByUrl", params | ({"condition": condition} if condition else {})
        )
        places = tuple(self._place(location) for location in answer["locations"])
        self._number += 1
        unbound = "" if places else self._why_unbound(f"^{re.escape(url)}$" if exact else pattern, line)
        made = Breakpoint(id=f"b{self._number}", key=answer["breakpointId"], places=places, unbound=unbound)
        self.breakpoints[made.id] = made
        return made

    def _why_unbound(self, pattern: str, line: int) -> str:
        """Why a breakpoint stops nowhere; empty if no script is loaded whose address matches a pattern."""
        wanted = re.compile(pattern)
        found = [one for one in self._scripts.values() if wanted.search(one.url)]
        if not found:
            return ""
        last = max(found, key=lambda script: script.last)
        if line > last.last:
            return f"line {line} is after the last line of {last.url}, which is {last.last}"
        places = ", ".join(f"{one.first} to {one.last}" for one in found[:_MOST_PLACES])
        return f"no statement is at line {line} of {last.url} or after it; it has scripts at lines {places}"

    async def remove_breakpoint(self, breakpoint_id: str) -> None:
        """Take a breakpoint away."""
        removing = {"breakpointId": self.breakpoints[breakpoint_id].key}
        await self._send("Debugger.removeBreakpoint", removing)
        del self.breakpoints[breakpoint_id]

    async def pause(self) -> None:
        """Have the page pause at the next statement that it runs."""
        await self._send("Debugger.pause")

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Count the page as paused while it makes a step: the pause between two lines is no news."""
        self._is_stepping = True
        try:
            yield
        finally:
            self._is_stepping = False
            self._on_change()

    async def step(self, step: Step) -> None:
        """Let a paused page run on, for one step or until the next pause."""
        await self._send(f"Debugger.{step}")

    async def end_step(self) -> None:
        """Have V8 forget a step that led past the last statement.

        Observed in Chromium 156: V8 keeps such a step, and after a navigation no breakpoint of the tab stops
        any more, also for later sessions. Any pause ends the step, so this pauses in a script of ours.
        """
        script = {"expression": f"debugger\n//# sourceURL={_STEP_END}"}
        with suppress(CdpError, CdpTimeoutError):
            await self._send("Runtime.evaluate", script, timeout_s=_STEP_END_S)

    async def pause_on_exceptions(self, state: str) -> None:
        """Choose which exceptions pause the page: none, uncaught or all."""
        await self._send("Debugger.setPauseOnExceptions", {"state": state})

    async def evaluate(self, frame_id: str, expression: str) -> Mapping[str, Any]:
        """Evaluate an expression in a frame; the answer of the protocol, with a preview of the value."""
        params = {
            "callFrameId": frame_id,
            "expression": expression,
            "generatePreview": True,
            "throwOnSideEffect": False,
            "timeout": 5_000,
        }
        answer: Mapping[str, Any] = await self._send("Debugger.evaluateOnCallFrame", params)
        return answer

    async def variables(self, frame: Frame) -> Sequence[tuple[str, str]]:
        """The variables of a frame with their values as short texts, those of its innermost scopes."""
        values: dict[str, str] = {}
        for scope in frame.scopes:
            if scope["type"] not in ("local", "block", "catch") or len(values) >= _MOST_VALUES:
                continue
            params = {"objectId": scope["object"]["objectId"], "ownProperties": True}
            answer = await self._send("Runtime.getProperties", params)
            for one in answer["result"]:
                if one.get("enumerable") and "value" in one:
                    values.setdefault(one["name"], value_text(one["value"]))
        return list(values.items())[:_MOST_VALUES]

    async def source(self, frame: Frame) -> Sequence[str]:
        """The lines of the script around a frame, each with its number, the present one marked."""
        answer = await self._send("Debugger.getScriptSource", {"scriptId": frame.script})
        lines = answer["scriptSource"].split("\n")
        first = max(1, frame.line - _AROUND)
        return [
            f"{'>' if number == frame.line else ' '} {number}: {lines[number - 1][:_VALUE]}"
            for number in range(first, min(len(lines), frame.line + _AROUND) + 1)
        ]

    # --- events -------------------------------------------------------------------------------------------

    def _on_script(self, params: Params) -> None:
        """A page may run any number of scripts; those without address, such as of `eval`, need no note."""
        if params["url"]:
            self._scripts[params["scriptId"]] = _Script(
                url=params["url"], first=params["startLine"] + 1, last=params["endLine"] + 1
            )
        while len(self._scripts) > _MOST_SCRIPTS:
            del self._scripts[next(iter(self._scripts))]

    def _on_paused(self, params: Params) -> None:
        frames = tuple(map(self._frame, params["callFrames"][:_MOST_FRAMES]))
        if frames and frames[0].url == _STEP_END:
            self._resume()
            return
        hit = [one.id for one in self.breakpoints.values() if one.key in params.get("hitBreakpoints", ())]
        thrown = params.get("data", {}).get("description", "") if "xception" in params["reason"] else ""
        said = str(params["reason"])
        reason = f"breakpoint {', '.join(hit)}" if hit else _REASONS.get(said, said)
        reason += f", {thrown.splitlines()[0][:_VALUE]}" if thrown else ""
        self.paused = Pause(reason=reason, frames=frames)
        self._on_change()

    def _on_resumed(self, _: Params) -> None:
        self.paused = None
        self._on_change()

    def _on_left(self, params: Params) -> None:
        """The page went to another address, which ends a pause without any `Debugger.resumed`."""
        self._scripts.clear()
        if self.paused is not None:
            self._on_resumed(params)

    def _on_navigated(self, params: Params) -> None:
        """The same for a page whose messages are turned off, which reports no contexts."""
        if self.paused is not None and "parentId" not in params["frame"]:
            self._on_resumed(params)

    def _on_resolved(self, params: Params) -> None:
        for one in self.breakpoints.values():
            if one.key == params["breakpointId"]:
                places = dict.fromkeys((*one.places, self._place(params["location"])))
                self.breakpoints[one.id] = replace(one, places=tuple(places)[-_MOST_PLACES:])
                return

    def _frame(self, raw: Mapping[str, Any]) -> Frame:
        at = raw["location"]
        return Frame(
            id=raw["callFrameId"],
            function=raw["functionName"],
            url=raw.get("url") or self._url_of(at["scriptId"]),
            line=at["lineNumber"] + 1,
            column=at.get("columnNumber", 0),
            script=at["scriptId"],
            scopes=tuple(raw["scopeChain"]),
        )

    def _place(self, location: Mapping[str, Any]) -> str:
        return f"{self._url_of(location['scriptId'])}:{location['lineNumber'] + 1}"

    def _url_of(self, script_id: str) -> str:
        script = self._scripts.get(script_id)
        return script.url if script else ""


def value_text(value: Mapping[str, Any]) -> str:
    """A value of the protocol as a short text."""
    if value.get("type") == "string":
        text = repr(value.get("value", ""))
    elif "value" in value:
        text = json.dumps(value["value"])
    else:
        text = str(value.get("unserializableValue") or value.get("description") or value.get("type", ""))
    text = " ".join(text.split())
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


def preview_text(preview: Mapping[str, Any]) -> str:
    """A preview of an object, such as `{a: 1, b: Array(2)}`."""
    is_list = preview.get("subtype") == "array"
    values = [
        (one["name"], str(one.get("value", one.get("type", "")))) for one in preview.get("properties", ())
    ]
    parts = [value if is_list else f"{name}: {value}" for name, value in values]
    inside = ", ".join([*parts, *(["…"] if preview.get("overflow") else [])])
    return f"[{inside}]" if is_list else f"{{{inside}}}"
