"""The sections of a Markdown text: by headings, but not those in code."""

from maitred.calls.sections import Section, matches_heading, to_sections

TEXT = """before
# One
a
```sh
# a comment
```
## Two
"""


def test_a_heading_begins_a_section_unless_it_is_in_code() -> None:
    assert to_sections(TEXT) == [
        Section(heading="", lines=["before"]),
        Section(heading="# One", lines=["a", "```sh", "# a comment", "```"]),
        Section(heading="## Two", lines=[]),
    ]
    assert to_sections("no heading") == [Section(heading="", lines=["no heading"])]


def test_a_pattern_matches_a_heading_whatever_its_level_and_case() -> None:
    assert matches_heading("### Page state", ["### page state"])
    assert matches_heading("## Page state", ["page*"])
    assert not matches_heading("### Page", ["page state"])
    assert not matches_heading("", ["*"])
