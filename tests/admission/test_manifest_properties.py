"""Whatever a file holds, it is read or told what is wrong; what is read has one normal form."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.admission.layers import FILE, judge

from maitred.admission.checks.base import ManifestReading
from maitred.admission.manifest import ADAPTER, Manifest, fits
from maitred.admission.manifest_reader import read_manifest

KEYS = sorted(set(fits()) | set(ADAPTER.json_schema()["properties"]))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from(
        ["${A}", "${", "/srv/x", "https://a.example", "1g", "none", "a:b@c", "\u202e", "a/b@sha256:1"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(
        st.lists(below, max_size=4),
        st.dictionaries(st.one_of(st.text(max_size=8), st.sampled_from(KEYS)), below, max_size=4),
    ),
    max_leaves=12,
)
NAMES = st.from_regex(r"\A[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,2}\Z")
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs", "S")), max_size=12)
SHARED: dict[str, st.SearchStrategy[Any]] = {
    "title": WORDS,
    "timeouts": st.fixed_dictionaries(
        {}, optional={"call_s": st.floats(0.1, 1000), "start_s": st.integers(1, 60)}
    ),
    "tags": st.lists(st.sampled_from(["language:python", "language:go", "technology:sql"]), max_size=3),
    "result_tools": st.booleans(),
    "visibility": st.dictionaries(WORDS, st.one_of(WORDS, st.lists(WORDS, max_size=3)), max_size=3),
}
LIMITS: dict[str, st.SearchStrategy[Any]] = {
    "args": st.lists(WORDS, max_size=3),
    "env": st.dictionaries(st.from_regex(r"\A[A-Z_]{1,8}\Z"), WORDS, max_size=3),
    "memory": st.one_of(st.integers(0, 2**40), st.sampled_from(["512m", "1.5g", "1 GiB", "100"])),
    "cpu": st.one_of(st.floats(0.01, 64), st.integers(1, 8)),
    "cpu_shares": st.integers(0, 5000),
    "pids": st.integers(1, 1000),
    "filesystem": st.lists(
        st.fixed_dictionaries(
            {"path": st.sampled_from(["/srv/a", "/srv/b/", "/srv/.c"])},
            optional={"mode": st.sampled_from(["read", "write"]), "at": st.just("/srv/a")},
        ),
        max_size=3,
    ),
}
GOOD = st.one_of(
    st.fixed_dictionaries({"name": NAMES, "command": st.just("uvx")}, optional=SHARED | LIMITS),
    st.fixed_dictionaries(
        {"name": NAMES, "image": st.sampled_from(["nginx", "ghcr.io/a/b:1"])}, optional=SHARED | LIMITS
    ),
    st.fixed_dictionaries({"name": NAMES, "url": st.just("https://a.example")}, optional=SHARED),
)


def dumped(value: Any) -> str:
    """JSON is YAML, and needs no printer of ours."""
    return json.dumps(value)


def ends_well(text: str) -> ManifestReading:
    """A manifest is read, or the reader says why not; the layers have something to say of either."""
    reading = read_manifest(FILE, text)
    assert reading.manifest is not None or reading.findings
    assert judge(text).outcome in ("refused", "needs approval", "approved")
    return reading


@given(st.text(max_size=200))
@example("? [a]\n: b")
@example("<<: [a]")
@example("a: !!binary x")
@example("%TAG ! x")
@example("'")
@example("!<")
@example("&")
@example("\ufeffname: x")
@example("{name: x, ? }")
@example("a: 2001-99-99")
@example("a: 0o9")
@example("--- >")
def test_any_text_is_read_or_told_what_is_wrong(text: str) -> None:
    """The reader never raises."""
    ends_well(text)


@given(st.text("ab:-?[]{}&*!|>'\"%@`#,\n \t<=~0.", max_size=60))
@settings(max_examples=300)
def test_any_heap_of_signs_that_mean_something_in_yaml_is_read_or_told_what_is_wrong(text: str) -> None:
    """Anchors, aliases, tags, flow and block in any disorder."""
    ends_well(text)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
@settings(max_examples=300)
def test_any_values_under_known_keys_are_read_or_told_what_is_wrong(tree: dict[str, Any]) -> None:
    """Wrong types wherever they can stand; each finding is about a key and has a reason."""
    reading = ends_well(dumped(tree))

    for finding in reading.findings:
        assert finding.reason
        assert finding.severity == "refuse"


@given(GOOD)
def test_the_normal_form_is_a_manifest_that_is_its_own_normal_form(tree: dict[str, Any]) -> None:
    """Read, written and read again it is the same, and so is its hash."""
    first = manifest(dumped(tree))
    second = manifest(dumped(first.normal))

    assert second.normal == first.normal
    assert second.hash == first.hash


@given(GOOD, st.randoms())
def test_the_hash_does_not_depend_on_the_order_of_keys(tree: dict[str, Any], random: Any) -> None:
    """Nor on the file's being indented."""
    shuffled = list(tree.items())
    random.shuffle(shuffled)

    assert manifest(dumped(dict(shuffled))).hash == manifest(json.dumps(tree, indent=2)).hash


@given(GOOD, GOOD)
def test_two_manifests_have_one_hash_only_if_they_have_one_normal_form(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Nothing that counts is left out of the hash."""
    first, second = manifest(dumped(one)), manifest(dumped(other))

    assert (first.hash == second.hash) is (first.normal == second.normal)


def manifest(text: str) -> Manifest:
    reading = read_manifest(FILE, text)
    assert reading.manifest is not None
    assert not reading.findings
    return reading.manifest
