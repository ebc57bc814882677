"""Logins at rest: the key, versions, claims, and what is told when something is missing."""

import base64
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from cryptography.fernet import Fernet
from tests.catalog.databases import key_beside

from maitred.backends.oauth.grants import KeptGrant
from maitred.backends.oauth.vault import Vault
from maitred.errors import StoreError, VaultError
from maitred.storage.sqlite import SqliteDatabase
from maitred.storage.tables import logins

pytestmark = pytest.mark.anyio

BODY = b"a secret that nobody reads"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A catalog with nothing but the table of logins."""
    columns = ", ".join(f"{column.name} {column.type}" for column in logins.columns)
    with sqlite3.connect(tmp_path / "c.db") as connection:
        connection.execute(f"CREATE TABLE logins ({columns}, PRIMARY KEY (server, principal))")
    connection.close()
    return tmp_path / "c.db"


def is_text_in(path: Path) -> bool:
    return BODY in path.read_bytes()


def files(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


async def kept(vault: Vault) -> KeptGrant:
    found = await vault.load("a")
    assert found is not None
    return found


async def test_what_is_kept_comes_back_and_is_no_text_in_the_file(path: Path) -> None:
    """Another process reads it with the same key. Source: issue "Admission"."""
    await Vault(SqliteDatabase(path), key_beside(path)).save("a", BODY)

    assert (await kept(Vault(SqliteDatabase(path), key_beside(path)))).body == BODY
    assert await Vault(SqliteDatabase(path), key_beside(path)).load("b") is None
    assert not is_text_in(path)


async def test_the_key_is_made_at_first_use_and_is_its_owners_alone(path: Path) -> None:
    """Reading makes none. Source: issue "Admission"."""
    vault = Vault(SqliteDatabase(path), key_beside(path))
    assert await vault.load("a") is None
    assert not vault.key_path.exists()
    await vault.save("a", BODY)

    assert stat.S_IMODE(vault.key_path.stat().st_mode) == 0o600
    assert files(path.parent) == ["c.db", "c.db.key"]


async def test_processes_that_make_a_key_at_the_same_time_agree_on_one(path: Path) -> None:
    """None of them encrypts with a key that nobody has. Source: maitred."""
    names = [f"server-{number}" for number in range(8)]
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(Vault(SqliteDatabase(path), key_beside(path)).save, name, BODY)

    for name in names:
        found = await Vault(SqliteDatabase(path), key_beside(path)).load(name)
        assert found is not None
        assert found.body == BODY


async def test_a_key_of_the_environment_makes_no_file(path: Path) -> None:
    """What `openssl rand -base64 32` prints is one. Source: docs/oauth.md."""
    vault = Vault(SqliteDatabase(path), key_beside(path), key=base64.b64encode(b"\xfb\xff" * 16).decode())
    await vault.save("a", BODY)

    assert (await kept(vault)).body == BODY
    assert not vault.key_path.exists()


def another_key(vault: Vault) -> None:
    vault.key_path.write_bytes(Fernet.generate_key())


def no_key(vault: Vault) -> None:
    vault.key_path.unlink()


def nonsense(vault: Vault) -> None:
    vault.key_path.write_bytes(b"\xff not a key")


def short(vault: Vault) -> None:
    vault.key_path.write_text("c2hvcnQ=", encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            another_key,
            "the login to 'a' was not encrypted with the key in {}; put the right one there, or run",
        ),
        (no_key, "the key {} is gone; put it back, or log in again"),
        (nonsense, "the key {} cannot be read: it is no text"),
        (short, "{} holds no key: 32 bytes in base64"),
    ],
)
async def test_a_wrong_key_is_told_with_what_to_do(
    path: Path, change: Callable[[Vault], None], told: str
) -> None:
    """It can be forgotten without a key. Source: issue "Admission"."""
    vault = Vault(SqliteDatabase(path), key_beside(path))
    await vault.save("a", BODY)
    change(vault)

    with pytest.raises(VaultError) as caught:
        await vault.load("a")
    assert told.format(vault.key_path) in str(caught.value)
    assert await vault.forget("a") is True
    assert await vault.load("a") is None


async def test_a_wrong_key_of_the_environment_is_named(path: Path) -> None:
    """Source: maitred."""
    await Vault(SqliteDatabase(path), key_beside(path)).save("a", BODY)

    with pytest.raises(VaultError, match="the key in MAITRED_KEY"):
        await Vault(SqliteDatabase(path), key_beside(path), key=Fernet.generate_key().decode()).load("a")
    with pytest.raises(VaultError, match="MAITRED_KEY holds no key"):
        await Vault(SqliteDatabase(path), key_beside(path), key="hunter2").load("a")


async def test_a_body_that_was_read_before_a_change_does_not_take_its_place(path: Path) -> None:
    """A login in the meantime wins over a renewal of the one before. Source: issue "Admission"."""
    vault = Vault(SqliteDatabase(path), key_beside(path))
    await vault.save("a", BODY)
    before = await kept(vault)
    await vault.save("a", b"newer")

    assert await vault.save("a", b"late", after=before.version) is False
    assert await vault.forget("a", after=before.version) is False
    assert await vault.claim("a", before.version, for_s=60) is False
    now = await kept(vault)
    assert now.body == b"newer"
    assert await vault.save("a", b"newest", after=now.version) is True


async def test_a_login_after_a_logout_is_no_version_of_the_one_before(path: Path) -> None:
    """Source: maitred."""
    vault = Vault(SqliteDatabase(path), key_beside(path))
    await vault.save("a", BODY)
    before = await kept(vault)
    await vault.forget("a")
    await vault.save("a", BODY)

    assert await vault.save("a", b"late", after=before.version) is False


async def test_a_claim_is_one_processs_until_it_ends(path: Path) -> None:
    """A process that dies holds it no longer than it asked for. Source: issue "Admission"."""
    first, second = (
        Vault(SqliteDatabase(path), key_beside(path)),
        Vault(SqliteDatabase(path), key_beside(path)),
    )
    await first.save("a", BODY)
    version = (await kept(first)).version

    assert await first.claim("a", version, for_s=60) is True
    assert await second.claim("a", version, for_s=60) is False
    await first.release("a", version)
    assert await second.claim("a", version, for_s=0) is True
    assert await first.claim("a", version, for_s=60) is True


async def test_a_catalog_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    """And is not made. Source: maitred."""
    with pytest.raises(StoreError, match="cannot be used"):
        await Vault(SqliteDatabase(tmp_path / "gone.db"), key_beside(tmp_path / "gone.db")).load("a")
    assert not (tmp_path / "gone.db").exists()
