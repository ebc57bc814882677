"""`maitred.config.interpolate`: what references in the configuration become when a server is started."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.config.interpolate import UnresolvedReferenceError, escape, resolve, resolver

ENVIRON = {"A": "1", "EMPTY": "", "NESTED": "${A} $$", "odd-name": "o", "ProgramFiles(x86)": "C:\\P"}


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("plain", "plain"),
        ("${A}", "1"),
        ("${env:A}", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("${EMPTY}", ""),
        ("${EMPTY:-default}", "default"),
        ("${A:-default}", "1"),
        ("${NO:-default}", "default"),
        ("${env:NO:-default}", "default"),
        ("${env:-default}", "default"),
        ("${NO:-}", ""),
        ("${NO:-a:-b}", "a:-b"),
        ("${NO:-${A}}", "1"),
        ("${A:-${NO}}", "1"),
        ("${NO:-${ALSO_NO:-x}}y", "xy"),
        ('${NO:-{"k": {}}}!', '{"k": {}}!'),
        ("${NO:-$$}", "$"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$${A}", "$1"),
        ("$A ^x$ $1", "$A ^x$ $1"),
        ("${NESTED}", "${A} $$"),
        ("${odd-name}", "o"),
        ("${ProgramFiles(x86)}", "C:\\P"),
        ("}{", "}{"),
    ],
)
def test_references_are_replaced_and_everything_else_is_kept(value: str, outcome: str) -> None:
    assert resolve(value, ENVIRON) == outcome


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("${NO}", "${NO} is not set; export NO or write ${NO:-default}"),
        ("${env:NO}", "${NO} is not set; export NO"),
        ("${NO:-${ALSO_NO}}", "${ALSO_NO} is not set"),
        ("${input:api-key}", "${input:api-key} is filled in by an editor, not by maitred"),
        ("${workspaceFolder}/x", "${workspaceFolder} is filled in by an editor, not by maitred"),
        ("${command:pick.one}", "commands are off, and variables of editors are not known"),
        ("${NO-default}", "${NO-default} is not a reference; use ${VAR}"),
        ("${}", "${} is not a reference"),
        ("a${A", "a `${` is not closed by `}`; write `$${`"),
        ("${NO:-{}", "a `${` is not closed by `}`"),
        ("${file:/nowhere/at/all}", "${file:/nowhere/at/all} cannot be read: No such file or directory"),
        ("${file:~nobody-has-this-name/x}", "cannot be read: it is no readable text file"),
        ("${file:a\0b}", "cannot be read: it is no readable text file"),
    ],
)
def test_what_cannot_be_resolved_says_why_and_how_to_mend_it(value: str, words: str) -> None:
    with pytest.raises(UnresolvedReferenceError) as caught:
        resolve(value, ENVIRON)
    assert words in str(caught.value)


def test_no_value_of_the_environment_stands_in_an_error() -> None:
    with pytest.raises(UnresolvedReferenceError) as caught:
        resolve("${TOKEN}${NO}", {"TOKEN": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_file_is_read_without_its_last_newline(tmp_path: Path) -> None:
    secret = tmp_path / "se:cret"
    secret.write_text("line\n\n${A}\n", encoding="utf-8")
    assert resolve(f"${{file:{secret}}}", ENVIRON) == "line\n\n${A}"
    assert resolve(f"${{file:{secret}:-default}}", ENVIRON) == "line\n\n${A}"
    assert resolve(f"${{file:{tmp_path / 'no'}:-${{A}}}}", ENVIRON) == "1"


def test_a_file_that_is_not_text_and_a_folder_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in (tmp_path, tmp_path / "binary"):
        with pytest.raises(UnresolvedReferenceError, match="cannot be read"):
            resolve(f"${{file:{path}}}", {})


@given(st.text(alphabet="$${}:-aA_ \n") | st.text())
def test_escaped_text_resolves_to_itself(text: str) -> None:
    assert resolve(escape(text), ENVIRON) == text


@given(st.text(), st.text())
def test_what_a_variable_holds_is_not_read_for_references_again(before: str, held: str) -> None:
    assert resolver({"V": held})(f"{escape(before)} ${{V}}") == f"{before} {held}"


@given(st.text(alphabet="$${}:-aA_/. \n"))
def test_any_text_resolves_or_is_refused(text: str) -> None:
    try:
        outcome = resolve(text, ENVIRON)
    except UnresolvedReferenceError:
        outcome = None
    assert outcome is None or "${" not in outcome or "$$" in text
