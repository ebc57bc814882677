"""Credentials are taken out of texts in whichever way they are written, and nothing else is."""

import base64
import json
import os
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cpu import cpu_within

from maitred.config.interpolate import resolve
from maitred.config.redaction import SHORTEST, Secrets, redact, without_queries

SECRET = 'k7/Qe+1 "zR&9=mW\\x8Lp4vT'
ODD = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="*"), min_size=12)


def is_learned(value: str) -> bool:
    """Whether a value is one that `Secrets` learns: no path of this machine, no blanks around it."""
    return value == value.strip() and not os.path.exists(value)  # noqa: PTH110  # raises nothing


def knowing(*values: str) -> Secrets:
    secrets = Secrets()
    for value in values:
        secrets.learn(value)
    return secrets


@given(secret=ODD.filter(is_learned), start=st.integers(0, 8))
def test_no_encoding_of_a_value_passes(secret: str, start: int) -> None:
    """Whatever stands before it in base64, and however a program quotes it."""
    secrets = knowing(secret)
    data = secret.encode()
    written = (
        secret,
        quote(secret, safe=""),
        quote(secret, safe="").lower() if secret.islower() else secret,
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        json.dumps(json.dumps(secret)),
        repr(secret),
        data.hex(),
        base64.b64encode(b"x" * start + data).decode(),
        base64.urlsafe_b64encode(b"x" * start + data).decode(),
    )
    for one in written:
        assert "***" in secrets.redact(f"a {one} b"), one
        assert secret not in secrets.redact(f"a {one} b")


@pytest.mark.alone
def test_a_text_of_many_halves_is_redacted_soon() -> None:
    """A server may answer with what it was given, and hold up nobody by it."""
    secrets = knowing("Zq7mT4xWp9Lk2Vd8Rb5N")
    with cpu_within(5):
        left = secrets.redact("Zq7mT4xWp9 " * 100_000 + "Lk2Vd8Rb5N " * 100_000)

    assert left == "*** " * 200_000


@given(secret=st.text("abcdefghijkmnopqrstuvwxyz0123456789", min_size=12, max_size=60), data=st.data())
def test_a_value_that_is_cut_leaves_no_piece_of_six_characters(secret: str, data: st.DataObject) -> None:
    """At the end of a text, at its beginning, before dots, and over two lines."""
    at = data.draw(st.integers(SHORTEST, len(secret)))
    secrets = knowing(secret)
    for text in (f"KEY {secret[:at]}", f"{secret[-at:]} KEY", f"KEY {secret[:at]}...", f"({secret[:at]}…)"):
        left = secrets.redact(text)
        assert not any(secret[i : i + SHORTEST] in left for i in range(len(secret) - SHORTEST + 1)), text
    left = secrets.redact(f"KEY {secret[:at]}\n{secret[at:]} KEY")
    assert secret[:at] not in left
    assert secret[at:] not in left or len(secret) - at < SHORTEST


def test_a_value_of_many_lines_drives_out_no_other() -> None:
    """A bundle of certificates, and a token of another server. Source: issue "What broke", 8."""
    lines = [f"line {n} of a long bundle" for n in range(3_000)]
    secrets = knowing(
        "Zq7mT4xWp9Lk2Vd8Rb5N", *(f"another-{n:04d}-value" for n in range(500)), "\n".join(lines)
    )

    assert secrets.redact("is Zq7mT4xWp9Lk2Vd8Rb5N right") == "is *** right"
    assert secrets.redact("another-0007-value") == "***"
    assert secrets.redact(lines[50]) == "***"


def test_the_settings_of_a_database_are_no_credentials() -> None:
    """Its address may be a variable as a whole; then ordinary words of it must stay in all answers."""
    known = knowing(
        "postgresql://ann:hunter-22-x@db/warehouse-of-things?sslmode=require&sslpassword=s3cr3t-pw-9"
    )

    assert known.redact("the argument is required") == "the argument is required"
    assert known.redact("warehouse-of-things is away") == "warehouse-of-things is away"
    assert known.redact("FATAL: hunter-22-x, s3cr3t-pw-9") == "FATAL: ***, ***"


