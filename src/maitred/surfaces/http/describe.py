"""How routes are described: an example of each answer, and the errors that a route may give."""

from typing import Annotated, Any, Final

from fastapi import Path

from maitred.surfaces.http import examples
from maitred.surfaces.http.schemas import Error

API: Final = "/api/v1"
_UNCHANGED: Final = {
    "description": "What the client has, by `If-None-Match`, is still so.",
    "headers": {"ETag": {"schema": {"type": "string"}}},
}

ServerName = Annotated[
    str, Path(description="The name of a server in the configuration.", examples=["calculator"])
]
ToolName = Annotated[
    str, Path(description="The tool's raw or published name.", examples=["add", "calculator__add"])
]


def answers(
    example: Any, *errors: int, unchanged: bool = False, description: str = "The answer."
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: its answer with an example, and errors by status; 401 may always be."""
    found: dict[int | str, dict[str, Any]] = {
        200: {"description": description, "content": {"application/json": {"example": example}}}
    }
    if unchanged:
        found[200]["headers"] = _UNCHANGED["headers"]
        found[304] = dict(_UNCHANGED)
    return found | {status: error(status) for status in errors}


def error(status: int) -> dict[str, Any]:
    """The description of an error."""
    text, example = examples.ERRORS[status]
    return {"description": text, "model": Error, "content": {"application/json": {"example": example}}}
