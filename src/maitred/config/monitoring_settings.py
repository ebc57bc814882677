"""Settings of monitoring: where traces and metrics go, and what use costs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le, MinLen


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """Traces and metrics by OTLP/HTTP to a collector of OpenTelemetry; needs the extra `otel`.

    Without `endpoint`, nothing is sent, unless the variables `OTEL_EXPORTER_OTLP_…` name a collector.
    `headers` may have references. `sample` is the share of traces that begin here and are sent; without it,
    the variables decide, or all are. With `baggage`, what a client sends beside its trace is passed on to
    servers.
    """

    endpoint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    service_name: Annotated[str, MinLen(1)] = "maitred"
    traces: bool = True
    metrics: bool = True
    metrics_every_s: Annotated[float, Ge(1), Le(86_400)] = 60.0
    sample: Annotated[float, Ge(0), Le(1)] | None = None
    baggage: bool = False


Money = Annotated[float, Ge(0), Le(1_000_000)]


@dataclass(frozen=True, kw_only=True)
class ModelPrice:
    """What a model costs for a million tokens that it reads, and for a million that it writes."""

    read: Money = 0.0
    written: Money = 0.0


@dataclass(frozen=True, kw_only=True)
class UsageSettings:
    """What use costs, for `maitred stats --by`.

    `prices` are those of models, and `model` is the one by which tokens are priced. `calls` has the price of
    a call by pattern of `server/tool`; the first that fits counts.
    """

    currency: Annotated[str, MinLen(1)] = "USD"
    model: str = ""
    prices: Mapping[str, ModelPrice] = field(default_factory=dict)
    calls: Mapping[str, Money] = field(default_factory=dict)
