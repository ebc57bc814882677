"""The section `profiles`: what a profile may say, and what is refused with its line."""

import re
from pathlib import Path

import pytest

from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.model.profiles import Profile

SERVERS = "servers: {files: {command: files-mcp}, mail: {command: mail-mcp}}\n"


def profiles_of(text: str) -> dict[str, Profile]:
    return dict(parse(Path("maitred.yaml"), f"{SERVERS}profiles:\n{text}").profiles)


def test_a_profile_has_all_its_limits() -> None:
    """Tags are read in any form that a search takes. Source: docs/profiles.md."""
    made = profiles_of(
        "  review:\n"
        "    servers: [files, registered-later]\n"
        "    categories: [files_text, databases]\n"
        "    tools: [files/read_*, files__grep]\n"
        "    tags: [python, 'function:search']\n"
        "    exclude: ['*/delete_*']\n"
        "    read_only: true\n"
        "    mode: all\n"
        "  all-of-it: {}\n"
    )

    assert made["review"] == Profile(
        servers=("files", "registered-later"),
        categories=("files_text", "databases"),
        tools=("files/read_*", "files__grep"),
        tags=("language:python", "function:search"),
        exclude=("*/delete_*",),
        read_only=True,
        mode="all",
    )
    assert made["all-of-it"] == Profile()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "  a: {sevrers: [files]}\n",
            "line 3: profiles.a.sevrers: is not a known key; did you mean `servers`?",
        ),
        ("  a: {servers: files}\n", "profiles.a.servers: must be a list"),
        ("  a: {servers: []}\n", "profiles.a.servers"),
        ("  a: {mode: lazy}\n", "profiles.a.mode: must be 'auto', 'menu', 'all' or 'categories'"),
        (
            "  a: {categories: [dta]}\n",
            "profiles.a.categories[0]: 'dta' is no category; did you mean 'data'?",
        ),
        ("  a: {tags: [pyton]}\n", "profiles.a.tags: tag 'pyton' is not in the vocabulary"),
        (
            "  a: {tools: [read_file]}\n",
            "profiles.a.tools[0]: 'read_file' must be SERVER/TOOL or SERVER__TOOL",
        ),
        ("  a: {exclude: [delete]}\n", "profiles.a.exclude[0]: 'delete' must be SERVER/TOOL"),
        ("  a b&c: {}\n", "profiles.a b&c: a name has letters, digits"),
        ("  - a\n", "profiles: must be a mapping of names to profiles"),
    ],
)
def test_what_a_profile_cannot_be_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        profiles_of(text)

    assert fault in str(refused.value)


def test_the_example_on_the_page_is_a_valid_configuration() -> None:
    page = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)

    assert list(parse(Path("maitred.yaml"), example).profiles) == ["review", "mail", "python"]
