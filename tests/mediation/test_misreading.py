"""A text that misreads its tool says why it does not fit; one that reads it right has no fault."""

import pytest

from maitred.mediation import EnhancedTool, SourceTool, misreadings

TOOLS = [
    SourceTool(name="upl_fl", description="upl", input_schema={"properties": {"pth": {}, "fldr_id": {}}}),
    SourceTool(name="upd_prf", input_schema={"properties": {"usr_id": {}}}),
    SourceTool(
        name="del_fl", input_schema={"properties": {"fl_id": {}}}, annotations={"destructiveHint": True}
    ),
    SourceTool(
        name="lst_fl", input_schema={"properties": {"fldr_id": {}}}, annotations={"readOnlyHint": True}
    ),
    SourceTool(name="csv_to_json", input_schema={"properties": {"pth": {}}}),
    SourceTool(name="mv_fl", input_schema={"properties": {"src_fldr": {}, "dst_fldr": {}}}),
]


def why(name: str, description: str, new_name: str = "") -> str:
    """Why a text does not fit a tool; empty if it does."""
    after = [
        EnhancedTool(name=new_name or name, description=description) if tool.name == name else tool
        for tool in TOOLS
    ]
    return next(iter(misreadings(TOOLS, after).values()), "")


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("upl_fl", "Uploads a file to a folder."),
        ("upd_prf", "Changes the profile of a user."),
        ("del_fl", "Permanently removes the file with the given ID."),
        ("lst_fl", "Lists all files of a folder."),
        ("csv_to_json", "Turns a CSV file into JSON."),
        ("mv_fl", "Moves a file from a source folder to a destination folder."),
    ],
)
def test_a_right_text_fits_in_other_words_than_the_name_s(name: str, description: str) -> None:
    """Abbreviations, inflected forms and synonyms of the lexicon are read."""
    assert why(name, description) == ""


@pytest.mark.parametrize(
    ("name", "description", "reason"),
    [
        ("upl_fl", "Updates a profile.", "it does not say 'upload', which 'upl' in the name means"),
        ("upl_fl", "Uploads a file, and encrypts it.", "it says 'encrypts', which nothing of the tool says"),
        ("upl_fl", "Uploads a file by email.", "it says 'by email', which no parameter says"),
        (
            "upd_prf",
            "Shows a profile so that one can update it.",
            "it says 'shows', but the name says 'update'",
        ),
        (
            "del_fl",
            "Deletes a file without removing it.",
            "it says 'without', which nothing of the tool says",
        ),
        (
            "del_fl",
            "Deletes every file.",
            "it says 'every', but nothing of the tool says that it is about more than one",
        ),
        ("csv_to_json", "Converts JSON to CSV.", "it turns 'csv' and 'json' round"),
        (
            "mv_fl",
            "Moves a file from the destination folder.",
            "it says 'from destination', which turns the direction round",
        ),
    ],
)
def test_a_wrong_text_says_what_does_not_fit(name: str, description: str, reason: str) -> None:
    """In words for an operator who decides about it."""
    assert why(name, description) == reason


def test_a_new_name_may_only_say_what_the_tool_says() -> None:
    """Even if the description is right."""
    assert why("upl_fl", "Uploads a file.", "upload_invoice") == (
        "its name says 'invoice', which nothing of the tool says"
    )


def test_the_texts_of_the_server_itself_are_not_judged() -> None:
    """Whatever they say: nothing is new."""
    assert misreadings(TOOLS, TOOLS) == {}
