"""What monitoring systems see of the gateway: the list of metrics, and the way to a collector by OTLP/HTTP.

`instruments` lists every metric, for Prometheus and OTLP alike; `activity` is where features report what
happens. `exporter` needs the extra `otel` and loads only with a collector. To add a metric, write one entry
in `instruments` and count it in `maitred.gateway.metrics`.
"""
