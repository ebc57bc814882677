"""Mediation is a library: importing it brings no gateway."""

import subprocess
import sys

PARTS = ("gateway", "wiring", "surfaces", "catalog", "backends", "search", "storage")


def test_the_library_brings_neither_a_gateway_nor_what_a_gateway_needs() -> None:
    """In a fresh interpreter. Source: docs/mediation.md, as a library."""
    code = f"""
import sys, maitred.mediation as mediation
[getattr(mediation, name) for name in mediation.__all__ if name != "fetch_overrides"]
print([part for part in {PARTS!r} if f"maitred.{{part}}" in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip() == "[]"
