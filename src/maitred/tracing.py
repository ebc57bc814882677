"""Spans of the work of one request: a tree of timed steps, which `maitred.telemetry` sends to a collector.

The present span is in a context variable, so a step that has none costs one look. Without a tracer there is
none. A span has names and figures, never arguments, answers, or texts of errors.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, Protocol

SpanKind = Literal["server", "client", "internal"]
Attributes = Mapping[str, str | int | float | bool]

TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""What carries a trace, both as headers of HTTP and as keys in the `_meta` of a message."""
_LONGEST: Final = {"traceparent": 128, "tracestate": 512, "baggage": 8_192}
_NOTHING: Final[Attributes] = {}
_NO_CARRIER: Final[Mapping[str, str]] = {}


class Span(Protocol):
    """A timed step."""

    def child(self, name: str, kind: SpanKind, attributes: Attributes) -> "Span":
        """A new step within this one, which begins now."""
        ...

    def rename(self, name: str) -> None:
        """Give it a name that was not known when it began."""
        ...

    def note(self, **attributes: str | float | bool) -> None:
        """Set attributes; `__` in a name is a dot."""
        ...

    def fail(self, error_type: str) -> None:
        """Mark it as failed, by the kind of the error."""
        ...

    def end(self) -> None:
        """It ends now."""
        ...

    def carrier(self) -> Mapping[str, str]:
        """What tells the receiver of a message about this span, by `TRACE_KEYS`."""
        ...


class Tracer(Protocol):
    """Begins spans that have no present span above them."""

    def begin(self, name: str, kind: SpanKind, carrier: Mapping[str, str], attributes: Attributes) -> Span:
        """A span of the trace that a message carries, or of a new one."""
        ...


class NoSpan:
    """In place of a span where nothing is traced."""

    def child(self, name: str, kind: SpanKind, attributes: Attributes) -> "NoSpan":
        """Itself."""
        return self

    def rename(self, name: str) -> None:
        """Do nothing."""

    def note(self, **attributes: str | float | bool) -> None:
        """Do nothing."""

    def fail(self, error_type: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def carrier(self) -> Mapping[str, str]:
        """Carry nothing."""
        return {}


NO_SPAN: Final = NoSpan()
_PRESENT: ContextVar[Span | None] = ContextVar("maitred_span", default=None)
_REMOTE: ContextVar[Mapping[str, str]] = ContextVar("maitred_remote_trace", default=_NO_CARRIER)


def present_span() -> Span | None:
    """The present span; `None` if nothing is traced."""
    return _PRESENT.get()


def detach() -> None:
    """Let this task have no present span: it outlives the request that started it."""
    _PRESENT.set(None)


def carrier_of(values: Mapping[object, object]) -> Mapping[str, str]:
    """The keys of a trace among headers or in `_meta`; what is too long or no text is left out."""
    found = {key: values[key] for key in TRACE_KEYS if key in values}
    return {
        key: value
        for key, value in found.items()
        if isinstance(value, str) and value.isascii() and value.isprintable() and len(value) <= _LONGEST[key]
    }


def note_remote(carrier: Mapping[str, str]) -> None:
    """Remember what the headers of this request carry, for the span of the message in it."""
    _REMOTE.set(carrier)


@contextmanager
def child_span(name: str, kind: SpanKind = "internal", attributes: Attributes = _NOTHING) -> Iterator[Span]:
    """A step within the present span, or `NO_SPAN` if there is none. An error that leaves it fails it."""
    parent = _PRESENT.get()
    if parent is None:
        yield NO_SPAN
        return
    with _run(parent.child(name, kind, attributes), kind) as span:
        yield span


@contextmanager
def root_span(
    tracer: Tracer | None,
    name: str,
    kind: SpanKind,
    attributes: Attributes = _NOTHING,
    *,
    carrier: Mapping[str, str] = _NO_CARRIER,
) -> Iterator[Span]:
    """The span of a message, or of work that no message caused; a child if there is a present span.

    Without a `carrier`, what the headers of the request carry counts.
    """
    if tracer is None:
        yield NO_SPAN
        return
    present = _PRESENT.get()
    began = (
        tracer.begin(name, kind, carrier or _REMOTE.get(), attributes)
        if present is None or carrier
        else present.child(name, kind, attributes)
    )
    with _run(began, kind) as span:
        yield span


@contextmanager
def _run(span: Span, kind: SpanKind) -> Iterator[Span]:
    """Let a span be the present one until the context is left; an error that leaves it fails it."""
    token = _PRESENT.set(span)
    try:
        yield span
    except BaseException as error:
        _note_error(span, error, kind)
        raise
    finally:
        _PRESENT.reset(token)
        span.end()


def _note_error(span: Span, error: BaseException, kind: SpanKind) -> None:
    """Mark a span by an error; of the errors of a client's own making, a server's span has the code alone."""
    code = getattr(error, "code", None)
    if isinstance(code, int):
        span.note(rpc__response__status_code=str(code))
        if kind == "server" and not (code == _INTERNAL or _SERVER_ERRORS[0] <= code <= _SERVER_ERRORS[1]):
            return
    is_named = isinstance(code, str | int)
    span.fail(str(code) if is_named else "cancelled" if _is_cancelled(error) else type(error).__name__)


def _is_cancelled(error: BaseException) -> bool:
    return type(error).__name__ in ("CancelledError", "Cancelled")


_INTERNAL: Final = -32_603
_SERVER_ERRORS: Final = (-32_099, -32_000)
