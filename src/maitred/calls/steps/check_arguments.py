"""Refuse a call with arguments that do not fit, or one that must only read and may do more."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.tools import Tool


class ArgumentCheck(Protocol):
    """Raises if a tool may not be called with some arguments."""

    def __call__(self, tool: Tool, arguments: Mapping[str, Any], *, read_only: bool = False) -> None:
        """Check the call; with `read_only` the tool must be one that only reads."""
        ...


class CheckArguments:
    """`check` compares arguments with the schema that the catalog has of the tool."""

    def __init__(self, check: ArgumentCheck) -> None:
        self._check = check

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on.

        Raises:
            ToolWithheldError: The tool is not read-only, though the caller wants that.
            ArgumentsError: The arguments do not fit; the text shows the tool's parameters.
        """
        self._check(call.tool, call.arguments, read_only=call.read_only)
        return proceed(call)
