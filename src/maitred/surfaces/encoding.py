"""JSON as clients over HTTP get it: compact, and valid even if a server's data is not.

Servers send lone surrogates and numbers that JSON does not have; neither may make an answer unreadable.
"""

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_json


def encode(value: Any) -> bytes:
    """A JSON value as UTF-8 without spaces; NaN and infinities become null, lone surrogates escapes."""
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        plain = json.loads(json.dumps(value), parse_constant=lambda _: None)
        return json.dumps(plain, separators=(",", ":")).encode()
