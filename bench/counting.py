"""Tokens of JSON as it crosses the wire, in OpenAI's o200k vocabulary."""

import json
from typing import Any

from maitred.catalog.token_count import count_tokens


def tokens(value: Any) -> int:
    """The tokens of a value as compact JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return count_tokens([text])[0]
