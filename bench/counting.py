"""Tokens of JSON as it crosses the wire, in OpenAI's o200k vocabulary."""

import json
from functools import cache
from typing import Any

import bpe_openai  # type: ignore[import-untyped, unused-ignore]


@cache
def _encoding() -> Any:
    """Built once: it takes most of a second and the library keeps none."""
    return bpe_openai.get_encoding("o200k_base")


def tokens(value: Any) -> int:
    """The tokens of a value as compact JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(_encoding().encode(text))
