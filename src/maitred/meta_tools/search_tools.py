"""`search_tools`: find tools by what they do."""

from typing import Final

from maitred.gateway import MAX_LIMIT, PAGE_TOOLS, Gateway
from maitred.meta_tools import arguments as read
from maitred.meta_tools.base import (
    BOOLEAN,
    DETAIL,
    INTEGER,
    NUMBER,
    TEXT,
    TEXTS,
    MenuText,
    MetaTool,
    MetaToolRequest,
)


async def _answer(gateway: Gateway, request: MetaToolRequest) -> MenuText:
    given = request.arguments
    answer = await gateway.search(
        read.texts(given, read.PHRASE_KEYS),
        server=read.text(given, "server").removeprefix("server/"),
        category=read.text(given, "category"),
        tags=read.tags(given),
        read_only=read.boolean(given, "read_only"),
        use=read.use(given),
        limit=read.integer(given, "limit", 5, most=MAX_LIMIT),
        detail=read.detail(given),
        viewer=request.viewer,
    )
    return MenuText(text=answer.text, tools=answer.shown_names, has_results=answer.is_relevant)


SEARCH_TOOLS: Final = MetaTool(
    name="search_tools",
    description="Find tools by short phrases, one capability each.",
    answer=_answer,
    action="search",
    properties={
        "phrases": TEXTS,
        "server": TEXT,
        "category": TEXT,
        "tag": TEXT,
        "read_only": BOOLEAN,
        "max_latency_ms": NUMBER,
        "min_success": NUMBER,
        "used_within": TEXT,
        "limit": INTEGER,
        "detail": DETAIL,
    },
    required=("phrases",),
    synonyms=(read.PHRASE_KEYS, read.TAG_KEYS),
    reads_only=True,
    with_categories=lambda hidden: len(hidden) > PAGE_TOOLS,
    main_properties=("phrases",),
    with_index=True,
)
