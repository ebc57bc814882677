"""What the log says of a fault: where it was, and never what variables held."""

import subprocess
import sys

_PROGRAM = """
import structlog
from maitred.surfaces.cli.common import set_up_logging
set_up_logging(verbose=False)
def fail(token):
    raise ValueError("it failed")
try:
    fail("hush-" + "hush")
except ValueError:
    structlog.get_logger().exception("a fault")
"""


def test_a_logged_fault_shows_its_place_and_no_values() -> None:
    """Arguments of calls and tokens are such values."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)

    assert "in fail" in done.stderr
    assert "it failed" in done.stderr
    assert "hush-hush" not in done.stderr
