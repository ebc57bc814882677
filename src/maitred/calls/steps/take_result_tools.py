"""Read the field `tools` of a server's answer: its tools become known if the operator allows it.

A result could otherwise bring in tools that were in no list, so the field is taken out of answers
unless `servers.<name>.result_tools` is set.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from maitred.backends.listing import TOOLS_KEY
from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer

_FIELD: Final = "tools"


class ResultToolSource(Protocol):
    """Makes the tools in results known."""

    def allows(self, server: str) -> bool:
        """Whether the results of a server may bring in tools."""
        ...

    async def bring(self, server: str, viewer: Viewer, brought: list[Any]) -> Sequence[dict[str, Any]]:
        """Make tools known, and return the definitions of those that the viewer may see."""
        ...


class TakeResultTools:
    """Takes tools out of answers, and puts in their published definitions."""

    def __init__(self, source: ResultToolSource) -> None:
        self._source = source

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and take the tools in its answer."""
        answer = await proceed(call)
        wire, meta = answer.wire, answer.meta
        if _FIELD not in wire and TOOLS_KEY not in meta:
            return answer
        brought = wire.get(_FIELD) or meta.get(TOOLS_KEY)
        plain = answer.without_field(_FIELD).without_meta(lambda key: key == TOOLS_KEY)
        server = call.tool.server
        if answer.is_error or not isinstance(brought, list) or not self._source.allows(server):
            return plain
        tools = list(await self._source.bring(server, call.viewer, brought))
        return plain.with_fields({_FIELD: tools}).with_meta({TOOLS_KEY: tools})
