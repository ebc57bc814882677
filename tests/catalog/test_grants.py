"""Tokens: made once, kept as hashes, listed, expiring, and revoked for everybody."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.catalog.databases import execute, new_catalog

from maitred.access import token_store as module
from maitred.access.token_store import RESERVED, Grants
from maitred.errors import StoreError
from maitred.model.access import EVERYTHING, Grant, RefusedAccess, Role, Scope
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

PART = Scope(servers=frozenset({"github", "files"}), categories=frozenset(), read_only=True)


class Clocks:
    """Both clocks: the time of day, and the seconds that passed."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def day(self) -> datetime:
        return datetime(2026, 3, 30, 12, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_catalog(tmp_path)


def opened(path: Path, clocks: Clocks) -> Grants:
    return Grants(SqliteDatabase(path), clock=clocks.day, monotonic=clocks.monotonic, fresh_s=5)


async def reason(grants: Grants, token: str) -> str:
    answer = await grants.grant_of(token)
    assert isinstance(answer, RefusedAccess)
    assert not answer.unavailable
    return answer.reason


async def test_a_token_gives_what_it_was_made_for(path: Path, clocks: Clocks) -> None:
    """In this process and in the next, with its role and its scope."""
    made = await opened(path, clocks).make("ci", "agent", scope=PART, by="ann")
    grant = await opened(path, clocks).grant_of(made.token)

    assert grant == made.record.grant
    assert isinstance(grant, Grant)
    assert (grant.principal, grant.role, grant.scope) == ("ci", "agent", PART)
    whole = await opened(path, clocks).make("me", "admin")
    assert whole.record.grant.scope == EVERYTHING
    assert await opened(path, clocks).grant_of(whole.token) == whole.record.grant


async def test_a_token_can_be_recognised_and_is_kept_as_a_hash_only(path: Path, clocks: Clocks) -> None:
    """Neither the file nor the list gives it away."""
    grants = opened(path, clocks)
    made = await grants.make("ci", "viewer")
    secret = made.token[19:]

    assert made.token.startswith(f"maitred_{made.record.id}_")
    assert len(made.token) == 8 + 11 + 43
    for file in path.parent.iterdir():
        assert secret.encode() not in file.read_bytes()
    assert secret not in repr(await grants.listed())


async def test_what_is_no_token_is_not_known(path: Path, clocks: Clocks) -> None:
    """Another secret, another id, other forms, and whatever else is sent."""
    grants = opened(path, clocks)
    made = await grants.make("ci", "viewer")
    start, secret = made.token[:19], made.token[19:]
    wrong = [
        "", "x", start, start + "x" * 43, f"maitred_0000000000_{secret}", made.token + "x", made.token[:-1],
        made.token.upper(), "maitred_" + "é" * 50, made.token + "\n", " " + made.token, "y" * 1_000_000,
        f"maitred_' OR 1=1_{secret}",
    ]  # fmt: skip

    for token in wrong:
        assert "is not known" in await reason(grants, token)


async def test_a_revoked_token_is_refused_at_once_here_and_soon_elsewhere(path: Path, clocks: Clocks) -> None:
    """Another process may go on for as long as it is told to remember."""
    here, elsewhere = opened(path, clocks), opened(path, clocks)
    made = await here.make("ci", "agent")
    assert await elsewhere.grant_of(made.token) == made.record.grant

    assert await here.revoke(made.record.id, by="ann")
    assert (
        await reason(here, made.token)
        == f"the token {made.record.id} was revoked on 2026-03-30T12:00:00+00:00"
    )
    assert await elsewhere.grant_of(made.token) == made.record.grant
    clocks.seconds += 5
    assert "was revoked" in await reason(elsewhere, made.token)
    assert not await here.revoke(made.record.id)
    assert not await here.revoke("unknown")


async def test_a_token_ends_when_its_time_is_over(path: Path, clocks: Clocks) -> None:
    """Also while it is remembered."""
    grants = opened(path, clocks)
    made = await grants.make("ci", "agent", lifetime=timedelta(seconds=3))
    clocks.seconds += 2.5
    assert await grants.grant_of(made.token) == made.record.grant
    clocks.seconds += 1

    assert (
        await reason(grants, made.token) == f"the token {made.record.id} expired on 2026-03-30T12:00:03+00:00"
    )


async def test_known_tokens_are_answered_from_memory(path: Path, clocks: Clocks) -> None:
    """For a moment, without the file; after it nobody is let in without it."""
    grants = opened(path, clocks)
    made = await grants.make("ci", "agent")
    await grants.grant_of(made.token)
    shutil.move(path, path.with_suffix(".away"))

    assert await grants.grant_of(made.token) == made.record.grant
    clocks.seconds += 5
    with pytest.raises(StoreError):
        await grants.grant_of(made.token)


async def test_memory_holds_so_many_tokens(
    path: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are looked up again; all work."""
    monkeypatch.setattr(module, "_MAX_KNOWN", 2)
    grants = opened(path, clocks)
    made = [await grants.make(f"p{n}", "agent") for n in range(5)]

    for _ in range(2):
        for each in made:
            assert await grants.grant_of(each.token) == each.record.grant
    assert len(grants._cache) == 2


async def test_the_list_says_who_made_and_revoked_what(path: Path, clocks: Clocks) -> None:
    """The newest first."""
    grants = opened(path, clocks)
    old = await grants.make("a", "viewer", by="ann")
    clocks.seconds += 60
    new = await grants.make("b", "admin", lifetime=timedelta(days=1))
    await grants.revoke(old.record.id, by="bob")
    first, second = await grants.listed()

    assert first == new.record
    assert (second.id, second.made_by, second.revoked_by) == (old.record.id, "ann", "bob")
    assert first.expires_at == "2026-03-31T12:01:00+00:00"


@pytest.mark.parametrize("principal", ["", *RESERVED, "oauth:x", "a b", "é", "-a", "a" * 101, "a\n"])
async def test_a_principal_needs_a_name_of_its_own(path: Path, clocks: Clocks, principal: str) -> None:
    """Not one of the local user or of maitred itself, nor one that an authorization server could give."""
    with pytest.raises(ValueError, match="cannot name a principal"):
        await opened(path, clocks).make(principal, "agent")


@pytest.mark.parametrize(("role", "seconds"), [("root", None), ("agent", 0), ("agent", -1)])
async def test_a_token_that_could_not_be_used_is_not_made(
    path: Path, clocks: Clocks, role: Role, seconds: int | None
) -> None:
    """An unknown role, or no time to live."""
    lifetime = None if seconds is None else timedelta(seconds=seconds)
    with pytest.raises(ValueError, match=r"is not a role|valid for some time"):
        await opened(path, clocks).make("ci", role, lifetime=lifetime)


async def test_a_role_that_this_version_does_not_know_gives_nothing(path: Path, clocks: Clocks) -> None:
    """A newer maitred may have written it."""
    grants = opened(path, clocks)
    made = await grants.make("ci", "agent")
    execute(path, "UPDATE tokens SET role = 'owner'")

    assert "a role that this version does not know" in await reason(grants, made.token)
