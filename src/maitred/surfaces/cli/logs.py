"""The log on standard error: without credentials, and without terminal control characters.

Every record goes through here, ours and those of libraries, tracebacks included. Libraries log addresses of
requests, so the parts after `?` and before `@` of a URL are left out. If the log cannot be written, as on a
full disk, it is lost, and the process goes on.
"""

import logging
import os
import re
import sys
import traceback
from collections.abc import MutableMapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TextIO

import structlog

from maitred.config.redaction import redact, without_queries
from maitred.surfaces.cli.console import printable
from maitred.surfaces.cli.log_filter import drop_repeated

_SILENT: Final = ("mcp", "client", "server", "uvicorn", "asyncio")
"""Libraries that log events which we report in our own words."""
_BRIEF: Final = ("httpcore2",)
"""Libraries that log single values: rows of the catalog, headers of answers."""
_QUOTED: Final = re.compile("[ \t=\r\n\"']")
_AS_IT_IS: Final = frozenset({"event", "exception", "stack"})


def set_up_logging(*, verbose: bool, quiet: bool = False) -> None:
    """Log to standard error; standard output belongs to results, or to the protocol."""
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING
    errors = _Errors(sys.stderr)
    handler = logging.StreamHandler(errors)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level)
    logging.getLogger().setLevel(level)  # an option after the command comes when handlers are there
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)  # it logs answers that may hold tokens
    for name in _BRIEF if verbose else _SILENT:
        logging.getLogger(name).setLevel(logging.INFO if verbose else logging.CRITICAL)
    structlog.configure(
        processors=[
            drop_repeated,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S"),
            structlog.processors.format_exc_info,  # no values of variables: some are credentials
            _shown,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"),
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(errors),  # type: ignore[arg-type]  # as above
    )
    sys.excepthook = _tell_uncaught


class _Errors:
    """Standard error; text that cannot be written is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # no space, or the reader is gone
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _text(super().format(record))


def _shown(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The values of a record without credentials; the renderer quotes and escapes those with spaces."""
    for key, value in event.items():
        if value is not None and not isinstance(value, bool | int | float):
            text = without_queries(redact(value if isinstance(value, str) else repr(value)))
            is_quoted = key not in _AS_IT_IS and _QUOTED.search(text)
            event[key] = text if is_quoted else printable(text)
    return event


def _text(text: str) -> str:
    return printable(without_queries(redact(text)))


def uncaught_text(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> str:
    """The traceback of an error, without credentials and control characters."""
    return _text("".join(traceback.format_exception(kind, error, trace)))


def _tell_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _Errors(sys.stderr).write(uncaught_text(kind, error, trace))
