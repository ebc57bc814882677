"""The house rules that a machine can check: sizes, the root of the repository, what packages say."""

import ast
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(p for folder in ("src", "tests", "bench") for p in (ROOT / folder).rglob("*.py"))
SOURCES = [p for p in FILES if ROOT / "src" in p.parents]
MAX_LINES = 600
MAX_FUNCTION = 40
MAX_DOCSTRING = 5
HOUSE = tomllib.loads((Path(__file__).parent / "house.toml").read_text(encoding="utf-8"))
PACKAGES = sorted((ROOT / "src").rglob("__init__.py"))


def test_a_module_has_at_most_600_lines() -> None:
    """One idea per module. Source: CONTRIBUTING.md."""
    lines = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_a_function_has_at_most_40_lines_besides_its_docstring() -> None:
    """A function can be read at a glance, unless it is composition. Source: CONTRIBUTING.md."""
    assert {_name(path): long for path in SOURCES if (long := _long_functions(path))} == {}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _long_functions(path: Path) -> list[str]:
    """The functions of a module that are longer than allowed, with their lines."""
    long = []
    module = path.relative_to(ROOT / "src" / "maitred").as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            lines = (node.end_lineno or 0) - node.lineno + 1 - (docstring.count("\n") + 1 if docstring else 0)
            names = (module, f"{module}:{node.name}")
            exempt = any(fnmatch(name, one) for name in names for one in HOUSE["composition"]["functions"])
            if lines > MAX_FUNCTION and not exempt:
                long.append(f"{node.name}: {lines}")
    return long


def test_the_root_holds_what_a_reader_looks_for_and_nothing_else() -> None:
    """A reader who opens the repository sees no strays. Source: CONTRIBUTING.md."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()]
    there = [path.name for path in ROOT.iterdir() if path.name != ".git"]
    strays = [name for name in there if not any(fnmatch(name, pattern) for pattern in ignored)]
    assert sorted(strays) == sorted(HOUSE["root"]["entries"])


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: str(path.parent.relative_to(ROOT / "src")))
def test_a_package_says_in_five_lines_what_it_is_and_how_to_add_to_it(path: Path) -> None:
    """What it is, what it is not, which kinds live in it, how to add one. Source: CONTRIBUTING.md."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    lines = [line for line in docstring.splitlines() if line]
    assert 3 <= len(lines) <= MAX_DOCSTRING, docstring
    assert "To add " in docstring
