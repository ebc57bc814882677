"""Call a tool: a form from its schema, faults beside their fields, the answer, and commands to copy.

The gateway checks the arguments; nothing is checked here. A call that takes longer than a moment, or waits
for a person, goes on after its form is answered (see `run`); the session that asked keeps it.
To add a kind of field, put it into `schema_form.py`, and draw it in `call.html`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import quote as shell
from typing import Any, Final
from urllib.parse import quote

import anyio.to_thread

from maitred.errors import BusyError, MaitredError
from maitred.gateway import Gateway
from maitred.model.held_calls import CallDecision, HeldCall
from maitred.model.tools import Tool, ToolCall
from maitred.surfaces.web.call.run import CallOutcome, CallRun
from maitred.surfaces.web.call.schema_form import (
    ArgumentsTextError,
    arguments_of,
    fields_of,
    is_about,
    read_json,
    typed_values,
)
from maitred.surfaces.web.outcomes import MOST_BYTES, Outcomes
from maitred.surfaces.web.screen import Action, Form, ScreenPage, Visit, WebScreen, url_of

_SHOWN: Final = 50
_BYTES_OF_CHARACTER: Final = 12
"""The most that JSON needs for one character: two escapes."""
_LEAST_ROOM: Final = 100
FRAGMENT: Final = "call"
"""The part of the pages that shows what becomes of calls."""
_SOON_S: Final = 1.0
"""After how many seconds a form is answered, though its call goes on."""
_MOST_RUNNING: Final = 20
_RETRY_S: Final = 30.0


_RUNS: Final = Outcomes[CallRun]()


async def view_choice(visit: Visit) -> Mapping[str, Any]:
    """The tools to choose from."""
    words = visit.query.text("q")[:200]
    tools = visit.gateway.visible_tools(visit.viewer)
    wanted = words.casefold().split()
    found = [tool for tool in tools if all(one in f"{tool.name} {tool.title}".casefold() for one in wanted)]
    return {
        "words": words,
        "tools": found[:_SHOWN],
        "more": max(len(found) - _SHOWN, 0),
        "total": len(tools),
        "runs": _RUNS.every(visit.session),
    }


async def view(visit: Visit) -> Mapping[str, Any]:
    """The form of a tool, and what became of one call."""
    gateway, viewer = visit.gateway, visit.viewer
    tool = gateway.tool(visit.path["server"], visit.path["tool"], viewer)
    schema = gateway.schema_of(tool.name, viewer) if not tool.withheld else None
    run = _run_of(visit)
    done = run.outcome if run else None
    fields = fields_of(schema, run.typed if run else {}, done.faults if done else ())
    arguments = run.arguments if run else {}
    return {
        "page_title": f"Call {tool.name}",
        "tool": tool,
        "withheld": gateway.why_unusable(tool, viewer),
        "fields": fields,
        "run": run,
        "run_id": visit.query.text("run"),
        "done": done,
        "held": [(one, await _choices(visit, one)) for one in run.held] if run else [],
        "whole": run.whole if run else "",
        "other_faults": _other_faults(done, [one.name for one in fields]),
        "parts": _parts(gateway, done.answer) if done and done.answer is not None else (),
        "cost": gateway.tokens_of(json.dumps(done.answer, ensure_ascii=False, default=str))
        if done and done.answer is not None
        else 0,
        "curl": _curl(gateway, tool, arguments),
        "command": f"maitred call --args {shell(_json(arguments))} -- {shell(tool.name)}",
        "is_gone": bool(visit.query.text("run")) and run is None,
        "held_s": gateway.settings.held_calls.wait_s if gateway.settings.held_calls.rules else 0,
    }


def _run_of(visit: Visit) -> CallRun | None:
    """The call that the address names, if it is one of this tool and session."""
    run = _RUNS.find(visit.session, visit.query.text("run"))
    is_of_tool = run is not None and (run.server, run.tool) == (visit.path["server"], visit.path["tool"])
    return run if is_of_tool else None


async def _choices(visit: Visit, held: HeldCall) -> Sequence[CallDecision]:
    """What the person may decide about a call that waits; nothing if another has to."""
    try:
        return (await visit.gateway.held_call(held.id, visit.viewer)).choices
    except MaitredError:  # the person may not decide, or it is not known now
        return ()


def _other_faults(done: CallOutcome | None, names: Sequence[str]) -> Sequence[str]:
    """The faults that belong to no field of the form."""
    return [one for one in (done.faults if done else ()) if not any(is_about(one, name) for name in names)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _curl(gateway: Gateway, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The request over HTTP that calls the tool alike."""
    http = gateway.settings.http
    path = f"/api/v1/tools/{quote(tool.server, safe='')}/{quote(tool.key.name, safe='')}/call"
    token = (
        ['-H "Authorization: Bearer $MAITRED_TOKEN"']
        if http.token or http.jwt or http.anonymous == "none"
        else []
    )
    host = f"[{http.host}]" if ":" in http.host else http.host
    address = shell(f"http://{host}:{http.port}{path}")
    body = shell(_json({"arguments": arguments}))
    return " ".join(["curl", address, *token, "-H 'Content-Type: application/json' -d", body])


