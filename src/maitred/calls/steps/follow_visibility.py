"""Refuse a call that makes no sense now, and note what an answered call changes about that."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer
from maitred.model.tools import Tool

_TRIES: Final = 5


class CallVisibility(Protocol):
    """Knows which tools make sense for a viewer now."""

    def follows_others(self, tool: Tool, viewer: Viewer) -> bool:
        """Whether calls at other gateways change the facts that `check` reads, too."""
        ...

    async def catch_up(self, tool: Tool, viewer: Viewer) -> None:
        """Read what calls at other gateways changed."""
        ...

    async def share(self, tool: Tool, viewer: Viewer) -> bool:
        """Let other gateways know the facts; false if one of them changed these meanwhile."""
        ...

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
        if self._visibility.follows_others(call.tool, call.viewer):
            return self._followed(call, proceed)
        self._visibility.check(call.tool, call.viewer, call.arguments)
        return self._noted(call, proceed) if self._visibility.changes(call.tool) else proceed(call)

    async def _noted(self, call: Call, proceed: Proceed) -> Answer:
        before = self._visibility.visible(call.tool.server, call.viewer)
        answer = await proceed(call)
        opened = self._visibility.called(call.tool, call.viewer, call.arguments, answer.wire, before)
        return replace(answer, opened=opened) if opened else answer

    async def _followed(self, call: Call, proceed: Proceed) -> Answer:
        """The same, where calls at other gateways count, too."""
        visibility, tool, viewer = self._visibility, call.tool, call.viewer
        await visibility.catch_up(tool, viewer)
        visibility.check(tool, viewer, call.arguments)
        if not visibility.changes(tool):
            return await proceed(call)
        answer = await proceed(call)
        opened: Sequence[str] = ()
        for _ in range(_TRIES):
            await visibility.catch_up(tool, viewer)
            before = visibility.visible(tool.server, viewer)
            opened = visibility.called(tool, viewer, call.arguments, answer.wire, before)
            if await visibility.share(tool, viewer):
                break
        return replace(answer, opened=opened) if opened else answer
