"""Turns what a tool of a page answers into a result of MCP, marked as text of the page, within limits."""

import json
from collections.abc import Mapping
from typing import Any, Final

from maitred.backends.listing import clean
from maitred.browser.pages.definitions import MOST_TOOLS
from maitred.browser.pages.links import MOST_LEVELS
from maitred.model.nesting import depth_within
from maitred.model.pages import MARK_KEY, key_name, mark

MOST_RESULT: Final = 1_048_576
"""The most bytes of an answer that are taken; a step of the call bounds what an agent reads at once."""
_MOST_FAULT: Final = 500
_TOO_DEEP: Final = "an answer with more than 100 levels, which was left out"


def as_result(origin: str, value: Any, *, brings_tools: bool = False) -> dict[str, Any]:
    """The result of a call. Blocks of text that the page made are kept, all else becomes JSON.

    Its field `tools` counts only if it may bring tools, and then by the names alone, which get the origin:
    what the tools are, their page says by registering them.
    """
    if not depth_within(value, MOST_LEVELS):
        return _result(origin, _TOO_DEEP, error=True)
    blocks = value.get("content") if isinstance(value, Mapping) else None
    texts = _texts(blocks) if isinstance(blocks, list) else None
    text = "\n".join(texts) if texts else value if isinstance(value, str) else _json(value)
    result = _result(origin, text, error=isinstance(value, Mapping) and value.get("isError") is True)
    if isinstance(value, Mapping) and texts is None and _size(text) <= MOST_RESULT:
        result["structuredContent"] = {MARK_KEY: origin} | _cleaned(value) | {MARK_KEY: origin}
    tools = value.get("tools") if isinstance(value, Mapping) else None
    if brings_tools and isinstance(tools, list):
        result["tools"] = [
            {"name": key_name(origin, tool["name"])}
            for tool in tools[:MOST_TOOLS]
            if isinstance(tool, dict) and isinstance(tool.get("name"), str)
        ]
    return result


def _result(origin: str, text: str, *, error: bool) -> dict[str, Any]:
    more = _size(text) - MOST_RESULT
    shown = clean(text if more <= 0 else _beginning(text))
    if more > 0:
        shown += f"… ({more:,} more bytes, which were not taken)"
    return {
        "content": [{"type": "text", "text": f"{mark(origin)}\n{shown}"}],
        "isError": error,
        "_meta": {"untrusted": True, "origin": origin},
    }


def _size(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _beginning(text: str) -> str:
    """As many whole characters of a text as are taken."""
    return text[:MOST_RESULT].encode(errors="replace")[:MOST_RESULT].decode(errors="ignore")


def as_error(text: str) -> dict[str, Any]:
    """The result of a call that was not made, or failed; the text is ours."""
    return {"content": [{"type": "text", "text": clean(text)}], "isError": True}


def as_fault(origin: str, text: str, said: str) -> dict[str, Any]:
    """The result of a call that failed, with what the page says of it, on one line."""
    line = " ".join(clean(said[:_MOST_FAULT]).split())
    return _result(origin, f"{clean(text)}: {line}{'…' if len(said) > _MOST_FAULT else ''}", error=True)


def _cleaned(value: Any) -> Any:
    """A value without characters that deceive."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _texts(blocks: list[Any]) -> list[str] | None:
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
    return [text for text in texts if isinstance(text, str)] or None


def _json(value: Any) -> str:
    return "done, without a result" if value is None else json.dumps(value, ensure_ascii=False)
