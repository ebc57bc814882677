"""Answer a call of a saved chain: run the chain, without a server."""

from collections.abc import Awaitable, Callable
from typing import Any

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed

RunSaved = Callable[[Call], Awaitable[dict[str, Any]]]
"""Runs the saved chain of a call, and returns its result."""


class RunSavedChain:
    """`is_composed` says whether a call of a server's tools consists of calls of other tools."""

    def __init__(self, is_composed: Callable[[str], bool], run: RunSaved) -> None:
        self._is_composed = is_composed
        self._run = run

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Run the chain, or pass the call on."""
        return self._answer(call) if self._is_composed(call.tool.server) else proceed(call)

    async def _answer(self, call: Call) -> Answer:
        return Answer(wire=await self._run(call))
