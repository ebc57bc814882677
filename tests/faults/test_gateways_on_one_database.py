"""Three gateways on one PostgreSQL: what one of them is told, the others know at once."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.faults.disk_rig import SERVER
from tests.interaction.harness import serving
from tests.support.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")

ADMIN = "a-token-of-the-operator"
DEAD_WITHIN_S = 1.0
SOON_S = 60.0


class Replica:
    """A gateway in a process of its own, by its HTTP API."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def ask(self, method: str, path: str, *, token: str = ADMIN, **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return self._client.request(method, f"/api/v1/{path}", headers=headers, **options)

    def knows(self, token: str) -> bool:
        status = self.ask("GET", "tools/hot", token=token).status_code
        assert status in (200, 401)
        return status == 200

    def calls(self, name: str) -> bool:
        """Whether it calls a tool."""
        return self.ask("POST", f"tools/{name}/call", json={"arguments": {}}).status_code == 200


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Sequence[Replica]]:
    folder = tmp_path_factory.mktemp("replicas")
    config = folder / "maitred.yaml"
    document = {
        "catalog": {"url": postgres.new_database()},
        "http": {"token": ADMIN},
        "isolation": {"jail": "none"},
    }
    config.write_text(json.dumps(document), encoding="utf-8")
    env = {"XDG_STATE_HOME": str(folder / "state")}
    with ExitStack() as stack:
        gateways = [stack.enter_context(serving(config, env=env)) for _ in range(3)]
        clients = [httpx2.Client(base_url=one.url.removesuffix("/mcp"), timeout=SOON_S) for one in gateways]
        yield [Replica(stack.enter_context(one)) for one in clients]


def test_a_revoked_token_is_dead_on_all_gateways_within_a_second(replicas: Sequence[Replica]) -> None:
    """No request is taken that was sent more than a second after the revocation was answered."""
    one, *others = replicas
    made = one.ask("POST", "tokens", json={"name": "ann", "role": "agent"}).json()
    assert all(replica.knows(made["token"]) for replica in replicas)

    assert one.ask("DELETE", f"tokens/{made['id']}").status_code == 200
    revoked_at = time.monotonic()
    for replica in (one, *others):
        while (sent_at := time.monotonic()) and replica.knows(made["token"]):
            assert sent_at - revoked_at < DEAD_WITHIN_S


def test_what_one_gateway_approves_and_suspends_is_so_on_all(
    replicas: Sequence[Replica], tmp_path: Path
) -> None:
    """The gateway that is told discovers the server; the others serve its tools without starting it."""
    one, *others = replicas
    args = ["-I", "-S", str(SERVER), str(tmp_path / "diary.txt")]
    manifest = {"name": "diary", "command": sys.executable, "args": args}
    registered = one.ask("POST", "servers", json=manifest)
    assert registered.status_code == 202, registered.text
    case = one.ask("GET", "servers/diary/approval").json()
    said = {"verdict": "approve", "seen": case["digest"]}
    assert one.ask("POST", "servers/diary/approval", json=said).status_code == 200
    for replica in (one, *others):
        until(lambda replica=replica: replica.calls("diary/write"))

    assert one.ask("POST", "servers/diary/approval", json={"verdict": "suspend"}).status_code == 200
    for replica in (one, *others):
        until(lambda replica=replica: not replica.calls("diary/write"))


def until(is_true: Any) -> None:
    """Ask again until something is so; each request is a pause."""
    end = time.monotonic() + SOON_S
    while not is_true():
        assert time.monotonic() < end
