"""Answer a call of a saved chain by running it; no server has to do with it."""

from collections.abc import Awaitable, Callable
from typing import Any

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed

RunSaved = Callable[[Call], Awaitable[dict[str, Any]]]
"""Runs the saved chain that a call is of, and gives its result."""


class RunSavedChain:
    """`is_saved` tells whether the tools of a server are the saved chains."""

    def __init__(self, is_saved: Callable[[str], bool], run: RunSaved) -> None:
        self._is_saved = is_saved
        self._run = run

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Run the chain, or pass the call on."""
        if not self._is_saved(call.tool.server):
            return await proceed(call)
        return Answer(wire=await self._run(call))
