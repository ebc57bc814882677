"""Docker or Podman, by the `docker` SDK over the API that both have.

The SDK blocks, so each call runs in its own thread (`threads`). This module turns the SDK's errors into
`EngineError`. The SDK is slow to load: only `wiring` imports this module, when a container is first
needed.
"""

import json
import os
import re
import shutil
import socket
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import structlog
from docker import APIClient
from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig, Mount, Ulimit
from urllib3.exceptions import HTTPError

from maitred.backends.base import ConnectError
from maitred.backends.isolation.engine_api import (
    SERVER,
    ContainerSpec,
    ContainerState,
    ContainerSummary,
    EngineError,
    EngineGoneError,
    EngineInfo,
    ImageInfo,
    is_socket,
    socket_of,
)
from maitred.backends.isolation.seccomp import narrow_profile
from maitred.backends.isolation.threads import in_thread

log = structlog.get_logger(__name__)
T = TypeVar("T")

_FIRST_API: Final = "1.41"
_TIMEOUT_S: Final = 30
_PING_S: Final = 5
_PATIENCE_S: Final = 10.0
_AGAIN_S: Final = 0.1
_MOST_SAID: Final = 300
_FILES: Final = 4096
_PROCESSES: Final = 4096
_MISSING: Final = "no such container"
_ON_THE_WAY: Final = ("removing", "stopping")  # its exit code is not there yet
_UNHELD: Final = re.compile(r"\b(memory|pids|resource) limits?\b", re.IGNORECASE)
"""A warning that the engine drops a limit. Each engine words it differently; swap alone does not match."""
_ATTACHED: Final = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
_NO_ENGINE: Final = (
    "no engine for containers answers: start Docker, or Podman's service (`podman system service`), or set"
    " `isolation.engine` or DOCKER_HOST to its address"
)


@dataclass(frozen=True, kw_only=True)
class _Means:
    """Options of containers that not every engine supports.

    `init` is a first process that waits for others, `seccomp` a filter of system calls that replaces the
    engine's own.
    """

    init: bool = True
    seccomp: Path | None = None


