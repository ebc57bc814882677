"""Refuse a call that makes no sense now, and note what an answered call changes about that."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer
from maitred.model.tools import Tool


class CallVisibility(Protocol):
    """Knows which tools make sense for a viewer now."""

    def check(self, tool: Tool, viewer: Viewer, arguments: Mapping[str, Any]) -> None:
        """Raise if a call of the tool with these arguments makes no sense now."""
        ...

    def changes(self, tool: Tool) -> bool:
        """Whether a call of the tool may change which tools make sense."""
        ...

    def visible(self, server: str, viewer: Viewer) -> Collection[str]:
        """The tools of a server that make sense now, by their names there."""
        ...

    def called(
        self,
        tool: Tool,
        viewer: Viewer,
        arguments: Mapping[str, Any],
        result: Mapping[str, Any],
        before: Collection[str],
    ) -> Sequence[str]:
        """Record an answered call; returns the published names of the tools that it made visible."""
        ...


class FollowVisibility:
    """Reads the answer as its server gave it, before any other step has changed it."""

    def __init__(self, visibility: CallVisibility) -> None:
        self._visibility = visibility

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, and update the facts afterwards.

        Raises:
            ToolWithheldError: The call makes no sense now; the text says why, and what to do.
        """
        self._visibility.check(call.tool, call.viewer, call.arguments)
        return self._noted(call, proceed) if self._visibility.changes(call.tool) else proceed(call)

    async def _noted(self, call: Call, proceed: Proceed) -> Answer:
        before = self._visibility.visible(call.tool.server, call.viewer)
        answer = await proceed(call)
        opened = self._visibility.called(call.tool, call.viewer, call.arguments, answer.wire, before)
        return replace(answer, opened=opened) if opened else answer
