"""Take links out of answers that lead to origins which a server's manifest does not allow.

A link is how an answer carries data away: a client that shows it, or an agent that follows it, tells whoever
is there what stands in it. Only http and https links are looked at, wherever they stand in an answer.
"""

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

_LINK: Final = re.compile(r"https?://[^\s<>\"'`)\]}]{1,4000}", re.IGNORECASE)
_MAX_DEPTH: Final = 100
_PORTS: Final = {"http": 80, "https": 443}


def only_links_to(allowed: Collection[str], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer with each link to another origin replaced by a text that says so.

    `allowed` are origins such as `https://example.com`. What is nested deeper than any honest answer is left
    out.
    """
    origins = {origin_of(one) for one in allowed}
    return {key: _limited(value, origins, 0) for key, value in answer.items()}


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL in one spelling; empty where it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    scheme = parts.scheme.lower()
    if not host or scheme not in _PORTS:
        return ""
    shown = f"[{host}]" if ":" in host else host.rstrip(".")
    return f"{scheme}://{shown}" + ("" if port in (None, _PORTS[scheme]) else f":{port}")


def _limited(value: Any, origins: Collection[str], depth: int) -> Any:
    if isinstance(value, str):
        return _LINK.sub(partial(_kept, origins), value) if "://" in value else value
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [_limited(item, origins, depth + 1) for item in value]
    if isinstance(value, Mapping):
        if value.get("type") == "resource_link" and (link := _foreign(value.get("uri"), origins)):
            return {"type": "text", "text": link}
        return {key: _limited(item, origins, depth + 1) for key, item in value.items()}
    return value


def _foreign(uri: Any, origins: Collection[str]) -> str:
    """What is said in place of a link that is not allowed; empty for one that is."""
    if not isinstance(uri, str) or not _LINK.match(uri):
        return ""
    origin = origin_of(uri)
    return "" if origin in origins else f"[maitred: left out here: a link to {origin or 'nowhere'}]"


def _kept(origins: Collection[str], match: "re.Match[str]") -> str:
    return _foreign(match[0], origins) or match[0]