class DockerEngine:
    """One engine, over a client of the SDK."""

    def __init__(self, client: Any, info: EngineInfo) -> None:
        self._client = client
        self._trying = anyio.Lock()
        self._means: _Means | None = None
        self.info = info

    def close(self) -> None:
        """Close the connections to the engine."""
        self._client.close()

    async def ping(self) -> None:
        """Check that the engine answers."""

        def ask() -> None:
            _knock(self.info.socket)
            self._client.get(f"{self._client.base_url}/_ping", timeout=_PING_S)

        await self._call(ask)

    async def image(self, reference: str) -> ImageInfo | None:
        """The image that a reference means; `None` if the engine does not have it."""
        try:
            found = await self._call(lambda: self._client.inspect_image(reference))
        except EngineError as error:
            if error.missing:
                return None
            raise
        config = found.get("Config") or {}
        env = dict(one.split("=", 1) for one in config.get("Env") or () if "=" in one)
        return ImageInfo(
            identity=found["Id"],
            user=config.get("User") or "",
            env=env,
            volumes=sorted(config.get("Volumes") or ()),
        )

    def pull(self, reference: str, say: Callable[[str], None]) -> None:
        """Fetch an image."""
        said: dict[str, str] = {}

        def fetch() -> None:
            for line in self._client.pull(*_split(reference), stream=True, decode=True):
                if error := line.get("error"):
                    raise EngineError(_short(str(error)))
                layer, status = line.get("id", ""), line.get("status", "")
                if status and said.get(layer) != status:  # else there would be one line for every few bytes
                    said[layer] = status
                    say(f"{layer}: {status}" if layer else status)

        self._with_engine_errors(fetch)

    def export(self, identity: str, path: Path) -> None:
        """Write an image into an archive."""

        def write() -> None:
            with path.open("wb") as file:
                file.writelines(self._client.get_image(identity))

        self._with_engine_errors(write)

    async def create(self, name: str, wanted: ContainerSpec) -> None:
        """Make a container.

        The first call also tries the options that not every engine supports, with containers of the same
        name.
        """
        async with self._trying:
            if self._means is None:
                self._means = await self._call(
                    lambda: self._try_options(name, wanted.labels), patience_s=_PATIENCE_S
                )
            means = self._means
        warnings = await self._call(lambda: self._create(name, wanted, means), patience_s=_PATIENCE_S)
        if warnings:
            log.warning("an engine warns of a container", server=wanted.labels.get(SERVER), said=warnings)
        if unheld := [_short(one) for one in warnings if _UNHELD.search(one)]:
            await self.remove(name)
            raise EngineError(f"{self.info.name} does not hold it to its limits here: {'; '.join(unheld)}")

    def _create(self, name: str, wanted: ContainerSpec, means: "_Means") -> Sequence[str]:
        made = self._client.create_container(
            wanted.image,
            command=list(wanted.args) or None,
            environment=dict(wanted.env),
            user=wanted.user,
            labels=dict(wanted.labels),
            name=name,
            stdin_open=True,
            tty=False,
            detach=False,
            use_config_proxy=False,  # the operator's proxy, which may hold a password, is not passed on
            host_config=self._client.create_host_config(**_host_config(wanted, means)),
        )
        return [str(one) for one in made.get("Warnings") or ()]

    def _try_options(self, name: str, labels: Mapping[str, str]) -> "_Means":
        """Find out which options work, by making empty containers that never start.

        Docker supports them all, so only Podman is tried.

        Raises:
            EngineError: No container can be made at all, so the options are still unknown.
        """
        if self.info.name != "Podman":
            return _Means()
        folder = Path(tempfile.mkdtemp(prefix="maitred-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # unused after that
        (folder / "root").mkdir()
        trial = {"name": name, "labels": dict(labels), "rootfs": str(folder / "root"), "command": ["true"]}
        trial["netns"] = {"nsmode": "none"}
        seccomp = self._write_filter(folder / "seccomp.json")
        ways = [_Means(init=init, seccomp=file) for file in (seccomp, None) for init in (True, False)]
        for means in ways:  # Podman's `init` is in a package of its own
            if not (refused := self._why_refused(trial, means)):
                break
        else:
            raise EngineError(f"Podman cannot make containers: {refused}")
        without = seccomp is not None and means.seccomp is None
        if without and (refused := self._why_refused(trial, ways[1])):  # again, so it was no passing fault
            log.warning("containers can make namespaces: Podman cannot use our filter", reason=refused)
            return means
        return replace(means, seccomp=seccomp)

    def _why_refused(self, trial: Mapping[str, Any], means: "_Means") -> str:
        """Make a container and remove it; returns why it cannot be made, empty if it can."""
        url = f"{self._client.base_url}/v{self.info.version}/libpod/containers"
        own = {"init": means.init, "seccomp_profile_path": str(means.seccomp or "")}
        made = self._client.post(f"{url}/create", json={**trial, **own}, timeout=_TIMEOUT_S)
        if not made.ok:
            return _short(made.text) or f"it answers {made.status_code}"
        self._client.delete(f"{url}/{trial['name']}?force=true", timeout=_TIMEOUT_S).raise_for_status()
        return ""

    def _write_filter(self, file: Path) -> Path | None:
        """Write the filter of system calls that Podman uses instead of its own."""
        try:
            url = f"{self._client.base_url}/v{self.info.version}/libpod/info"
            told = self._client.get(url, timeout=_TIMEOUT_S).json()
            own = Path(told["host"]["security"]["seccompProfilePath"]).read_text(encoding="utf-8")
            file.write_text(json.dumps(narrow_profile(json.loads(own))), encoding="utf-8")
        except (KeyError, TypeError, ValueError, OSError) as error:
            log.warning("containers can make namespaces: Podman's filter cannot be read", reason=repr(error))
            return None
        return file

    async def attach(self, name: str) -> socket.socket:
        """A socket to the standard streams of a container."""

        def attached() -> socket.socket:
            stream = self._client.attach_socket(name, params=dict(_ATTACHED))
            own = socket.socket(fileno=os.dup(stream.fileno()))
            if (answer := getattr(stream, "_response", None)) is not None:
                answer.close()  # and the SDK's end; else Python closes it later and warns
            return own

        return await self._call(attached, drop=socket.socket.close)

    async def start(self, name: str) -> None:
        """Start a container."""
        await self._call(lambda: self._client.start(name), patience_s=_PATIENCE_S)

    async def state(self, name: str) -> ContainerState | None:
        """The state of a container; `None` if it does not exist any more."""
        try:
            found = (await self._call(lambda: self._client.inspect_container(name)))["State"]
        except EngineError as error:
            if error.missing:
                return None
            raise
        return ContainerState(
            running=bool(found.get("Running")) or found.get("Status") in _ON_THE_WAY,
            code=int(found.get("ExitCode") or 0),
            out_of_memory=bool(found.get("OOMKilled")),
            pid=int(found.get("Pid") or 0) or None if self.info.socket else None,
        )

    async def actions(self, name: str, since: float) -> frozenset[str]:
        """The events of a container that has ended. Takes up to two seconds if the event `die` is missing."""

        def told() -> frozenset[str]:
            found = set()
            until = int(time.time()) + 2  # the engine may record it a little later than it happens
            events = self._client.events(
                since=int(since), until=until, filters={"container": [name]}, decode=True
            )
            with closing(events):
                for one in events:
                    found.add(str(one.get("Action", "")))
                    if "die" in found:
                        break
            return frozenset(found)

        return await self._call(told)

    async def signal(self, name: str, number: int) -> None:
        """Send a signal to the first process of a container."""
        await self._call(lambda: self._client.kill(name, number))

    async def remove(self, name: str) -> None:
        """Remove a container, even if it runs.

        It tries again, since Podman cannot remove a container that is just ending by itself.
        """
        for again in (True, True, True, False):
            try:
                await self._call(lambda: self._client.remove_container(name, force=True, v=True))
            except EngineError as error:
                if error.missing:
                    return
                if isinstance(error, EngineGoneError) or not again:
                    raise
            else:
                return
            await anyio.sleep(_AGAIN_S)

    async def labelled(self, label: str) -> Sequence[ContainerSummary]:
        """The containers that have a label, running or not."""
        found = await self._call(lambda: self._client.containers(all=True, filters={"label": [label]}))
        return [ContainerSummary(identity=one["Id"], labels=one.get("Labels") or {}) for one in found]

    async def _call(
        self, function: Callable[[], T], *, patience_s: float = 0.0, drop: Callable[[T], object] | None = None
    ) -> T:
        return await in_thread(lambda: self._with_engine_errors(function), patience_s=patience_s, drop=drop)

    def _with_engine_errors(self, function: Callable[[], T]) -> T:
        """Call the SDK, and turn its errors into `EngineError`."""
        try:
            if self.info.socket and not is_socket(self.info.socket):
                raise FileNotFoundError(f"there is no socket {self.info.socket}")
            return function()
        except APIError as error:
            what = _short(str(error.explanation or error))
            missing = isinstance(error, NotFound) or _MISSING in what  # Podman, while it removes one
            raise EngineError(what, missing=missing) from error
        except (DockerException, HTTPError, OSError) as error:
            reason = f"the engine at {self.info.address} does not answer any more: {_short(str(error))}"
            raise EngineGoneError(reason) from error


def _host_config(wanted: ContainerSpec, means: _Means) -> Mapping[str, Any]:
    """The options that isolate and limit a container."""
    tmpfs = dict.fromkeys(wanted.in_memory, f"size={wanted.disk},mode=1777,noexec,nosuid,nodev")
    security = ["no-new-privileges", *([f"seccomp={means.seccomp}"] if means.seccomp else [])]
    ulimits = {"nofile": _FILES, "nproc": _PROCESSES, "core": 0}
    bounds = {"cpu_shares": wanted.cpu_shares} if wanted.cpu_shares else {}
    return bounds | {
        "network_mode": None if wanted.network else "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": security,
        "privileged": False,
        "pids_limit": wanted.pids,
        "mem_limit": wanted.memory,
        "memswap_limit": wanted.memory,
        "nano_cpus": wanted.nano_cpus,
        "shm_size": wanted.disk,
        "tmpfs": tmpfs,
        "ulimits": [Ulimit(name=name, soft=most, hard=most) for name, most in ulimits.items()],
        "init": means.init,
        "log_config": LogConfig(type="none"),  # the engine's own log would grow without end
        "mounts": [
            Mount(target=one.at, source=one.path, type="bind", read_only=not one.writable)
            for one in wanted.mounts
        ],
    }


async def open_engine(addresses: Sequence[str]) -> DockerEngine:
    """Connect to the first engine that answers.

    Raises:
        ConnectError: No engine answers; the text says which addresses were tried, and what to do.
    """
    faults = []
    for address in addresses:
        try:
            return await in_thread(lambda at=address: _open(at))  # type: ignore[misc]  # mypy and defaults
        except (DockerException, HTTPError, OSError, ValueError) as error:
            faults.append(f"{address}: {_short(str(error))}")
    raise ConnectError(f"{_NO_ENGINE} ({'; '.join(faults)})" if faults else _NO_ENGINE)


def _knock(path: str) -> None:
    """Check that a process listens at a socket; the SDK leaks a connection if none does."""
    if path:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(_PING_S)
            caller.connect(path)


def _open(address: str) -> DockerEngine:
    if not address.startswith(("unix://", "tcp://", "http://")):
        raise ValueError("only unix:// and tcp:// addresses without TLS can be used")
    _knock(socket_of(address))
    client = APIClient(base_url=address, version=_FIRST_API, timeout=_TIMEOUT_S)
    try:  # Podman takes half a second to answer a request for its version
        told = client.get(f"{client.base_url}/_ping", timeout=_PING_S).headers
    finally:
        client.close()
    if not (api := told.get("Api-Version", "")):
        raise ValueError("the program that answers there is no container engine")
    podman = told.get("Libpod-Api-Version", "")
    info = EngineInfo(
        address=address,
        name="Podman" if podman else "Docker",
        version=podman or told.get("Server", "").partition("/")[2].partition(" ")[0],
        api=api,
        socket=socket_of(address),
    )
    return DockerEngine(APIClient(base_url=address, version=api, timeout=_TIMEOUT_S), info)


def _split(reference: str) -> tuple[str, str]:
    """The name of an image, and its tag or digest."""
    name, at, digest = reference.partition("@")
    if at:
        return name, digest
    name, _, tag = reference.rpartition(":")
    return name, tag


def _short(text: str) -> str:
    """The first 300 characters of an engine's message, on one line."""
    return " ".join(text.split())[:_MOST_SAID]
