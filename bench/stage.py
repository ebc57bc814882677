"""What has to stand before anything is measured: a corpus, configurations, and catalogs that know them.

Servers are replayed (`tests/support/replay_server.py`), so that a hundred of them cost little. A catalog is
made by running `maitred list` once; one for fewer servers starts from a copy, since maitred knows a server by
how it is reached.
"""

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from mcp_types import ListToolsResult
from pydantic import ValidationError
from tests.support import corpus

from bench.values import PeerError, Size

ROOT = Path(__file__).resolve().parents[1]
_BUILD_S = 900
_SEED = 7

Command = list[str]


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """An installed maitred: its name in tables, the Python it is installed for, what its files end in."""

    name: str
    python: Path
    suffix: str = ""

    def command(self, *arguments: str) -> Command:
        """A command line of it."""
        return [str(self.python.with_name("maitred")), *arguments]

    def serve(self, config: Path, *, shared: bool = False) -> Command:
        """The command line of its gateway on standard streams, for one client alone or shared."""
        alone = [] if shared else ["--no-daemon"]
        return self.command("serve", *alone, "--config", str(config), "--transport", "stdio")

    def serve_http(self, config: Path) -> Command:
        """The command line of its gateway on a port that it chooses and prints."""
        return self.command("serve", "--config", str(config), "--transport", "http", "--port", "0")

    def stop(self, config: Path) -> None:
        """End the gateway that clients of a configuration shared, if there is one."""
        subprocess.run(self.command("stop", "--config", str(config)), capture_output=True, check=False)


CURRENT: Final = Checkout(name="maitred", python=Path(sys.executable))


@dataclass(frozen=True, kw_only=True)
class Known:
    """A configuration whose servers' tools are all in its catalog; `seconds` is what making it took."""

    config: Path
    servers: Mapping[str, Command]
    tools: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Many servers' definitions, and a catalog that knows them. `name` is `generated` or `recorded`."""

    name: str
    records: Sequence[corpus.Record]
    known: Known


class Stage:
    """Everything that benches run on, below one folder. What is there already is used again.

    Args:
        folder: Where corpora, catalogs and peers are kept.
        size: How much is measured.
        before: Another checkout, which takes turns with this one.
    """

    def __init__(self, folder: Path, size: Size, before: Checkout | None = None) -> None:
        self.folder = folder
        self.checkouts: Final = (CURRENT, *([before] if before else []))
        self._size = size
        self._known: dict[tuple[int, str], Known] = {}

    @property
    def peers(self) -> Path:
        """The folder of peers that were installed for the bench."""
        return self.folder / "peers"

    @cached_property
    def generated(self) -> Corpus:
        """The corpus of our own making."""
        return self._corpus("generated", self._generate())

    @cached_property
    def recorded(self) -> Corpus | None:
        """Definitions of real servers, where they are at hand and the size asks for them."""
        path = corpus.recorded() if self._size.recorded else None
        return self._corpus("recorded", path) if path else None

    def definitions(self) -> tuple[str, Path]:
        """The name of the most real corpus that is at hand, and its file; no catalog is made of it."""
        path = corpus.recorded() if self._size.recorded else None
        return ("recorded", path) if path else ("generated", self._generate())

    def _generate(self) -> Path:
        servers, tools = self._size.corpus_servers, self._size.corpus_tools
        path = self.folder / f"generated-{servers}-{tools}.jsonl"
        if not path.exists():
            corpus.write(corpus.generate(_SEED, servers, tools), path)
        return path

    def corpora(self) -> list[Corpus]:
        """The generated corpus, then the recorded one where there is one."""
        return [self.generated, *([self.recorded] if self.recorded else [])]

    def known(self, count: int, checkout: Checkout = CURRENT) -> Known:
        """Some servers of the generated corpus with their catalog; the same ones each time.

        Only such as every peer can serve: a definition that the SDK's models refuse hides its whole server
        from FastMCP's proxy, and a log line that is not UTF-8 makes that proxy answer no list at all.
        """
        key = (count, checkout.name)
        if key not in self._known:
            self._known[key] = self._learn(count, checkout)
        return self._known[key]

    def _learn(self, count: int, checkout: Checkout) -> Known:
        every = self.generated.known
        names = random.Random(_SEED).sample(self._readable, min(count, len(self._readable)))
        chosen = {name: every.servers[name] for name in names}
        config = self.configure(f"known-{count}{checkout.suffix}", chosen)
        if checkout is CURRENT and not config.with_suffix(".db").exists():
            shutil.copy(every.config.with_suffix(".db"), config.with_suffix(".db"))
        return discover(config, chosen, checkout)

    @cached_property
    def _readable(self) -> list[str]:
        return sorted(str(one["server"]) for one in self.generated.records if _is_readable(one))

    def configure(self, name: str, servers: Mapping[str, Command], /, **sections: Mapping[str, Any]) -> Path:
        """Write a configuration of maitred with a catalog beside it; sections replace those of the bench."""
        path = self.folder / f"{name}.yaml"
        body: dict[str, Any] = {
            "servers": {key: {"command": argv[0], "args": argv[1:]} for key, argv in servers.items()},
            "catalog": {"path": str(path.with_suffix(".db"))},
            "disclosure": {"mode": "menu"},
            **sections,
        }
        path.write_text(json.dumps(body, indent=1), encoding="utf-8")  # JSON is YAML
        return path

    def proxy(self, variant: str, name: str, servers: Mapping[str, Command], port: int = 0) -> Command:
        """The command line of FastMCP's proxy before some servers, on stdio if there is no port."""
        path = self.folder / f"{name}-proxy.json"
        path.write_text(json.dumps(servers), encoding="utf-8")
        return [sys.executable, "-P", str(ROOT / "bench" / "proxies.py"), variant, str(path), str(port)]

    def _corpus(self, name: str, path: Path) -> Corpus:
        records, at = corpus.read(path), corpus.offsets(path)
        servers = {name: corpus.replay_command(path, name, offset) for name, offset in at.items()}
        return Corpus(
            name=name, records=records, known=discover(self.configure(f"{name}-{len(at)}", servers), servers)
        )


def _is_readable(record: corpus.Record) -> bool:
    if record.get("stdout_noise"):
        return False
    try:
        ListToolsResult.model_validate({"tools": record["tools"]})
    except ValidationError:
        return False
    return True


def discover(config: Path, servers: Mapping[str, Command], checkout: Checkout = CURRENT) -> Known:
    """Have maitred discover what it does not know yet.

    Raises:
        PeerError: It fails, or a server could not be discovered.
    """
    started = time.perf_counter()
    command = checkout.command("list", "--config", str(config), "--json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise PeerError(f"maitred list ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    listed = json.loads(done.stdout)["servers"]
    if failed := [f"{server['name']}: {server['error']}" for server in listed if server["error"]]:
        raise PeerError(f"{len(failed)} servers could not be discovered, the first {failed[0][:300]}")
    tools = sum(server["tools"] for server in listed)
    return Known(config=config, servers=servers, tools=tools, seconds=seconds)
