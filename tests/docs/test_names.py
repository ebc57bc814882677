"""Names and words of the source follow the house rules; `house.toml` beside this file has the lists."""

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("names")  # each worker would read all modules again

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "maitred"
HOUSE = tomllib.loads((Path(__file__).parent / "house.toml").read_text(encoding="utf-8"))
MODULES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted({str(path.parent.relative_to(SOURCE)) for path in MODULES})
SMALL_LINES = 80
_CODE = re.compile(r"`[^`]*`")
_IMPORT = re.compile(r"\bfrom (maitred[\w.]*) import (\([^)]*\)|.*)")
_INSTEAD = {
    re.compile(rf"\b{word}\b", re.IGNORECASE): text for word, text in HOUSE["words"]["instead"].items()
}
_PARTICIPLES_AND_PRONOUNS = frozenset((*HOUSE["names"]["participles"], *HOUSE["names"]["pronouns"]))


@dataclass(frozen=True, kw_only=True)
class ModuleText:
    """What these tests read of a module; the syntax trees of all modules together would take much memory."""

    classes: Sequence[str]
    names: Sequence[str]
    """The module, its public classes and its public functions; methods are read with their class."""
    prose: Sequence[tuple[int, str]]
    """Docstrings, comments and messages with their lines, without `code`; one word alone is no message."""


@cache
def _read(path: Path) -> ModuleText:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    return ModuleText(
        classes=[node.name for node in nodes if isinstance(node, ast.ClassDef)],
        names=[path.stem, *_public_names(tree)],
        prose=[
            *_strings(nodes, is_data=str(path.relative_to(SOURCE)) in HOUSE["words"]["data"]),
            *_comments(text),
        ],
    )


def _public_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            yield node.name


def _strings(nodes: Sequence[ast.AST], *, is_data: bool) -> Iterator[tuple[int, str]]:
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        if " " in node.value and (id(node) in docstrings or not is_data):
            yield node.lineno, _CODE.sub("", node.value)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], _CODE.sub("", token.string)


def _modules_of(package: str) -> list[Path]:
    """The modules of a package, without those of the packages in it."""
    return [path for path in MODULES if path.parent == SOURCE / package]


# --- names --------------------------------------------------------------------------------------------------


def test_no_class_name_is_defined_twice() -> None:
    """A name found by search is the one that was meant. Source: CONTRIBUTING.md."""
    names = Counter(name for path in MODULES for name in _read(path).classes)
    assert [name for name, times in names.items() if times > 1] == []


def _is_alone(name: str) -> bool:
    """Whether a name is nothing but a participle or a pronoun; names of several words are neither."""
    word = name.lower()
    if word in _PARTICIPLES_AND_PRONOUNS:
        return True
    several = "_" in name or re.search("[a-z][A-Z]", name)
    return word.endswith("ed") and not several and word not in HOUSE["names"]["nouns_in_ed"]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_a_participle_or_a_pronoun_alone(package: str) -> None:
    """Verbs for functions, nouns for values, so that a call reads as a sentence. Source: CONTRIBUTING.md."""
    faults = [
        f"{path.name}: {name}"
        for path in _modules_of(package)
        for name in _read(path).names
        if _is_alone(name)
    ]
    assert faults == []


# --- words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
def test_prose_has_no_word_that_is_not_used_here(package: str) -> None:
    """Readers whose first language is another know the actor of each sentence. Source: CONTRIBUTING.md."""
    faults = [
        f"{path.name}:{line}: {found.group()!r}, instead: {instead}"
        for path in _modules_of(package)
        for line, text in _read(path).prose
        for word, instead in _INSTEAD.items()
        for found in word.finditer(text)
    ]
    assert faults == []


def test_the_lists_name_what_there_is() -> None:
    """A list that names what is gone would excuse what comes in its place."""
    assert [name for name in HOUSE["words"]["data"] if not (SOURCE / name).is_file()] == []


# --- modules ------------------------------------------------------------------------------------------------


def _imports(path: Path) -> set[str]:
    """What a file imports of maitred, by full names: modules, and what may be a module in a package."""
    modules: set[str] = set()
    for package, names in _IMPORT.findall(path.read_text(encoding="utf-8")):
        modules |= {package, *(f"{package}.{name}" for name in re.findall(r"\w+", names))}
    return modules


def test_a_small_module_with_one_importer_and_no_test_has_a_reason() -> None:
    """What one module alone uses is part of it, unless two are better to read. Source: CONTRIBUTING.md."""
    importers = Counter(module for path in MODULES for module in _imports(path))
    tested = {module for path in (ROOT / "tests").rglob("*.py") for module in _imports(path)}
    small = set()
    for path in MODULES:
        name = path.relative_to(SOURCE)
        module = ".".join(("maitred", *name.with_suffix("").parts))
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines < SMALL_LINES and importers[module] == 1 and module not in tested:
            small.add(str(name))
    kinds = {path for path in small for kind in HOUSE["small_kinds"] if path.startswith(kind)}
    assert small - kinds == set(HOUSE["small"])
    assert all(any(path.startswith(kind) for path in kinds) for kind in HOUSE["small_kinds"])
