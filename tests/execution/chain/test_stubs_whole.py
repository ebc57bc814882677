"""The stubs of whole catalogs, and of names and schemas that servers make up to break them."""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mypy import api as mypy
from tests.catalog.makers import corpus_snapshot, raw, snapshot_of
from tests.execution.chain.test_stubs import FOUND, ISSUES, STR, assert_whole, properties, whole
from tests.support.corpus import BAD_SCHEMAS, ODD_NAMES

from maitred.catalog.snapshot import Snapshot
from maitred.chains.stubs import stub_text


@pytest.fixture(params=["generated", "recorded"])
def catalog(request: pytest.FixtureRequest) -> Snapshot:
    """All tools of a corpus."""
    snapshot = corpus_snapshot(request.param)
    if snapshot is None:
        pytest.skip("the recorded definitions are not here; the generated ones are tested")
    return snapshot


def test_every_tool_of_a_corpus_can_be_called_by_what_its_stub_says(catalog: Snapshot) -> None:
    """Every stub parses, and has one function for each tool, with its required parameters in front."""
    found = whole(catalog)

    assert sorted(one.tool for module in found for one in module.functions) == [t.name for t in catalog.tools]
    for module in found:
        assert_whole(module)
        for one in module.functions:
            schema = catalog.schema(catalog.by_name[one.tool].input_hash)
            needed = schema.get("required", ()) if isinstance(schema, dict) else ()
            in_front = {there for _, there in one.parameters[: len(set(needed))]}
            assert in_front == set(needed), one.tool


@pytest.fixture
def kept_limit() -> Iterator[None]:
    """The type checker raises Python's limit of nesting for the whole process, and leaves it there."""
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("kept_limit")
def test_a_type_checker_takes_the_stubs_and_finds_the_faults_of_a_program(tmp_path: Path) -> None:
    """The stubs of a whole corpus have no fault of their own."""
    snapshot = corpus_snapshot("generated")
    assert snapshot is not None
    issues = raw("issues", "list", input_schema=ISSUES, output_schema=FOUND)
    tags = properties(names={"type": "array", "items": STR}) | {"required": ["names"]}
    own = snapshot_of([issues, raw("issues", "tag", input_schema=tags)])
    for module in (*whole(snapshot), *whole(own)):
        (tmp_path / f"{module.name}.pyi").write_text(stub_text(module))
    lines = [
        "import issues",
        "async def chain() -> object:",
        "    found = await issues.list('x', limit=3)",
        "    await issues.tag(names=['a'])",
        "    await issues.tag()",
        "    await issues.tag(names='a')",
        "    await issues.list(query='x', limt=3)",
        "    return found['itms']",
    ]
    (tmp_path / "program.py").write_text("\n".join(lines))

    options = ["--strict", f"--cache-dir={os.devnull}", "--config-file="]
    told, _, _ = mypy.run([*options, str(tmp_path)])

    faults = [line.split(":", 2) for line in told.splitlines() if ": error:" in line]
    assert [(Path(file).name, line) for file, line, _ in faults] == [
        ("program.py", str(n)) for n in (5, 6, 7, 8)
    ]


names = st.text(min_size=1, max_size=12) | st.sampled_from(
    [
        *ODD_NAMES,
        "a\nimport os",
        "x: int): ...\nimport os\ndef y(",
        "list",
        "self",
        "class",
        "\ud800",
        "\u3164",
    ]
)
types = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "any"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
schemas = st.recursive(
    st.sampled_from(BAD_SCHEMAS) | values | st.builds(lambda kind: {"type": kind}, types),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, max_size=3),
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=2) | values,
            "items": inner,
            "anyOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=3),
            "enum": st.lists(values, max_size=4),
            "const": values,
            "additionalProperties": inner,
            "$ref": st.sampled_from(["#", "#/properties/a", "#/$defs/~1", "#//", "", "a#b"]),
        },
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.tuples(names, names), st.tuples(schemas, schemas), max_size=5))
@example({("s", "t"): ({"type": "object", "properties": {"a": {"enum": ["'''\n\"\\", "\u2028"]}}}, None)})
def test_no_name_and_no_schema_breaks_a_stub(tools: dict[tuple[str, str], tuple[Any, Any]]) -> None:
    """Nor smuggles a statement into it. Servers write all of this."""
    snapshot = snapshot_of(
        raw(server.encode("utf-8", "replace").decode(), name, input_schema=given_, output_schema=answer)
        for (server, name), (given_, answer) in tools.items()
    )

    found = whole(snapshot)

    assert sum(len(module.functions) for module in found) == len(snapshot.tools)
    for module in found:
        assert_whole(module)
        kinds = {type(node) for node in ast.parse(stub_text(module)).body}
        assert kinds <= {ast.Import, ast.ImportFrom, ast.ClassDef, ast.AsyncFunctionDef}
