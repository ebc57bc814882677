"""ARCHITECTURE.md is one page and true: floors, steps, paths and dependencies are those of the code."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "maitred"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
STEPS = SOURCE / "wiring" / "call_steps.py"
MAX_LINES = 120
_PATH = re.compile(r"`([\w./]+/[\w./]*)`")


def test_it_is_one_page() -> None:
    """A reader takes it in at one sitting."""
    assert len(PAGE.splitlines()) <= MAX_LINES


def test_its_floors_are_the_layers_that_are_checked() -> None:
    """The picture shows the contract of `lint-imports`, line by line."""
    [picture] = re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    [contract] = [c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    assert [re.split(" {2,}", line)[0] for line in picture.splitlines()] == contract["layers"]


def test_every_path_that_it_names_is_there() -> None:
    """A reader who wants to add something finds the file."""
    paths = {path for path in _PATH.findall(PAGE) if not path.startswith("/")}
    missing = {path for path in paths if not ((SOURCE / path).exists() or (ROOT / path).exists())}
    assert missing == set()


@pytest.mark.skipif(not STEPS.exists(), reason="the way of a call is no list of steps yet")
def test_its_steps_are_those_of_a_call_in_their_order() -> None:
    """The numbered list is the list that every call goes through."""
    known = {
        alias.name
        for node in ast.parse(STEPS.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maitred.calls.steps.")
        for alias in node.names
    }
    used = [
        name
        for name in re.findall(r"^ +(\w+)\(", STEPS.read_text(encoding="utf-8"), re.MULTILINE)
        if name in known
    ]
    assert re.findall(r"^\d+\. `(\w+)`", PAGE, re.MULTILINE) == used


def test_it_says_of_every_dependency_why_it_is_there() -> None:
    """One line in the table for each package that an installation brings."""
    table = PAGE[PAGE.index("## Dependencies") :]
    rows = "\n".join(re.findall(r"^\| ([^|]+)\|", table, re.MULTILINE))
    packages = {re.split(r"[\[<>=]", line)[0] for line in PROJECT["project"]["dependencies"]}
    assert {package for package in packages if not re.search(rf"(?<![\w-]){package}(?![\w-])", rows)} == set()


def test_only_wiring_may_import_a_module_with_a_backend() -> None:
    """Somebody who adds a transport is told that the contract does not protect its module yet."""
    [contract] = [
        one
        for one in PROJECT["tool"]["importlinter"]["contracts"]
        if one["name"].startswith("2. Only wiring")
    ]
    modules = {
        ".".join(["maitred", *path.relative_to(SOURCE).with_suffix("").parts])
        for path in (SOURCE / "backends").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Backend" for base in node.bases)
    }

    assert "maitred.backends.http" in modules
    assert modules - set(contract["protected_modules"]) == set()
