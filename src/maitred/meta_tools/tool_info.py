"""`tool_info`: describe tools at a level of detail."""

from typing import Final

from maitred.gateway import Gateway
from maitred.meta_tools import arguments as read
from maitred.meta_tools.base import DETAIL, TEXTS, MetaTool, MetaToolRequest, Result, text_result


async def _answer(gateway: Gateway, request: MetaToolRequest) -> Result:
    detail = read.detail(request.arguments)
    names = read.texts(request.arguments, read.NAMES_KEYS)
    await gateway.warm()  # for unknown names, the index supplies the nearest ones
    return text_result(gateway.info(names, detail, viewer=request.viewer).text)


TOOL_INFO: Final = MetaTool(
    name="tool_info",
    description="Describe tools; full includes schemas.",
    answer=_answer,
    properties={"names": TEXTS, "detail": DETAIL},
    required=("names",),
    synonyms=(read.NAMES_KEYS,),
    reads_only=True,
)
