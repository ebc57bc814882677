"""`list_tools_meta`: browse the catalog page by page."""

from typing import Final

from maitred.gateway import PAGE_TOOLS, Gateway
from maitred.meta_tools import arguments as read
from maitred.meta_tools.base import INTEGER, TEXT, MetaTool, MetaToolRequest, Result, text_result


async def _answer(gateway: Gateway, request: MetaToolRequest) -> Result:
    given = request.arguments
    path, cursor = read.path(given), read.text(given, "cursor")
    size = read.integer(given, "page_size", PAGE_TOOLS, most=PAGE_TOOLS)
    return text_result(gateway.browse(path, cursor, size, viewer=request.viewer).text)


LIST_TOOLS_META: Final = MetaTool(
    name="list_tools_meta",
    description="Browse category/<name>, server/<name> or servers.",
    answer=_answer,
    properties={"path": TEXT, "cursor": TEXT, "page_size": INTEGER},
    hidden_keys=read.PATH_KEYS,
    reads_only=True,
)
