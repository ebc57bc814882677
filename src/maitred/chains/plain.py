"""What a tool returns to a program: plain values, and errors without details of the gateway's machine.

Results have many shapes in the protocol; a program wants the value. Of pictures and sounds it gets only a
description. This module does not limit the size of a value.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from maitred.backends.listing import clean
from maitred.calls.cache import CACHED
from maitred.calls.outline import compact
from maitred.chains.base import ChainLimits
from maitred.chains.values import TooBigError
from maitred.errors import ArgumentsError, MaitredError, ProtocolError, ToolNotFoundError

_CACHED_TEXT = "[cached]"
_ERROR_CHARS = 2_000
_MOST_BLOCKS = 10_000
_JSON_STARTS = ("{", "[")
_PATH = re.compile(
    r"""(['"])(?:~|\.{0,2})/.*?\1|[A-Za-z]:\\[^\s'"]*|(?<![\w/:.])(?:~|\.{0,2})/[^\s'"`:,;()]*[^\s'"`:,;().]"""
)
_WITHOUT_PATHS_OF_OURS = (ArgumentsError, ProtocolError, ToolNotFoundError)


class FailedError(Exception):
    """A tool reported a failure, or returned no result; the text is for the program."""


def plain(result: Mapping[str, Any], limits: ChainLimits) -> Any:
    """Convert a tool's result into the value for a program.

    The structured content comes first, unchanged. Else a single text is taken; if it is a JSON object or
    list, it is parsed. Several texts are joined by lines. Any other block becomes a small object that
    describes it. Texts among other blocks give a list.

    Raises:
        TooBigError: Its texts are longer than one value may be, or it has too many blocks.
        FailedError: The tool failed, or asks for input that a chain cannot give.
    """
    content = result.get("content")
    if isinstance(content, list) and len(content) > _MOST_BLOCKS:
        raise TooBigError(f"it has over {_MOST_BLOCKS:,} blocks of content")
    blocks = [one for one in content if isinstance(one, Mapping)] if isinstance(content, list) else []
    if is_cached(result) and blocks and blocks[-1].get("text") == _CACHED_TEXT:
        blocks.pop()
    texts = [one["text"] for one in blocks if _is_text(one)]
    if result.get("isError"):
        said = "\n".join(texts) or compact(result.get("structuredContent") or "it did not say why")
        raise FailedError(clean(said[: 2 * _ERROR_CHARS])[:_ERROR_CHARS])
    if result.get("resultType") == "input_required":
        raise FailedError("it asks for input from the user, which a chain cannot give; call it directly")
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    if sum(map(len, texts)) > limits.call_bytes:
        raise TooBigError(f"it is over {limits.call_bytes:,} bytes")
    if texts and len(texts) == len(blocks):
        return _parsed(texts[0]) if len(texts) == 1 else "\n".join(texts)
    values = [one["text"] if _is_text(one) else _described(one) for one in blocks]
    return values if len(values) > 1 else values[0] if values else None


def is_cached(result: Mapping[str, Any]) -> bool:
    """Whether a result came from the cache."""
    meta = result.get("_meta")
    return isinstance(meta, Mapping) and meta.get(CACHED) is True


def _is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _described(block: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a picture, a sound or a resource; of binary data, only the size."""
    inner = block.get("resource")
    holder = inner if isinstance(inner, Mapping) else block
    told = {
        key: holder[key] for key in ("uri", "name", "mimeType", "text") if isinstance(holder.get(key), str)
    }
    data = holder.get("blob", holder.get("data"))
    if isinstance(data, str):
        told["bytes"] = len(data) * 3 // 4 - data[-2:].count("=")
    return {"type": str(block.get("type")), **told}


def _parsed(text: str) -> Any:
    if not text.lstrip()[:1].startswith(_JSON_STARTS):
        return text
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


def without_paths(text: str) -> str:
    """The text without what looks like a path of a machine."""
    return _PATH.sub("…", text)


def reason(error: MaitredError, tool: str) -> str:
    """An error for a program: with the tool's name, without paths of the gateway's machine."""
    text = clean(str(error)[: 2 * _ERROR_CHARS])
    if not isinstance(error, _WITHOUT_PATHS_OF_OURS):
        text = without_paths(text)
    return (text if tool in text else f"{tool}: {text}")[:_ERROR_CHARS]
