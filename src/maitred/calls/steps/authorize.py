"""Refuse a call that its caller may not make, or that is withheld from all callers now."""

from collections.abc import Awaitable, Callable

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer
from maitred.model.tools import Tool


class Authorize:
    """`check` raises if a viewer may not call a tool. The audit entry names the tool, also of a refusal."""

    def __init__(self, check: Callable[[Tool, Viewer], object]) -> None:
        self._check = check

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on.

        Raises:
            NotAllowedError: The caller may not call this tool.
            ToolWithheldError: It is withheld from all callers now; the text says why.
        """
        tool = call.tool
        call.entry.means(tool.server, tool.key.name)
        self._check(tool, call.viewer)
        return proceed(call)
