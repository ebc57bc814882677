"""Spans by the SDK of OpenTelemetry, of the extra `otel`. Nothing global is set, so programs keep theirs."""

from collections.abc import Mapping
from typing import Final

from opentelemetry import baggage, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind as OtelKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from maitred import __version__
from maitred.tracing import Attributes, SpanKind

_KINDS: Final = {"server": OtelKind.SERVER, "client": OtelKind.CLIENT, "internal": OtelKind.INTERNAL}
_TRACE: Final = TraceContextTextMapPropagator()
_BAGGAGE: Final = W3CBaggagePropagator()
_LONGEST_VALUE: Final = 200


class OtelTracer:
    """Begins spans of a provider. With `baggage`, what a client carries beside its trace is passed on."""

    def __init__(self, provider: TracerProvider, *, takes_baggage: bool) -> None:
        self._tracer = provider.get_tracer("maitred", __version__)
        self._takes_baggage = takes_baggage

    def begin(
        self, name: str, kind: SpanKind, carrier: Mapping[str, str], attributes: Attributes
    ) -> "OtelSpan":
        """A span of the trace that a message carries, or of a new one."""
        context = _TRACE.extract(carrier, Context())
        if self._takes_baggage:
            context = _BAGGAGE.extract(carrier, context)
        return self.begin_in(context, name, kind, attributes)

    def begin_in(self, context: Context, name: str, kind: SpanKind, attributes: Attributes) -> "OtelSpan":
        """A span within a context of OpenTelemetry."""
        span = self._tracer.start_span(
            name, context, kind=_KINDS[kind], attributes={key: _short(v) for key, v in attributes.items()}
        )
        return OtelSpan(self, span, context)


class OtelSpan:
    """A span, with the context that its children and messages get."""

    def __init__(self, tracer: OtelTracer, span: trace.Span, parent: Context) -> None:
        self._tracer = tracer
        self._span = span
        self._context = trace.set_span_in_context(span, parent)

    def child(self, name: str, kind: SpanKind, attributes: Attributes) -> "OtelSpan":
        """A new step within this one, which begins now."""
        return self._tracer.begin_in(self._context, name, kind, attributes)

    def rename(self, name: str) -> None:
        """Give it a name that was not known when it began."""
        self._span.update_name(name)

    def note(self, **attributes: str | float | bool) -> None:
        """Set attributes; `__` in a name is a dot."""
        for name, value in attributes.items():
            self._span.set_attribute(name.replace("__", "."), _short(value))

    def fail(self, error_type: str) -> None:
        """Mark it as failed, by the kind of the error; the text of an error may quote arguments."""
        self._span.set_attribute("error.type", _short(error_type))
        self._span.set_status(trace.StatusCode.ERROR)

    def end(self) -> None:
        """It ends now."""
        self._span.end()

    def carrier(self) -> Mapping[str, str]:
        """The headers of W3C Trace Context, and baggage where the client's is passed on."""
        found: dict[str, str] = {}
        _TRACE.inject(found, self._context)
        if baggage.get_all(self._context):
            _BAGGAGE.inject(found, self._context)
        return found


def _short(value: str | float | bool) -> str | float | bool:  # noqa: FBT001  # a value of an attribute
    return value[:_LONGEST_VALUE] if isinstance(value, str) else value
