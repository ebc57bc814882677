"""The metrics that Prometheus reads, as messages of OTLP: one list, counted once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from maitred import __version__
from maitred.telemetry.instruments import INSTRUMENTS, Instrument, otlp_label

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Sample

_BY_NAME: Final = {instrument.name: instrument for instrument in INSTRUMENTS}
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_ENDLESS: Final = "+Inf"
_UNKNOWN: Final[Any] = None  # the encoder then leaves the field out


def metrics_data(
    families: Iterable["Family"], resource: Resource, started_ns: int, now_ns: int
) -> MetricsData:
    """A message with all metrics, which count since `started_ns`."""
    metrics = [
        _metric(_BY_NAME[family.name], family.samples, started_ns, now_ns)
        for family in families
        if family.name in _BY_NAME and family.samples
    ]
    scope = ScopeMetrics(InstrumentationScope("maitred", __version__), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(instrument: Instrument, samples: Sequence["Sample"], started_ns: int, now_ns: int) -> Metric:
    data: Sum | Gauge | Histogram
    if instrument.kind == "histogram":
        data = Histogram(_histograms(samples, started_ns, now_ns), _CUMULATIVE)
    else:
        points = [
            NumberDataPoint(_labels(sample.labels), started_ns, now_ns, sample.value)
            for sample in samples
            if not sample.name.endswith("_created")
        ]
        is_sum = instrument.kind == "counter"
        data = Sum(points, _CUMULATIVE, is_monotonic=True) if is_sum else Gauge(points)
    return Metric(instrument.otlp_name, instrument.about, instrument.unit, data)


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a sample, without empty ones."""
    return {otlp_label(name): value for name, value in labels.items() if value}


def _histograms(samples: Sequence["Sample"], started_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    """One point for each set of labels; Prometheus counts up to each bound, OTLP between two."""
    grouped: dict[tuple[tuple[str, str], ...], dict[str, float]] = defaultdict(dict)
    for sample in samples:
        rest = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        bound = sample.labels.get("le")
        grouped[rest][bound or sample.name.rpartition("_")[2]] = sample.value
    points = []
    for rest, values in grouped.items():
        bounds = [bound for bound in values if _is_bound(bound)]
        up_to = [0.0, *(values[bound] for bound in bounds), values[_ENDLESS]]
        points.append(
            HistogramDataPoint(
                attributes=_labels(dict(rest)),
                start_time_unix_nano=started_ns,
                time_unix_nano=now_ns,
                count=int(values[_ENDLESS]),
                sum=values["sum"],
                bucket_counts=[int(after - before) for before, after in pairwise(up_to)],
                explicit_bounds=[float(bound) for bound in bounds],
                min=_UNKNOWN,
                max=_UNKNOWN,
            )
        )
    return points


def _is_bound(text: str) -> bool:
    return text not in (_ENDLESS, "count", "sum", "created")
