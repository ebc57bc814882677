"""Masking: what looks like a secret is not written down, and what does not is."""

import time
from typing import Any

import pytest

from maitred.catalog.masking import MASK, MAX_TEXT, masked

SECRETS: list[Any] = [
    {"password": "x"}, {"apiKey": "x"}, {"API_KEY": "x"}, {"api-key": "x"}, {"client_secret": ["a"]},
    {"accessToken": "x"}, {"Authorization": "x"}, {"db": {"passwd": 7}}, {"cookie": "a=b"}, {"pin": 1234},
    {"connectionString": "x"}, {"PGPASSWORD": "x"}, {"github token": "x"},
]  # fmt: skip
HARMLESS: list[Any] = [
    {"token_count": 3}, {"max_tokens": 5}, {"spinner": "on"}, {"passenger": "Bo"},
    {"use_token": True}, {"password": ""}, {"password": None}, {"url": "https://example.org/a:b@c"},
    {"text": "the token is in the mail"}, [1, 2.5, None, "sk-1"], "path/to/secret.txt",
]  # fmt: skip
SHAPES = [
    "ghp_" + "a" * 36, "github_pat_" + "b" * 40, "xoxb-1234567890-abc", "AKIA" + "Q" * 16, "sk-" + "a1" * 15,
    "AIza" + "c" * 35, "glpat-" + "d" * 20, "maitred_0123456789_" + "e" * 43,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0xx.c2ln",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
]  # fmt: skip


@pytest.mark.parametrize("value", SECRETS, ids=str)
def test_what_goes_by_the_name_of_a_secret_is_masked(value: Any) -> None:
    """However the name is written, and whatever stands there."""
    assert MASK in str(masked(value))


@pytest.mark.parametrize("value", HARMLESS, ids=str)
def test_what_only_sounds_like_a_secret_is_kept(value: Any) -> None:
    """Counts, flags, empty values and prose."""
    assert masked(value) == value


@pytest.mark.parametrize("secret", SHAPES)
def test_what_has_the_shape_of_a_secret_is_masked_wherever_it_stands(secret: str) -> None:
    """In a text, in a list, as a key."""
    found = masked({"note": f"use {secret} now", "list": [secret], secret: 1})

    assert secret not in str(found)
    assert found["note"].startswith("use ***")


def test_a_password_in_an_address_is_masked() -> None:
    """The address stays recognisable."""
    assert masked("postgres://ann:hunter2@db/x") == "postgres://***@db/x"
    assert masked("Authorization: Bearer abcdefgh12345678") == "Authorization: Bearer ***"


def test_no_text_makes_masking_slow() -> None:
    """Megabytes made to be searched again and again."""
    started = time.perf_counter()
    for text in ("-eyJaaaaaaaa" * 100_000, "-----BEGIN " * 100_000, "://a:" * 200_000, "sk-" * 300_000):
        assert len(masked(text)) <= MAX_TEXT + 1
    deep: Any = "x"
    for _ in range(10_000):
        deep = [deep]
    assert MASK in str(masked(deep))
    assert time.perf_counter() - started < 5
