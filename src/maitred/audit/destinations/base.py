"""What every destination does, and what it gets."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import anyio

from maitred.audit.line_index import BEGUN, SUCCESSES
from maitred.config.interpolate import UnresolvedReferenceError

_UNREMARKABLE: Final = frozenset({*SUCCESSES, BEGUN, ""})


class DestinationError(Exception):
    """A destination did not take lines; they are sent again. The text says why, without any credential."""

    def __init__(self, reason: str, *, is_too_large: bool = False) -> None:
        self.reason = reason
        self.is_too_large = is_too_large
        super().__init__(reason)


@dataclass(frozen=True)
class StreamLine:
    """A line: its number, its time, its hash, and the JSON text with all of it, as an export has it."""

    seq: int
    at: str
    digest: str
    text: str

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the line; none if it was damaged."""
        try:
            fields = json.loads(self.text)
        except ValueError:
            return {}
        return fields if isinstance(fields, dict) else {}

    @property
    def is_remarkable(self) -> bool:
        """Whether it records a refusal or a failure."""
        return self.fields.get("outcome", "") not in _UNREMARKABLE


Secrets = Callable[[], tuple[bytes, Mapping[str, str]]]
"""Returns the key and the headers of a destination, with their references replaced; may take long."""


async def resolve_secrets(secrets: Secrets) -> tuple[bytes, Mapping[str, str]]:
    """Get the key and the headers of a destination, in a thread: the keyring or a command may take long.

    Raises:
        DestinationError: A reference has no value any more.
    """
    try:
        return await anyio.to_thread.run_sync(secrets, abandon_on_cancel=True)
    except UnresolvedReferenceError as error:
        raise DestinationError(str(error)) from error


class Destination(Protocol):
    """Takes lines in their order."""

    async def send(self, lines: Sequence[StreamLine]) -> str:
        """Send lines; returns when they have arrived, with a remark if some were not wanted.

        Raises:
            DestinationError: It is not sure that all have arrived.
        """
        ...

    def close(self) -> None:
        """Close what is open."""
        ...
