"""Refuse a saved chain that calls another one."""

from collections.abc import Awaitable, Callable

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.errors import ToolWithheldError


class RefuseNestedChain:
    """`is_composed` says whether a call of a server's tools consists of calls of other tools."""

    def __init__(self, is_composed: Callable[[str], bool]) -> None:
        self._is_composed = is_composed

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on.

        Raises:
            ToolWithheldError: A saved chain calls a saved chain.
        """
        if call.chain is not None and call.chain.saved and self._is_composed(call.tool.server):
            raise ToolWithheldError(call.tool.name, "a saved chain cannot call another saved chain")
        return proceed(call)
