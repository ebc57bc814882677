"""What a start costs that uses none of it: nothing."""

import subprocess
import sys

CODE = """
import sys
import maitred.wiring, maitred.wiring.gateway, maitred.gateway.gateway, maitred.surfaces.mcp.lazy_surface
heavy = ("opentelemetry", "prometheus_client", "google.protobuf")
print([name for name in sys.modules if name.startswith(heavy)])
"""


def test_a_gateway_over_standard_streams_loads_nothing_of_opentelemetry_or_prometheus() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
