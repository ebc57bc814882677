"""Masking: what looks like a secret is not written down, and what does not is."""

from typing import Any

import pytest
from tests.support.cpu import cpu_within

from maitred.audit.masking import MAX_TEXT, mask_text, mask_value
from maitred.config.redaction import MASK

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


@pytest.mark.parametrize(
    "seed", ["eyJ-", "eyJa.", "sk-", "Bearer ", "://", "a:AA", "A_KEY=", "ghp_", "hvs.", "SG."]
)
def test_a_long_text_of_beginnings_is_searched_in_time(seed: str) -> None:
    """No text makes the search slow: it runs while no other thread can. Source: an attack on kept answers."""
    text = (seed * 50_000)[:50_000]
    with cpu_within(2.0):
        mask_text(text)


@pytest.mark.parametrize("ahead", range(0, 60, 3))
def test_a_secret_at_the_end_of_what_is_kept_is_not_kept_in_part(ahead: int) -> None:
    """More is masked than is kept."""
    text = (
        "x " * ((MAX_TEXT - ahead) // 2)
        + "ghp_"
        + "a1B2" * 9
        + " and https://me:p4ssw0rd-long@host/ more" * 60
    )
    kept = mask_value(text)
    assert len(kept) <= MAX_TEXT + 1
    assert "a1B" not in kept
    assert "p4ss" not in kept


@pytest.mark.parametrize("value", SECRETS, ids=str)
def test_what_goes_by_the_name_of_a_secret_is_masked(value: Any) -> None:
    """However the name is written, and whatever stands there."""
    assert MASK in str(mask_value(value))


@pytest.mark.parametrize("value", HARMLESS, ids=str)
def test_what_only_sounds_like_a_secret_is_kept(value: Any) -> None:
    """Counts, flags, empty values and prose."""
    assert mask_value(value) == value


@pytest.mark.parametrize("secret", SHAPES)
def test_what_has_the_shape_of_a_secret_is_masked_wherever_it_stands(secret: str) -> None:
    """In a text, in a list, as a key."""
    found = mask_value({"note": f"use {secret} now", "list": [secret], secret: 1})

    assert secret not in str(found)
    assert found["note"].startswith("use ***")


def test_a_password_in_an_address_is_masked() -> None:
    """The address stays recognisable."""
    assert mask_value("postgres://ann:hunter2@db/x") == "postgres://***@db/x"
    assert mask_value("Authorization: Bearer abcdefgh12345678") == "Authorization: Bearer ***"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("DB_PASSWORD=hunter2!", "DB_PASSWORD=***"),
        ("failed with DB_PASSWORD=hunter2! on line 3", "failed with DB_PASSWORD=*** on line 3"),
        ("env -i PGPASSWORD=hunter2! psql", "env -i PGPASSWORD=*** psql"),
        ("connect (API_TOKEN=abcd1234, USER=me)", "connect (API_TOKEN=***, USER=me)"),
        ("{'env': 'SECRET_KEY=abcd1234;DEBUG=1'}", "{'env': 'SECRET_KEY=***;DEBUG=1'}"),
        ('docker run -e GITHUB_TOKEN="two words" image', "docker run -e GITHUB_TOKEN=*** image"),
        ("MY_API_KEY='abcd1234'.", "MY_API_KEY=***."),
        ("A_PASSWORD=one-one B_PASSWORD=two-two", "A_PASSWORD=*** B_PASSWORD=***"),
        ("first line\nthen DB_PASSWD=hunter2!\nlast line", "first line\nthen DB_PASSWD=***\nlast line"),
    ],
)
def test_what_a_variable_is_set_to_is_masked_wherever_it_stands_in_a_line(text: str, told: str) -> None:
    """In logs and commands it is seldom at the beginning. What stands around it stays."""
    assert mask_text(text) == told


@pytest.mark.parametrize(
    "text",
    [
        "set DB_PASSWORD=$NAME first",
        "run it with API_TOKEN=<your token> set",
        "export DB_PASSWORD=${OTHER}, then go on",
        "API_KEY=$(cat key) maitred serve",
        "USE_TOKEN=true and REQUIRE_PASSWORD=false",
        "TOKEN=None, SECRET=null, PASSWORD=undefined",
        "MAX_TOKENS=4096 TOKENS=12",
        "if PASSWORD==given: PASSWORD = given",
        "DB_PASSWORD= is empty, DB_PASSWORD='' too",
        "DB_PASSWORD=*** was left out",
        "a PASSWORD=... goes here, or TOKEN=xxxxxxxx, or SECRET=<...>",
        "the variables DB_PASSWORD, API_TOKEN and SECRET_KEY have to be set",
        "API_KEY=os.getenv('API_KEY'), TOKEN=process.env.TOKEN, SECRET=config['secret']",
        "?next_token=eDF9abcd&password=lower",
    ],
)
def test_what_says_no_secret_is_kept(text: str) -> None:
    """References, placeholders, flags, comparisons, and names by themselves."""
    assert mask_text(text) == text


@pytest.mark.alone
def test_no_text_makes_masking_slow() -> None:
    """Megabytes made to be searched again and again."""
    deep: Any = "x"
    for _ in range(10_000):
        deep = [deep]
    pieces = {
        "-eyJaaaaaaaa": 100_000,
        "-----BEGIN ": 100_000,
        "://a:": 200_000,
        "sk-": 300_000,
        "A_PASSWORD=": 90_000,
    }
    with cpu_within(5):
        for piece, times in pieces.items():
            assert len(mask_value(piece * times)) <= MAX_TEXT + 1
        assert MASK in str(mask_value(deep))
