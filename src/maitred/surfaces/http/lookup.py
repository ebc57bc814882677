"""A page of a category, and where it is among the others."""

from typing import Any

from maitred.gateway import Gateway
from maitred.model.access import Viewer


def category_page(gateway: Gateway, name: str, page: int, size: int, viewer: Viewer) -> dict[str, Any]:
    """A page of a category for a viewer, with its position among the pages.

    Raises:
        PathNotFoundError: There is no such category.
    """
    start = (page - 1) * size
    found = gateway.page(f"category/{name}", str(start) if start else "", size, viewer=viewer)
    place = {
        "page": page,
        "page_size": size,
        "total_count": found.total,
        "total_pages": -(-found.total // size),
    }
    return found.to_json() | {"pagination": place}
