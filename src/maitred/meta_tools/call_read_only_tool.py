"""`call_read_only_tool`: call a tool that only reads, so that a client need not ask its user."""

from typing import Final

from maitred.gateway import Gateway
from maitred.meta_tools.base import MetaTool, MetaToolRequest, Result
from maitred.meta_tools.call_tool import PROPERTIES, relay


async def _answer(gateway: Gateway, request: MetaToolRequest) -> Result:
    return await relay(gateway, request, read_only=True)


CALL_READ_ONLY_TOOL: Final = MetaTool(
    name="call_read_only_tool",
    description="Call a tool that only reads.",
    answer=_answer,
    action="call",
    properties=PROPERTIES,
    required=("name",),
    any_keys=True,
    reads_only=True,
    open_world=True,
    with_categories=lambda hidden: any(tool.read_only for tool in hidden),
)
