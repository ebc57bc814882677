"""Which records of the log a command shows: none that its answer says too, and none twice."""

import logging
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

_IN_ANSWERS: Final = frozenset(["server failed"])
"""Events that the answer of a command says as well, with the name of the server."""


class _Filter:
    is_on = False
    texts: Final[set[str]] = set()


def warn_once() -> None:
    """From here on, drop what the user of a command reads elsewhere. `--verbose` logs all of it."""
    _Filter.is_on = not logging.getLogger().isEnabledFor(logging.DEBUG)


def drop_repeated(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of the log.

    Raises:
        DropEvent: The record is not shown.
    """
    if _Filter.is_on:
        text = repr(sorted(event.items()))
        if event.get("event") in _IN_ANSWERS or text in _Filter.texts:
            raise structlog.DropEvent
        _Filter.texts.add(text)
    return event