@dataclass(frozen=True, kw_only=True)
class AnswerPart:
    """A part of an answer: its text as an agent gets it, and its outline."""

    kind: str
    text: str
    outline: str
    tokens: int


def _parts(gateway: Gateway, answer: Mapping[str, Any]) -> Sequence[AnswerPart]:
    content = answer.get("content")
    parts = [_part(gateway, one) for one in content] if isinstance(content, list) else []
    if "structuredContent" in answer:
        value = answer["structuredContent"]
        text = json.dumps(value, ensure_ascii=False, indent=2)
        parts.append(_text_part(gateway, "structured content", text, value))
    return parts


def beginning_of(answer: Mapping[str, Any], most: int = MOST_BYTES) -> tuple[Mapping[str, Any], bool]:
    """An answer of so many bytes at most, and whether something of it is left out."""
    if _size(answer) <= most:
        return answer, False
    content, room = list[Any](), most
    blocks = answer.get("content")
    for block in blocks if isinstance(blocks, list) else ():
        kept = _fitting(block, room)
        content += [] if kept is None else [kept]
        room -= 0 if kept is None else _size(kept)
    about = {"content": content, "isError": answer.get("isError", False)}
    value = answer.get("structuredContent")
    return (about | {"structuredContent": value} if value and _size(value) <= room else about), True


def _fitting(block: Any, room: int) -> Any:
    """A block, or the beginning of its text; `None` if there is no room for it."""
    if _size(block) <= room:
        return block
    text = block.get("text") if isinstance(block, Mapping) else None
    if not isinstance(text, str) or room < _LEAST_ROOM:
        return None
    return {"type": "text", "text": text[: (room - _LEAST_ROOM) // _BYTES_OF_CHARACTER]}


def _size(value: Any) -> int:
    return len(json.dumps(value, default=str))


def _part(gateway: Gateway, block: Any) -> AnswerPart:
    text = block.get("text") if isinstance(block, Mapping) else None
    if not isinstance(text, str):
        kind = str(block.get("type", "block")) if isinstance(block, Mapping) else "block"
        about = (
            {name: value for name, value in block.items() if name != "data"}
            if isinstance(block, Mapping)
            else {}
        )
        return _text_part(gateway, kind, json.dumps(about, ensure_ascii=False, indent=2, default=str), about)
    try:
        value = read_json(text)
    except ValueError:
        value = text
    return _text_part(gateway, "text", text, value if isinstance(value, dict | list) else text)


def _text_part(gateway: Gateway, kind: str, text: str, value: Any) -> AnswerPart:
    return AnswerPart(kind=kind, text=text, outline=gateway.outline_of(value), tokens=gateway.tokens_of(text))


async def act(visit: Visit, form: Form) -> str:
    """Call the tool; the page that follows has its answer, that it waits or runs, or why it was not called.

    Raises:
        BusyError: Too many calls of this person wait or run.
    """
    server, name, after = visit.path["server"], visit.path["tool"], visit.after
    if after is None:
        raise AssertionError("an action has what goes on after it")
    if after.count >= _MOST_RUNNING:
        raise BusyError(f"{_MOST_RUNNING} calls from these pages wait or run already", retry_in_s=_RETRY_S)
    run = CallRun(
        server,
        name,
        typed=typed_values(form),
        whole=form.raw("whole"),
        changed=partial(after.mark, FRAGMENT),
    )
    run_id = _RUNS.keep(visit.session, run, run.goes_on)
    after.start(partial(run.carry_out, partial(_call, visit)))
    await run.news(_SOON_S)
    return url_of("call", server, name, run=run_id) + "#outcome"


async def _call(visit: Visit, run: CallRun) -> tuple[Mapping[str, Any], bool]:
    """The answer of a tool, or the beginning of it.

    Raises:
        MaitredError: The tool cannot be called, or its server failed.
        ArgumentsTextError: What was typed is not JSON.
    """
    gateway, viewer = visit.gateway, visit.viewer
    async with gateway.audit_request("call", run.tool, viewer):
        tool = await gateway.tool_of_server_to_call(run.server, run.tool, viewer)
    schema = gateway.schema_of(tool.name, viewer)
    run.arguments = _whole(run.whole) if run.whole.strip() else arguments_of(run.typed, schema)
    wanted = ToolCall(name=tool.name, arguments=run.arguments)
    answer = await gateway.call(wanted, viewer=viewer, caller=run)
    return await anyio.to_thread.run_sync(beginning_of, answer)


def _whole(text: str) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise ArgumentsTextError(f"All arguments together are not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ArgumentsTextError('All arguments together must be one JSON object, such as {"path": "."}.')
    return value


SCREEN: Final = WebScreen(
    title="Call",
    role="agent",
    summary="call a tool by hand",
    pages=[
        ScreenPage(path="call", template="call/choose.html", view=view_choice),
        ScreenPage(path="call/{server}/{tool}", template="call/call.html", view=view),
    ],
    actions=[Action(path="call/{server}/{tool}", act=act)],
)
