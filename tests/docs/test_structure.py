"""The house rules that a machine can check: the sizes of modules and functions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(p for folder in ("src", "tests", "bench") for p in (ROOT / folder).rglob("*.py"))
SOURCES = [p for p in FILES if ROOT / "src" in p.parents]
MAX_LINES = 600
MAX_FUNCTION = 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_at_most_600_lines(path: Path) -> None:
    """One idea per module. Source: CONTRIBUTING.md."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_function_has_at_most_40_lines_besides_its_docstring(path: Path) -> None:
    """A function can be read at a glance. Source: CONTRIBUTING.md."""
    long = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            lines = (node.end_lineno or 0) - node.lineno + 1 - (docstring.count("\n") + 1 if docstring else 0)
            if lines > MAX_FUNCTION:
                long.append(f"{node.name}: {lines}")
    assert long == []
