"""`list_tools_meta`: browse the catalog page by page."""

from typing import Final

from maitred.gateway import PAGE_TOOLS, Gateway
from maitred.meta_tools import arguments as read
from maitred.meta_tools.base import INTEGER, TEXT, MenuText, MetaTool, MetaToolRequest


async def _answer(gateway: Gateway, request: MetaToolRequest) -> MenuText:
    given = request.arguments
    path, cursor = read.path(given), read.text(given, "cursor")
    size = read.integer(given, "page_size", PAGE_TOOLS, most=PAGE_TOOLS)
    page = gateway.browse(path, cursor, size, viewer=request.viewer)
    return MenuText(text=page.text, tools=page.tools)


LIST_TOOLS_META: Final = MetaTool(
    name="list_tools_meta",
    description="Browse category/<name>, server/<name> or servers.",
    answer=_answer,
    action="browse",
    properties={"path": TEXT, "cursor": TEXT, "page_size": INTEGER},
    hidden_keys=read.PATH_KEYS,
    reads_only=True,
)
