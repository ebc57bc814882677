"""The prompts of maitred itself: an introduction, a search for a task, and the state of the servers.

They are for users, who pick them from a menu of their client. Each prompt begins a conversation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from maitred.errors import StoreError
from maitred.gateway import Gateway, ServerStatus
from maitred.model.access import Viewer
from maitred.surfaces.mcp.prompt_definitions import (
    DEFINITIONS,
    DISCOVER,
    FIND_TOOL,
    SERVER_STATUS,
    TASK,
    listed_prompts,
)
from maitred.surfaces.mcp.resources import Content, OwnResources
from maitred.wording import count_of

_STATS_DAYS = 30
_MAX_LINES = 200
_FOUND: Final = ("strong", "fair")


class OwnPrompts:
    """Makes the messages of our prompts."""

    def __init__(self, gateway: Gateway, resources: OwnResources) -> None:
        self._gateway = gateway
        self._resources = resources

    def listed(self, viewer: Viewer) -> Sequence[Mapping[str, Any]]:
        """Definitions of our prompts for a viewer."""
        return listed_prompts(self._gateway, viewer)

    async def get(self, name: str, arguments: Mapping[str, Any], viewer: Viewer) -> dict[str, Any] | None:
        """The result of `prompts/get` for a viewer; `None` if the prompt is not one of ours.

        Raises:
            NotAllowedError: The prompt shows the state of servers, and the viewer may not watch them.
            MCPError: A required argument is missing.
        """
        if name == DISCOVER:
            return _result(name, *await self._discover(viewer))
        if name == FIND_TOOL:
            task = arguments.get(TASK)
            if not isinstance(task, str) or not task.strip():
                raise MCPError(
                    INVALID_PARAMS, f"prompt {FIND_TOOL!r} needs the argument {TASK!r}: what is to be done"
                )
            return _result(name, *await self._find_tool(task.strip(), viewer))
        if name == SERVER_STATUS:
            return _result(name, _text(await self._status(viewer)))
        return None

    async def _discover(self, viewer: Viewer) -> list[dict[str, Any]]:
        overview = await self._resources.read("maitred://overview", viewer)
        categories = self._gateway.categories(viewer)
        steps = (
            f"This gateway leads to {count_of(categories.tools, 'tool')} on"
            f" {count_of(categories.servers, 'server')} in {count_of(len(categories.lines), 'category')}."
            " To use them:\n"
            "1. Overview: it is attached.\n"
            "2. Categories: they are listed; `list_tools_meta` with path category/NAME shows its tools.\n"
            "3. Search: `search_tools` with short phrases, one capability each, answers with signatures.\n"
            "4. Info: `tool_info` describes a tool before it is called, with detail full its whole schema.\n"
            "5. Call: `call_tool` with the full name; `call_read_only_tool` for what only reads.\n"
            "Say in a few sentences what can be done here, and ask what is wanted."
        )
        attached = [_attached(overview)] if overview else []
        return [*attached, _text(categories.text), _text(steps)]

    async def _find_tool(self, task: str, viewer: Viewer) -> list[dict[str, Any]]:
        answer = await self._gateway.search([task], viewer=viewer)
        messages = [_text(f"Find a tool for this task: {task}\n\nWhat search found:\n{answer.text}")]
        if answer.band in _FOUND and answer.results:
            messages.append(_attached(await self._resources.tool(answer.results[0].tool, viewer)))
        return messages

    async def _status(self, viewer: Viewer) -> str:
        servers = self._gateway.watched_servers(viewer)
        used: Mapping[str, Any] = {}
        note = ""
        try:
            used = await self._gateway.usage_by_server(_STATS_DAYS, viewer)
        except StoreError as error:
            note = f"(no figures of calls: {error.reason})"
        lines = [_status_line(status, used.get(status.name)) for status in servers[:_MAX_LINES]]
        if more := len(servers) - len(lines):
            lines.append(f"({more} more: read maitred://servers)")
        head = (
            f"{count_of(len(servers), 'server')} behind this gateway, with the calls of {_STATS_DAYS} days:"
        )
        return "\n".join([head, *lines, *([note] if note else [])])


def _status_line(status: ServerStatus, usage: Any) -> str:
    parts = [status.health.state.value, count_of(status.tools, "tool")]
    if usage is not None:
        parts.append(
            f"{count_of(usage.calls, 'call')}, {usage.success_rate:.0%} ok, {usage.mean_ms:.0f} ms on"
            f" average, {usage.p95_ms:.0f} ms at p95"
        )
    reason = status.withheld or ("" if status.facts.era else status.error or "not known yet")
    if reason:
        parts.append(f"withheld: {reason}")
    return f"- {status.name}: {', '.join(parts)}"


def _result(name: str, *messages: dict[str, Any]) -> dict[str, Any]:
    description = next(d["description"] for d in DEFINITIONS if d["name"] == name)
    return {"resultType": "complete", "description": description, "messages": list(messages)}


def _text(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


def _attached(content: Content) -> dict[str, Any]:
    block = {"type": "resource", "resource": content.block, "annotations": content.annotations}
    return {"role": "user", "content": block}
