"""What a registry wrote becomes words of a command line, and nothing else; entries are ranked."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maitred.config.interpolate import references, resolve
from maitred.registry.entries import Argument, Input, Package, RegistryEntry, latest, read_entries
from maitred.registry.launches import launches
from maitred.registry.proposal import GivenValue, as_entry, value_of
from maitred.registry.ranking import rank

HOSTILE = st.text(alphabet="$${}{}:-keyring/aX ", max_size=12)


def entry_of(text: str, default: str, value: GivenValue | None) -> str:
    """The one argument of a server whose text has a variable."""
    own = Input(name="x", value=text, variables={"v": Input(name="v", default=default)})
    package = Package(
        kind="npm", identifier="x", version="1.0.0", arguments=(Argument(is_named=False, input=own),)
    )
    [launch] = launches(RegistryEntry(name="a/b", version="1", packages=(package,)))
    made = as_entry(launch, {("value", "v"): value} if value else {})
    return str(made["args"][2])


@settings(max_examples=300, deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_text_of_a_registry_becomes_a_reference(before: str, default: str, after: str) -> None:
    """Also where a text and the default of its variable meet: it resolves to itself, without any variable."""
    text = f"{before}{{v}}{after}"
    argument = entry_of(text, default, None)
    assert references(argument) == []
    assert resolve(argument, {}) == (text.replace("{v}", default) if default else text)


@settings(max_examples=300, deadline=None)
@given(HOSTILE, HOSTILE)
def test_only_what_the_person_wrote_is_a_reference(before: str, after: str) -> None:
    """A reference between two texts of a registry has the value of its variable, wherever it is."""
    text = f"{before}{{v}}{after}"
    argument = entry_of(text, "", value_of("${TOKEN}"))
    count = text.count("{v}")
    assert references(argument) == ["TOKEN"] * count
    assert resolve(argument, {"TOKEN": "!"}) == text.replace("{v}", "!")


@pytest.mark.parametrize("text", ["a$b", "${", "$${X}", "x${X}", "${X}y", "{X}", "$"])
def test_what_a_person_types_is_literal_unless_it_is_a_reference(text: str) -> None:
    assert resolve(entry_of("{v}", "", value_of(text)), {"X": "no"}) == text


NAMES = {"weather": "Forecasts of rain and sun.", "tickets": "Opens and closes tickets.", "db": "Runs SQL."}
ENTRIES = [
    RegistryEntry(name=f"io.acme/{name}", version="1", description=text) for name, text in NAMES.items()
]


@pytest.mark.parametrize(
    ("words", "first"),
    [("rain", "weather"), ("close a ticket", "tickets"), ("DB", "db"), ("io.acme/tickets", "tickets")],
)
def test_the_best_entry_comes_first(words: str, first: str) -> None:
    assert rank(ENTRIES, words)[0].name == f"io.acme/{first}"


def test_without_words_all_are_listed_and_what_fits_nothing_finds_nothing() -> None:
    assert rank(ENTRIES, "") == ENTRIES
    assert rank(ENTRIES, "zzzyx") == []
    assert rank([], "rain") == []


def test_one_bad_entry_hides_no_other() -> None:
    """Whatever has another form is left out, also within an entry; of versions the latest counts."""
    good = {"server": {"name": "a/b", "version": "2", "packages": [None, {"registryType": 3}, "x"]}}
    odd: list[Any] = [
        None,
        3,
        "x",
        [],
        {},
        {"server": None},
        {"name": ["a/b"]},
        {"name": "\u202ea/b"},
        {"name": "b"},
    ]
    older = {"server": {"name": "a/b", "version": "1"}, "_meta": {"x": [10**400]}}
    found = latest(read_entries([*odd, older, good]))

    assert [(one.name, one.version) for one in found] == [("a/b", "2")]
    assert [one.kind for one in found[0].packages] == ["3"]


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        *[
            ("npm", text)
            for text in ("next", "latest", "1", "1.2", "1-2", "1.x", "1.2.3 - 2", "^1.2.3", "01.2.3")
        ],
        *[("npm", text) for text in ("v1.2.3", "1.2.3\n", "x1.2.3", "1.2.3-", "1.2.*", "\u0661.2.3")],
        *[("pypi", text) for text in ("latest", "1.*", "1.x", ">=1", "1,2", "==1.0", "~=1", "1.0\n", "main")],
    ],
)
def test_a_tag_or_a_range_is_no_version(kind: str, version: str) -> None:
    [launch] = launches(
        RegistryEntry(
            name="a/b", version="1", packages=(Package(kind=kind, identifier="x", version=version),)
        )
    )
    assert launch.fault == "names no single version, so another package could run tomorrow"


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        *[("npm", text) for text in ("1.2.3", "0.0.1-beta.1", "1.2.3-rc-1+build.5", "2026.11.27")],
        *[
            ("pypi", text)
            for text in ("1", "1.0", "2026.11.27", "1.0rc1", "1.0.post2", "1.0.dev3", "1!2.0+x.1")
        ],
    ],
)
def test_a_single_version_is_taken(kind: str, version: str) -> None:
    [launch] = launches(
        RegistryEntry(
            name="a/b", version="1", packages=(Package(kind=kind, identifier="x", version=version),)
        )
    )
    assert (launch.fault, launch.what) == ("", f"x@{version}")
