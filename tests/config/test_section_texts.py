"""`maitred.config.section_texts`: the pieces are the file; a change of one leaves the others as they were."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.config.section_texts import check_section, split_sections, with_section
from maitred.errors import ConfigError

PATH = Path("maitred.yaml")
FILE = """\
# The servers of the team.
# Ask Ann.

# who tells the time
servers:
  time:
    command: uvx
    env:
      NOTE: "two lines
# this is text, and no comment"
  # the end of servers

# be patient
limits:   # seconds
  call_timeout_s: 90
categories:
  errands:
    description: |
      A text of
      # lines

# pinned
tools: {}
# the end
"""


def names(text: str, path: Path = PATH) -> list[str]:
    return [piece.name for piece in split_sections(path, text)]


def fault_of(new: str, name: str = "limits", fixed: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        check_section(PATH, FILE, with_section(PATH, FILE, name, new), name, fixed)
    return "\n".join(caught.value.faults)


def test_a_section_has_the_comments_right_above_it_and_those_within_it() -> None:
    pieces = {piece.name: piece for piece in split_sections(PATH, FILE)}
    assert list(pieces) == ["", "servers", "limits", "categories", "tools"]
    assert pieces[""].text == "# The servers of the team.\n# Ask Ann.\n\n"
    assert pieces["servers"].text.startswith("# who tells the time\nservers:\n")
    assert pieces["servers"].text.endswith('# this is text, and no comment"\n  # the end of servers\n\n')
    assert pieces["limits"].text == "# be patient\nlimits:   # seconds\n  call_timeout_s: 90\n"
    assert pieces["categories"].text.endswith("      # lines\n\n")
    assert pieces["tools"].text == "# pinned\ntools: {}\n# the end\n"
    assert FILE.splitlines()[pieces["limits"].line - 1] == "# be patient"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "text",
    ["", "# a\n", FILE, FILE.rstrip("\n"), "---\n# a\nlimits: {}\n", "limits:\ntools:\n", "{limits: {}}"],
)
def test_the_pieces_together_are_the_file(text: str, newline: str) -> None:
    text = text.replace("\n", newline)
    assert "".join(piece.text for piece in split_sections(PATH, text)) == text


@given(
    between=st.lists(st.sampled_from(["# c\n", "\n", "  # d\n", "\r\n", "  - # e\n"]), max_size=8),
    last=st.sampled_from(["", "{}", "|\n  # text", "\n  a: 'b\n\n  # c'"]),
)
def test_whatever_is_between_two_sections_belongs_to_one_of_them(between: list[str], last: str) -> None:
    text = f"limits:\n  call_timeout_s: 1\n{''.join(between)}tools: {last}\n# z\n"
    try:
        pieces = split_sections(PATH, text)
    except ConfigError:  # `-` where no list is
        return
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.name for piece in pieces] == ["limits", "tools"]


def test_a_file_of_json_is_one_piece() -> None:
    """Its sections have no lines of their own."""
    assert names('{"servers": {}, "limits": {}}', Path("maitred.json")) == [""]
    assert names("{servers: {}, limits: {}}") == [""]


def test_an_alias_of_itself_is_a_fault() -> None:
    with pytest.raises(ConfigError, match="too deeply"):
        split_sections(PATH, "limits: &a\n  - *a\ntools: {}\n")


def test_another_text_takes_the_place_of_one_section() -> None:
    new = with_section(PATH, FILE, "limits", "# faster\nlimits: {call_timeout_s: 5}  # s")
    assert new == FILE.replace(
        "# be patient\nlimits:   # seconds\n  call_timeout_s: 90\n",
        "# faster\nlimits: {call_timeout_s: 5}  # s\n",
    )
    assert check_section(PATH, FILE, new, "limits").limits.call_timeout_s == 5


def test_the_lines_end_as_those_of_the_file() -> None:
    text = "limits: {}\r\ntools: {}\r\n"
    assert with_section(PATH, text, "limits", "# a\nlimits:\n") == "# a\r\nlimits:\r\ntools: {}\r\n"


def test_a_section_that_is_not_there_is_added_and_an_empty_text_takes_one_out() -> None:
    assert with_section(PATH, "tools: {}", "limits", "limits: {}") == "tools: {}\nlimits: {}\n"
    assert with_section(PATH, "", "limits", "limits: {}") == "limits: {}\n"
    assert names(with_section(PATH, FILE, "limits", "")) == ["", "servers", "categories", "tools"]


@pytest.mark.parametrize(
    ("new", "fault"),
    [
        ("limits: {call_timeout_s: 0}\n", "line 13: limits.call_timeout_s: must be more than 0"),
        ("limits: {}\nservers: {x: {command: rm}}\n", "line 14: "),
        ("limits: {}\nhttp: {anonymous: admin}\n", "line 14: http: is not a part of `limits`, and must stay"),
        ("limits: {}\n<<: {http: {anonymous: admin}}\n", "http: is not a part of `limits`, and must stay"),
        ("limits: {}\n--- \nservers: {}\n", "line 14: expected a single document"),
        ("limits: {}\n...\n", "expected a single document"),
        ("limits: 'open\n", "quoted scalar"),
        ("limits: {}\ninputs: []\n", "inputs: is not a part of `limits`"),
        ("limits: {}\nmcpServers: {}\n", "servers: is not allowed beside `mcpServers`"),
        ("http: {}\n", "http: is not a part of `limits`"),
        ("limits: {max_tools: 5}\n", "line 13: limits.max_tools: must stay as it is"),
    ],
)
def test_a_change_of_more_than_its_section_is_refused(new: str, fault: str) -> None:
    """However the text of the section is made."""
    assert fault in fault_of(new, fixed=("max_tools",))


def test_an_anchor_cannot_carry_a_change_into_another_section() -> None:
    text = "limits: &a {call_timeout_s: 5}\nsupervision: {window_s: 5}\nservers: {x: {command: y, env: *a}}\n"
    new = with_section(PATH, text, "limits", "limits: &a {call_timeout_s: 6}\n")
    with pytest.raises(ConfigError, match="servers: is not a part of `limits`"):
        check_section(PATH, text, new, "limits")
