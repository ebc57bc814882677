"""What commands say in small: numbers with their nouns, names that may have been meant, the first steps."""

from pathlib import Path

import pytest
from tests.interaction.harness import cli, faulty, write_settings
from tests.interaction.requirements import requirement
from tests.interaction.test_cli import fine, refused

ONE_TOOL = faulty("slow-start", "0")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return write_settings(tmp_path, {"chrome": ONE_TOOL, "everything": {**ONE_TOOL, "enabled": False}})


@requirement("words:numbers")
def test_one_is_singular_everywhere(own: Path) -> None:
    """In the list, in `doctor`, in the pages that agents read."""
    listed = fine(cli(own, "list"))
    examined = fine(cli(own, "doctor"))
    page = fine(cli(own, "menu", "servers"))

    assert "2 servers, 1 tool," in listed
    assert "chrome: 1 tool," in examined
    assert "1 server started" in examined
    assert "server/chrome: 1 tool" in page
    assert "1 tools" not in listed + examined + page


@requirement("words:near")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("remove", "nope"), "`maitred list` shows them all"),
        (("remove", "everythin"), "did you mean 'everything'?"),
        (("remove", "CHROM"), "did you mean 'chrome'?"),
        (("doctor", "crome"), "did you mean 'chrome'?"),
        (("explain", "crome"), "Did you mean 'chrome'?"),
        (("search", "x", "--server", "crome"), "There is no server 'crome'. Did you mean 'chrome'?"),
        (
            ("menu", "server/everythin"),
            "There is no server 'everythin'. Did you mean 'everything'?",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_only_a_name_that_is_near_is_suggested(own: Path, command: tuple[str, ...], says: str) -> None:
    """Whatever asks for it, by the same measure."""
    said = refused(cli(own, *command))

    assert says in said
    assert ("chrome" in said) == ("chrome" in says)


@requirement("words:command")
@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("serch", "did you mean 'search'?"),
        ("lst", "did you mean 'list'?"),
        ("xyzzy", "`maitred --help` lists all"),
        ("helpme", "did you mean 'help'?"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(typed: str, says: str) -> None:
    """As for servers, tools and settings."""
    done = cli(None, typed)

    assert done.returncode == 2
    assert f"{typed!r}" in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@requirement("words:help")
def test_h_is_help_before_and_after_a_command() -> None:
    """As in every other program."""
    assert "search" in fine(cli(None, "-h"))
    assert "--limit" in fine(cli(None, "search", "-h"))
    assert "verify" in fine(cli(None, "audit", "-h"))


@requirement("words:empty")
@pytest.mark.parametrize("command", [("list",), ("search", "read a file"), ("menu",)], ids=lambda c: c[0])
def test_where_no_server_is_configured_the_way_to_one_is_shown(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Other words would not help."""
    said = fine(cli(write_settings(tmp_path, {}), *command))

    assert "`maitred import`" in said
    assert "`maitred add NAME -- COMMAND`" in said
    assert "other words" not in said
