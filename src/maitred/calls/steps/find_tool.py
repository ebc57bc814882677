"""Find the tool that the name of a call means."""

from collections.abc import Awaitable, Callable

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer
from maitred.model.tools import Tool

Find = Callable[[str, Viewer], Awaitable[Tool]]


class FindTool:
    """`find` may wait for a server that is being discovered."""

    def __init__(self, find: Find) -> None:
        self._find = find

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on with its tool.

        Raises:
            ToolNotFoundError: There is no such tool.
            ToolWithheldError: The tools of its server are not known.
        """
        tool = await self._find(call.request.name, call.viewer)
        return await proceed(call.with_tool(tool))
