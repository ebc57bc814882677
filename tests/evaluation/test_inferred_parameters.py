"""Inferred parameters beside those that recorded real servers declare, which the rules do not see."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.support import corpus

from maitred.mediation.schema_rules import infer_parameters

_ALSO = {"integer": ("number",), "number": ("integer",)}
PRECISION = 0.94
"""Some points below what was measured; docs/mediation.md has the figures, which are not held out."""


def declared() -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each recorded tool with the parameters that its server declares."""
    path = corpus.recorded()
    if path is None:
        pytest.skip("the recorded definitions of real servers are not here")
    for record in corpus.read(path):
        for tool in record["tools"]:
            schema = tool.get("inputSchema")
            if isinstance(schema, dict):
                properties = schema.get("properties") or {}
                yield {**tool, "required": schema.get("required") or ()}, properties


def test_what_is_inferred_of_recorded_tools_is_mostly_there() -> None:
    """Precision counts: a parameter that is not there misleads, and one that is not found is as before."""
    counts = Counter[str]()
    for tool, properties in declared():
        counts["tools"] += 1
        counts["parameters"] += len(properties)
        found = infer_parameters(tool["name"], tool.get("description") or "")
        counts["of tools without any"] += bool(found) and not properties
        for name, one in found.items():
            counts["inferred"] += 1
            if name not in properties:
                continue
            counts["there"] += 1
            kind, own = one.schema.get("type"), properties[name]
            if kind and isinstance(own, dict) and "type" in own:
                counts["typed"] += 1
                counts["right type"] += kind in (own["type"], *_ALSO.get(str(own["type"]), ()))
            if one.is_required:
                counts["required"] += 1
                counts["rightly required"] += name in tool["required"]

    print(f"\n{dict(counts)}")  # noqa: T201  # the figures for docs/mediation.md
    assert counts["there"] / counts["inferred"] >= PRECISION
