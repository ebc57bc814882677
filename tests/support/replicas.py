"""Several gateways, each in a process of its own, on one PostgreSQL behind a proxy that takes turns."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from anyio.from_thread import start_blocking_portal
from ruamel.yaml import YAML
from tests.interaction.harness import HttpGateway, cli, serving
from tests.support.postgres import Postgres
from tests.support.round_robin import round_robin


def replica_config(config: Path, postgres: Postgres) -> Path:
    """A configuration beside another one, whose catalog is in a new database and knows all servers."""
    document = YAML(typ="safe").load(config) or {}
    document["catalog"] = {"url": postgres.new_database()}
    document.setdefault("http", {})["drain_s"] = 3
    path = config.with_name(f"replicas-{config.stem}.yaml")
    path.write_text(json.dumps(document), encoding="utf-8")
    done = cli(path, "list", "--json")
    assert done.returncode == 0, done.stderr
    return path


@contextmanager
def serving_replicas(config: Path, count: int = 3) -> Iterator[tuple[HttpGateway, Sequence[HttpGateway]]]:
    """Run gateways; what is yielded first has the address of the proxy, and the process of the first."""
    with ExitStack() as stack:
        gateways = [stack.enter_context(serving(config)) for _ in range(count)]
        portal = stack.enter_context(start_blocking_portal())
        roots = [one.url.removesuffix("/mcp") for one in gateways]
        proxy = stack.enter_context(portal.wrap_async_context_manager(round_robin(roots)))
        first = gateways[0]
        yield HttpGateway(url=f"{proxy.url}/mcp", process=first.process, output=first.output), gateways
