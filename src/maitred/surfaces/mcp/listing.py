"""Lists as the protocol wants them: in pages with cursors, of definitions that each revision allows.

A list mixes what several servers wrote, and one malformed definition would make the whole of it invalid; so
each is checked alone, and loses what its revision forbids.
"""

import base64
import binascii
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from maitred.gateway import Offer

PAGE: Final = 100
_ENVELOPE: Mapping[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listed:
    """A list of the protocol: its method, where its entries stand, and the key that names one.

    `doubtful` parts are left out one after the other until a definition is allowed; `bare` is what it must
    have besides `keys`.
    """

    method: str
    field: str
    key: str
    keys: tuple[str, ...]
    doubtful: tuple[str, ...]
    bare: Mapping[str, Any] = dataclasses.field(default_factory=dict)


TOOLS: Final = Listed(
    method="tools/list",
    field="tools",
    key="name",
    keys=("name",),
    doubtful=("icons", "execution", "_meta", "annotations", "outputSchema", "title", "inputSchema"),
    bare={"inputSchema": {"type": "object"}},
)
RESOURCES: Final = Listed(
    method="resources/list",
    field="resources",
    key="uri",
    keys=("uri", "name"),
    doubtful=("icons", "_meta", "annotations", "size", "mimeType", "title", "description"),
)
TEMPLATES: Final = Listed(
    method="resources/templates/list",
    field="resourceTemplates",
    key="uriTemplate",
    keys=("uriTemplate", "name"),
    doubtful=("icons", "_meta", "annotations", "mimeType", "title", "description"),
)
PROMPTS: Final = Listed(
    method="prompts/list",
    field="prompts",
    key="name",
    keys=("name",),
    doubtful=("icons", "_meta", "title", "description", "arguments"),
)


def acceptable(listed: Listed, definition: Mapping[str, Any], version: str) -> dict[str, Any]:
    """A definition that the protocol revision allows: as registered, or without the parts that it forbids."""
    candidate = dict(definition)
    for part in (None, *listed.doubtful):
        if part is not None:
            candidate = {**listed.bare, **{k: v for k, v in candidate.items() if k != part}}
        try:
            validate_server_result(listed.method, version, {**_ENVELOPE, listed.field: [candidate]})
        except ValidationError:
            continue
        return candidate
    return {**{key: definition[key] for key in listed.keys}, **listed.bare}


def page_of(
    listed: Listed,
    own: Sequence[Mapping[str, Any]],
    offers: Sequence[Offer],
    cursor: str | None,
    version: str,
) -> dict[str, Any]:
    """A page of a list: our own entries first, then those of the servers by published name.

    Raises:
        MCPError: The cursor is none of ours.
    """
    after = unquote(read_cursor(cursor))
    rest = [offer for offer in offers if offer.name > after]
    first = [] if after else list(own)
    shown = rest[: PAGE - len(first)]
    entries = [*first, *({**offer.definition, listed.key: offer.name} for offer in shown)]
    page: dict[str, Any] = {
        "resultType": "complete",
        listed.field: [acceptable(listed, entry, version) for entry in entries],
    }
    if len(rest) > len(shown):
        page["nextCursor"] = write_cursor(quote(shown[-1].name, safe=""))
    return page


def read_cursor(cursor: str | None) -> str:
    """The name after which a page starts.

    Raises:
        MCPError: It is not a cursor of ours.
    """
    if cursor is None:
        return ""
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        raise MCPError(
            INVALID_PARAMS, f"{cursor!r} is not a cursor of this server; list from the start"
        ) from None


def write_cursor(name: str) -> str:
    """The cursor of a page that starts after a name, which is ASCII."""
    return base64.urlsafe_b64encode(name.encode("ascii")).decode("ascii")
