"""Find the tool that the name of a call means."""

from collections.abc import Awaitable
from typing import Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer
from maitred.model.tools import Tool


class ToolSource(Protocol):
    """What knows the tools."""

    def is_known(self, name: str) -> bool:
        """Whether a tool is published under this name."""
        ...

    async def await_server(self, name: str, viewer: Viewer) -> None:
        """Wait until the server of an unknown name is discovered.

        Raises:
            ToolWithheldError: The tools of the server are not known; the text says why.
        """
        ...

    def find(self, name: str, viewer: Viewer) -> Tool:
        """The tool of a name, as far as it is there for the viewer.

        Raises:
            ToolNotFoundError: There is none.
        """
        ...


class FindTool:
    """Sets the tool of the call. It waits only for a name that is not known yet."""

    def __init__(self, source: ToolSource) -> None:
        self._source = source

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on with its tool.

        Raises:
            ToolNotFoundError: There is no such tool.
            ToolWithheldError: The tools of its server are not known.
        """
        name = call.request.name
        if not self._source.is_known(name):
            return self._after_waiting(call, proceed)
        call.tool = self._source.find(name, call.viewer)
        return proceed(call)

    async def _after_waiting(self, call: Call, proceed: Proceed) -> Answer:
        name, viewer = call.request.name, call.viewer
        await self._source.await_server(name, viewer)
        call.tool = self._source.find(name, viewer)
        return await proceed(call)
