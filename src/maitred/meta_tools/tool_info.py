"""`tool_info`: describe tools at a level of detail."""

from typing import Final

from maitred.gateway import Gateway
from maitred.meta_tools import arguments as read
from maitred.meta_tools.base import DETAIL, TEXTS, MenuText, MetaTool, MetaToolRequest


async def _answer(gateway: Gateway, request: MetaToolRequest) -> MenuText:
    detail = read.detail(request.arguments)
    names = read.texts(request.arguments, read.NAMES_KEYS)
    await gateway.warm()  # for unknown names, the index supplies the nearest ones
    found = await gateway.info(names, detail, viewer=request.viewer)
    return MenuText(text=found.text, tools=found.shown)


TOOL_INFO: Final = MetaTool(
    name="tool_info",
    description="Describe tools; full includes schemas.",
    answer=_answer,
    action="info",
    properties={"names": TEXTS, "detail": DETAIL},
    required=("names",),
    synonyms=(read.NAMES_KEYS,),
    reads_only=True,
)