def test_each_line_of_a_value_and_each_part_of_an_address_is_known() -> None:
    """A key in a file; an address with a password, a query, and a path that only its owner knows."""
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAo\n-----END KEY-----"
    secrets = knowing(
        key, "postgres://me:hunter-22@db/x", "https://hooks.example/T0123/abcdefghijklm?sig=s3cr3tsig"
    )

    for one in ("BAQEFAASCBKcwggSjAgEAAo", "hunter-22", "abcdefghijklm", "s3cr3tsig"):
        assert secrets.redact(f"before {one} after") == "before *** after"
    assert secrets.redact("hooks.example answered") == "hooks.example answered"


def test_options_variables_headers_and_queries_are_known_by_their_names() -> None:
    """Those that stand in the configuration as they are."""
    secrets = Secrets()
    secrets.learn_launch(
        ["--api-key", "first-one", "--token=second-one", "--name", "fourth-one", "--password", "--verbose"],
        {"DB_PASSWORD": "third-one", "REGION": "fifth-one"},
    )
    secrets.learn_address(
        "https://me:sixth-one@h/x?exaApiKey=seventh-one&q=eighth-one", {"Authorization": "Bearer ninth-one"}
    )

    told = secrets.redact(
        " ".join(f"{n}-one" for n in ("first", "second", "third", "sixth", "seventh", "ninth"))
    )
    assert told == "*** *** *** *** *** ***"
    for one in ("fourth-one", "fifth-one", "eighth-one", "--verbose"):
        assert secrets.redact(one) == one


@pytest.mark.parametrize("value", ["", "abc", "12345", "true", "localhost", "PRODUCTION", os.sep, "/usr/bin"])
def test_values_without_which_no_message_could_be_read_are_not_replaced(value: str) -> None:
    """Short ones, common words, and paths that are there."""
    assert (
        knowing(value).redact(f"{value}: cannot be opened at /usr/bin")
        == f"{value}: cannot be opened at /usr/bin"
    )


def test_a_path_that_is_not_there_is_no_path_but_a_value() -> None:
    """Keys in base64 may begin with a slash."""
    assert knowing("/wJalrXUtnFEMI/K7MDENG").redact("key /wJalrXUtnFEMI/K7MDENG") == "key ***"


def test_whatever_resolves_a_reference_makes_its_value_known() -> None:
    """From the environment and from files; not what tells whose machine this is."""
    resolve("${TOKEN_OF_TEST} ${HOME}", {"TOKEN_OF_TEST": "not-for-anybody", "HOME": "/home/nobody-here"})

    assert redact("not-for-anybody at /home/nobody-here") == "*** at /home/nobody-here"


def test_a_value_inside_json_is_replaced_and_the_rest_keeps_its_form() -> None:
    """Keys, too; numbers and truth stay what they are."""
    found = knowing(SECRET).redact_json({"a": [SECRET, 1, None, {SECRET: True}]})

    assert found == {"a": ["***", 1, None, {"***": True}]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("GET https://h.example/p?key=v&x=y done", "GET https://h.example/p?*** done"),
        ('"ws://me:pw@h.example:80/p#part"', '"ws://***@h.example:80/p#***"'),
        ("https://h.example/p and a? b#c", "https://h.example/p and a? b#c"),
        ("postgres://me@h/db", "postgres://***@h/db"),
    ],
)
def test_addresses_in_logs_lose_their_user_and_query(text: str, told: str) -> None:
    """The rest says where it went."""
    assert without_queries(text) == told


@pytest.mark.alone
def test_many_values_and_long_texts_take_no_time_to_speak_of() -> None:
    """The last 1,000 values are known; a server's last words are 200 lines at most."""
    secrets = knowing(*(f"{n:05d}-{'v' * 40}-{n:05d}" for n in range(300)))
    text = "\n".join(f"line {n}: nothing that anybody would want to hide stands here" for n in range(200))

    started = time.process_time()
    assert secrets.redact(text) == text
    assert secrets.redact("00250-" + "v" * 40 + "-00250") == "***"
    assert time.process_time() - started < 2
