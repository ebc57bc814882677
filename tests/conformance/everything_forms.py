"""What the tools of `everything_server.py` ask of a client: forms for its user, prompts for its model."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types

TEXT = {"type": "string"}


def form(message: str, **properties: Mapping[str, Any]) -> types.ElicitRequest:
    """Ask the user for a value of each property that has no default."""
    required = [name for name, schema in properties.items() if "default" not in schema]
    schema = {"type": "object", "properties": properties, "required": required}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def user_form(message: str) -> types.ElicitRequest:
    return form(
        message,
        username={**TEXT, "description": "User's response"},
        email={**TEXT, "description": "User's email address"},
    )


NAME_FORM = form("What is your name?", name=TEXT)
CONFIRM_FORM = form("Please confirm", ok={"type": "boolean"})
DEFAULTS_FORM = form(
    "Please review these values",
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
ENUMS_FORM = form(
    "Please choose",
    untitledSingle={"type": "string", "enum": OPTIONS},
    titledSingle={"type": "string", "oneOf": TITLED},
    legacyEnum={"type": "string", "enum": OPTIONS, "enumNames": ["Option 1", "Option 2", "Option 3"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)
