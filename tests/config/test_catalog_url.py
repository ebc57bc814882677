"""`catalog.url`: which addresses are accepted, and that no message shows a password."""

import sys
from pathlib import Path

import pytest
from tests.interaction.harness import cli, write_settings

from maitred.config.load import parse
from maitred.config.redaction import redact
from maitred.errors import ConfigError
from maitred.wiring.storage import database_of

SECRET = "orange-kettle"
SCHEME = "must start with postgresql:// (an SQLite file belongs in `path`)"
ENCODE = "has a character that must be percent-encoded"


def fault_of(text: str) -> str:
    """The only fault of a configuration, whether it is found in the file or when the database is chosen."""
    with pytest.raises(ConfigError) as caught:
        database_of(parse(Path("maitred.yaml"), text))
    (fault,) = caught.value.faults
    return fault


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://db/maitred", SCHEME),
        ("postgresql+psycopg://db/maitred", SCHEME),
        ("/var/lib/maitred.db", SCHEME),
        ("mysql://${USER_NAME}@db/maitred", SCHEME),
        ("${WRONG}", SCHEME),
        (f"postgresql://ann:{SECRET}/1@db/maitred", ENCODE),
        (f"postgresql://ann:{SECRET}?1@db/maitred", ENCODE),
        (f"postgresql://ann:{SECRET}#1@db/maitred", ENCODE),
        (f"postgresql://ann:{SECRET}@1@db/maitred", ENCODE),
        (f"postgresql://ann:{SECRET}%1@db/maitred", ENCODE),
        ("postgresql://ann:${ODD}@db/maitred", ENCODE),
        (f"postgresql://ann:{SECRET}/maitred", "has a port that is not a number"),
        ("postgresql://ann:${NOWHERE}@db/maitred", "${NOWHERE} is not set; export NOWHERE"),
    ],
)
def test_an_address_with_a_fault_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str, expected: str
) -> None:
    """The fault names the setting. A value by reference is checked as one in the file is."""
    monkeypatch.setenv("WRONG", f"redis://:{SECRET}@db/0")
    monkeypatch.setenv("ODD", f"{SECRET}/1")
    fault = fault_of(f"catalog: {{url: '{url}'}}")

    assert f"catalog.url: {expected}" in fault
    assert SECRET not in fault


def test_a_catalog_is_in_one_place() -> None:
    """Either of the two could be the one that the operator means."""
    fault = fault_of("catalog: {path: c.db, url: 'postgresql://db/maitred'}")
    assert fault == "line 1: catalog.url: is not allowed beside `path`; keep one of the two"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann@db.example:5433/maitred?sslmode=verify-full",
        "postgres://db/maitred",
        "postgresql:///maitred?host=/run/postgresql",
        "postgresql://[::1]:5432/maitred",
        "postgresql://one:5432,two:5433/maitred?target_session_attrs=read-write",
        "postgresql://ann:%2F%40%23@db/maitred",
    ],
)
def test_an_address_that_the_driver_knows_is_accepted(url: str) -> None:
    """Nothing is opened for that."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")
    database = database_of(parse(Path("maitred.yaml"), f"catalog: {{url: '{url}'}}"))
    assert database.name.startswith(url[:10])


def test_a_password_by_reference_is_masked_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """In texts of servers and of the driver; the name of the database has none."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")
    monkeypatch.setenv("DATABASE", f"postgresql://ann:{SECRET}@db/maitred")
    database = database_of(parse(Path("maitred.yaml"), "catalog: {url: '${env:DATABASE}'}"))

    assert database.name == "postgresql://ann@db/maitred"
    assert redact(f"it is {SECRET}") == "it is ***"


def test_a_missing_driver_is_a_fault_that_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package index has maitred: the command installs the packages of the extra themselves."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "maitred.storage.postgres", raising=False)
    fault = fault_of(f"catalog: {{url: 'postgresql://ann:{SECRET}@missing/maitred'}}")

    assert fault.startswith("catalog.url: PostgreSQL needs packages that are missing")
    assert "'psycopg[binary]" in fault
    assert SECRET not in fault


def test_commands_say_that_the_server_of_the_database_does_not_answer(tmp_path: Path) -> None:
    """They name the setting to correct, and not the password."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra `postgres`")
    config = write_settings(
        tmp_path, {}, catalog={"url": "postgresql://ann:${DB_PASSWORD}@127.0.0.1:1/maitred"}
    )
    for command in ("list", "doctor"):
        done = cli(config, command, env={"DB_PASSWORD": SECRET})
        assert done.returncode == 2
        assert "catalog postgresql://ann@127.0.0.1:1/maitred" in done.stderr
        assert "its server does not answer" in done.stderr
        assert "correct `catalog.url`" in done.stderr
        assert SECRET not in done.stdout + done.stderr
