"""The values in phrases: each counts as the words for its kind, and what is no value stays as it is."""

import pytest

from maitred.search.values import read_values


@pytest.mark.parametrize(
    ("phrase", "read"),
    [
        ("convert /root/x.pptx to pdf", "convert powerpoint presentation to pdf"),
        ("open C:\\Users\\ann\\notes.docx", "open word document"),
        ("what is in /var/log and ./build", "what is in folder and folder"),
        ("read data.2024.csv, please", "read csv table , please"),
        ("fetch https://example.com/a?b=c.", "fetch url ."),
        ("fetch github.com/ann/notes", "fetch url"),
        ("write to ann.lee+x@example.org", "write to email"),
        ("who owns api.shop.example.com", "who owns host"),
        ("ping 10.0.0.1:80", "ping ip"),
        ("what happens on 2024-05-01T10:00:00Z", "what happens on date"),
        ("show commit 3f2a9c4b1d7e", "show commit id"),
        ("cancel 123e4567-e89b-12d3-a456-426614174000", "cancel id"),
        (f"decode {'QUJD' * 20}", "decode"),
        (f"decode {'QUJD' * 8}.{'QUJD' * 8}.{'QUJD' * 8}", "decode"),
        ("edit src/app/main.py", "edit python code"),
        ("read notes/todo.md", "read markdown document"),
        ("run /opt/thing.xyz", "run file"),
        ("list /usr/lib/python3.11", "list folder"),
        ("open C:/Users/ann/x.xlsx", "open excel spreadsheet"),
        (r"open \\host\share\x.doc", "open word document"),
        ("sign with server.key", "sign with private key"),
        ("meetings on 2024/05/01", "meetings on date"),
        (f"read {'deeply/' * 10}main.py.", "read python code"),
    ],
)
def test_a_value_counts_as_its_kind(phrase: str, read: str) -> None:
    assert " ".join(read_values(phrase).split()) == read


@pytest.mark.parametrize(
    "phrase",
    [
        "node.js versions",
        "socket.io rooms",
        "read/write files",
        "TCP/IP",
        "owner/next.js issues",
        "tools/v1.2.3",
        "his/her.",
        "e.g. this",
        "v1.2.3",
        "24/7",
        "a.b",
        "12.5 percent",
        "time__get_current_time",
        "search_tools",
        "U.S. weather",
        "QUJD" * 20,
        "add 1 and 2",
    ],
)
def test_what_is_no_value_stays(phrase: str) -> None:
    """Also a phrase that is nothing but data, which would be empty."""
    assert read_values(phrase) == phrase


@pytest.mark.parametrize("characters", [40, 59, 2_000])
@pytest.mark.parametrize("piece", ["a-", "a.", "-", ".-", "/", "a@", "a+", "+a.", "0", "a_", "a:/", "://"])
def test_odd_phrases_are_read_as_quickly_as_others(piece: str, characters: int) -> None:
    """A caller with one short phrase could stop the gateway otherwise: all callers wait for its reading."""
    odd = piece * (characters // len(piece))
    for end in ("", " 1", "!1", "/", "."):
        read_values(odd + end)


def test_the_longest_phrases_are_read_in_one_pass() -> None:
    """What a gateway takes is shorter by far."""
    for odd in ("a." * 20_000, "/" * 20_000, "a@" * 20_000, "-" * 20_000, "0" * 20_000, "a-" * 20_000):
        read_values(odd)
