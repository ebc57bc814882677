"""Finding tools: by what they can do, by tags, and by their use; these are methods of `Gateway`."""

from collections.abc import Sequence

from maitred.disclosure import pages
from maitred.disclosure.answers import SearchAnswer
from maitred.disclosure.pages import ToolPage
from maitred.gateway.mediation import GatewayMediation
from maitred.gateway.search import SearchService, ToolMatch
from maitred.model.access import Viewer
from maitred.model.details import Detail
from maitred.model.usage import ANY_USE, UsageFilter


class ToolSearch:
    """The methods of a gateway that find tools by more than their place in the menu."""

    _finder: SearchService
    _mediation: GatewayMediation

    async def search(
        self,
        phrases: Sequence[str],
        *,
        server: str = "",
        category: str = "",
        tags: Sequence[str] = (),
        read_only: bool = False,
        use: UsageFilter = ANY_USE,
        limit: int = 5,
        detail: Detail = "brief",
        viewer: Viewer,
    ) -> SearchAnswer:
        """Find tools by capability. Each phrase is one capability.

        Raises:
            UnknownDetailError: There is no such level of detail.
            PathNotFoundError: There is no such server or category.
            UnknownTagError: A tag is not in the vocabulary.
            StoreError: There are limits of use, and the use of tools cannot be read.
        """
        answer = await self._finder.search(
            phrases,
            server=server,
            category=category,
            tags=tags,
            read_only=read_only,
            use=use,
            limit=limit,
            detail=detail,
            viewer=viewer,
        )
        self._mediation.needed(found.tool.server for found in answer.results)
        return answer

    async def tool_match(
        self, tags: Sequence[str] = (), use: UsageFilter = ANY_USE, *, viewer: Viewer
    ) -> ToolMatch:
        """What a tool must have to fit tags and limits of use, for a surface that has a list of tools.

        Raises:
            UnknownTagError: A tag is not in the vocabulary.
            StoreError: There are limits of use, and the use of tools cannot be read.
        """
        return await self._finder.fitting(tags, use, viewer)

    async def filtered_page(
        self,
        path: str,
        cursor: str = "",
        size: int = pages.PAGE_TOOLS,
        *,
        tags: Sequence[str] = (),
        use: UsageFilter = ANY_USE,
        viewer: Viewer,
    ) -> ToolPage:
        """T2, as `page`, but only the tools with all of the tags that meet the limits of use.

        Raises:
            PathNotFoundError: There is no such category or server.
            CursorError: The gateway did not make this cursor.
            UnknownTagError: A tag is not in the vocabulary.
            StoreError: There are limits of use, and the use of tools cannot be read.
        """
        page = await self._finder.page(path, cursor, size, tags=tags, use=use, viewer=viewer)
        self._mediation.opened(path)
        return page
