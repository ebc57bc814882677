"""How much of this machine a server may use: memory, processor, processes, output and files.

Docker has two settings for the processor: `nano_cpus` is a limit, `cpu_shares` a weight among containers,
which limits nothing. Each has its own bound, and the layer notices a weight that was written as a number of
cores. Only the launcher can see whether a granted folder has links that lead out of it.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from maitred.admission.checks.base import Bounds, LayerCheck, Policy
from maitred.admission.findings import Finding, unknown_transport
from maitred.admission.manifest import MIB, FilesystemGrant, Manifest
from maitred.model.transports import manifest_kind, manifest_reach

_LEAST_MEMORY = 6 * MIB  # the least that Docker accepts
_LEAST_NANO_CPUS = 10_000_000
_LEAST_SHARES = 2
_LIKE_SHARES = 128
_LEAST_OUTPUT = 1024
_SYSTEM = (
    "/proc", "/sys", "/dev", "/boot", "/etc", "/run", "/var/run", "/root", "/lib/modules", "/var/lib/docker",
    "/var/lib/containers",
)  # fmt: skip
_TOPS = (
    "", "/bin", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/sbin", "/srv", "/usr", "/var",
    "/var/lib", "/Users",
    "/var/tmp",  # noqa: S108 - a name to compare with
    "/tmp",  # noqa: S108 - a name to compare with
)  # fmt: skip
_OF_BOX = ("/proc", "/sys", "/dev")
_OF_JAIL = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu", "/etc", "/run",
    "/var/run", "/boot",
)  # fmt: skip
_PRIVATE = ("/tmp/home", "/var/tmp")  # noqa: S108 - names to compare with
_ABOVE_KEPT = ("/.config", "/.local", "/.local/share")
_KEPT = frozenset({
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
    ".password-store", ".vault-token", "gcloud", "docker.sock", "podman.sock", "containerd.sock", ".pgpass",
    "keyrings", "id_rsa", "id_ed25519",
})  # fmt: skip


class ResourcesCheck(LayerCheck):
    """Refuses what is beyond the bounds, and files of the machine that no server may see."""

    layer = "resources"

    def check(self, manifest: Manifest, policy: Policy) -> Sequence[Finding]:
        """Findings about limits and grants."""
        found = [*self._limits(manifest, policy.bounds), *self._grants(manifest, policy)]
        known = manifest_kind(manifest.transport) is not None
        return found if known else [*found, unknown_transport(self.layer, manifest.transport)]

    def _limits(self, manifest: Manifest, bounds: Bounds) -> Iterator[Finding]:
        told = (
            f"at most {_size(bounds.memory_bytes)} of memory",
            f"at most {_size(bounds.output_bytes_s)} a second",
        )
        yield from self._within("memory", manifest.memory, _LEAST_MEMORY, bounds.memory_bytes, told[0])
        yield from self._cores(manifest, bounds)
        if manifest.cpu_shares:
            most = f"a weight from {_LEAST_SHARES} to {bounds.cpu_shares}"
            yield from self._within("cpu_shares", manifest.cpu_shares, _LEAST_SHARES, bounds.cpu_shares, most)
        pids = f"at most {bounds.pids} processes and threads"
        yield from self._within("pids", manifest.pids, 1, bounds.pids, pids)
        yield from self._within("output", manifest.output, _LEAST_OUTPUT, bounds.output_bytes_s, told[1])

    def _cores(self, manifest: Manifest, bounds: Bounds) -> Iterator[Finding]:
        if manifest.cpu >= _LIKE_SHARES:
            reason = f"asks for {manifest.cpu:g} cores"
            fix = "if you mean the weight of Docker, write `cpu_shares`; `cpu` counts cores, such as 0.5"
            yield self._finding("refuse", "cpu", reason, fix)
            return
        most = f"at most {bounds.nano_cpus / 1e9:g} cores"
        yield from self._within("cpu", manifest.nano_cpus, _LEAST_NANO_CPUS, bounds.nano_cpus, most)

    def _within(self, key: str, value: int, least: int, most: int, told: str) -> Iterator[Finding]:
        if value > most:
            yield self._finding("refuse", key, "asks for more than a server may have", f"ask for {told}")
        elif value < least:
            yield self._finding("refuse", key, "is too little to run anything", f"ask for more, {told}")

    def _grants(self, manifest: Manifest, policy: Policy) -> Iterator[Finding]:
        for at, grant in enumerate(manifest.filesystem):
            key = f"filesystem[{at}]"
            if why := _refused(grant):
                yield self._finding("refuse", key, why, "grant the one folder that is needed")
            elif _is_covering(grant, manifest):
                fix = "choose a place of its own, such as one below /srv, or leave `at` out"
                yield self._finding(
                    "refuse", f"{key}.at", "would cover files that the server itself needs", fix
                )
            elif not _is_granted(grant, policy):
                act = "change" if grant.mode == "write" else "read"
                fix = "a person with the admin role may approve it"
                yield self._finding("ask", key, f"asks to {act} files of this machine", fix)
            elif _place(grant) != grant.path.rstrip("/"):
                told = "shows the files at another path, where the server may take them for other files"
                yield self._finding("ask", f"{key}.at", told, "a person with the admin role may approve it")


def _refused(grant: FilesystemGrant) -> str:
    """Why no person can approve a grant; empty if one can."""
    path = grant.path.rstrip("/")
    if any(_is_below(path, system) for system in _SYSTEM):
        return "is a part of the system itself"
    if path in _TOPS or (path.count("/") == 2 and path.startswith(("/home/", "/Users/"))):  # noqa: PLR2004
        return "is too much at once: it also has files of others"
    if path.lower().endswith(_ABOVE_KEPT):
        return "is too much at once: programs keep their credentials in it"
    if path.lower().endswith(".sock"):
        return "is a socket, which gives control over another program"
    if kept := sorted(_KEPT.intersection(path.lower().split("/"))):
        return f"holds credentials or controls this machine ({kept[0]})"
    return ""


def _place(grant: FilesystemGrant) -> str:
    return (grant.at or grant.path).rstrip("/")


def _is_covering(grant: FilesystemGrant, manifest: Manifest) -> bool:
    """Whether a grant would cover a path of the system that the server needs.

    The launcher refuses what would cover the program itself, since only the launcher can see that.
    """
    at = _place(grant)
    if at == grant.path.rstrip("/"):
        return False
    match manifest_reach(manifest.transport):
        case "image":  # it brings its own system
            own: Sequence[str] = _OF_BOX
        case "program" | "network" | "internal" | None:
            own = (*_OF_BOX, *_OF_JAIL)
        case unknown:
            assert_never(unknown)
    return any(_is_below(at, one) for one in own) or any(_is_below(one, at) for one in (*own, *_PRIVATE))


def _is_granted(grant: FilesystemGrant, policy: Policy) -> bool:
    roots = policy.writable if grant.mode == "write" else (*policy.readable, *policy.writable)
    return any(_is_below(grant.path.rstrip("/"), root.rstrip("/")) for root in roots)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _size(count: int) -> str:
    return f"{count / MIB / 1024:g} GiB" if count >= 1024 * MIB else f"{count / MIB:g} MiB"
