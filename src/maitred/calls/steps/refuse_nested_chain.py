"""Refuse a saved chain that calls another one."""

from collections.abc import Callable

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.errors import ToolWithheldError


class RefuseNestedChain:
    """`is_saved` tells whether the tools of a server are the saved chains."""

    def __init__(self, is_saved: Callable[[str], bool]) -> None:
        self._is_saved = is_saved

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on.

        Raises:
            ToolWithheldError: A saved chain calls a saved chain.
        """
        if call.chain is not None and call.chain.saved and self._is_saved(call.tool.server):
            raise ToolWithheldError(call.tool.name, "a saved chain cannot call another saved chain")
        return await proceed(call)
