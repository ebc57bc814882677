"""A bubblewrap jail around a server that is a program: its own processes, no network, few files.

The program sees a read-only system, its installation (see `installation`), what it was granted, and a home in
memory. It sees no other process, has no privileges, and accesses granted files as the gateway's user. A
control group bounds its processes together, if one can be made (see `cgroups`). Otherwise the memory of each
process is bounded, and their number unless the gateway is root. The environment reaches bubblewrap through a
memfd. A command line is public, and bubblewrap's own environment would affect it outside of any jail.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import anyio
import structlog
from anyio import to_thread

from maitred.backends.base import ConnectError, Ending
from maitred.backends.isolation.cgroups import ControlGroup, Tree, find_tree
from maitred.backends.isolation.installation import SYSTEM, Installation, installation_of
from maitred.backends.isolation.mounts import why_raced, why_refused
from maitred.backends.isolation.seccomp import make_filter
from maitred.backends.isolation.threads import in_thread
from maitred.backends.launch import Launch, exit_ending, find_program, of_first
from maitred.errors import open_files_reason
from maitred.model.servers import Cage, Mount, ServerSpec

log = structlog.get_logger(__name__)

HOME: Final = "/tmp/home"  # noqa: S108  # inside
_TMP: Final = "/tmp"  # noqa: S108  # inside
_SHARED: Final = "/dev/shm"  # noqa: S108  # inside
_NOBODY: Final = "65534"
_TRY_S: Final = 10
_REASON_CHARS: Final = 300
_MIB: Final = 2**20
_OWN_PROCESSES: Final = 2
_OPEN_FILES: Final = 4096
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_PASSWD: Final = f"server:x:{_NOBODY}:{_NOBODY}:server:{HOME}:/bin/sh\n"
_GROUP: Final = f"server:x:{_NOBODY}:\n"
_HOSTS: Final = "127.0.0.1 localhost jail\n::1 localhost\n"
_KERNEL: Final = ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
"""If the gateway is root, the program owns what root owns, and could change settings of the kernel."""
_OF_ETC: Final = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"),
    *("/etc/timezone", "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/crypto-policies"),
    *("/etc/ca-certificates", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem"),
    *("/etc/pki/tls/openssl.cnf", "/etc/fonts", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/protocols"),
    *("/etc/services", "/etc/magic", "/etc/java"),
)
_OF_NETWORK: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf")
_OFFLINE: Final = {"npm_config_offline": "true", "UV_OFFLINE": "1"}
"""Makes package fetchers fail at once, since there is no network."""
_FETCHERS: Final = frozenset({"npx", "uvx", "bunx", "pnpx"})
_FETCHES: Final = (
    " (it fetches its package when it is started, and was granted no network: install the package, and name"
    " the program of it in `command`)"
)
_BASE: Final = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL", "--uid", _NOBODY, "--gid", _NOBODY, "--hostname", "jail", "--clearenv"),
)
_BOUND: Final = (
    f"ulimit -c 0; ulimit -n {_OPEN_FILES} 2>/dev/null;"
    ' if [ "$1" != 0 ]; then ulimit -d "$1"; ulimit -u "$2" 2>/dev/null || ulimit -p "$2"; fi;'
    ' shift 2; exec "$@"'
)
"""Sets limits for each process; shells have two option letters for the number of processes."""


@dataclass(frozen=True, kw_only=True)
class JailMeans:
    """What this machine has for jails.

    `bwrap` is the path of bubblewrap, empty if it cannot be used; `why_not` says why. `groups` is where
    control groups can be made; `why_no_groups` says why none can.
    """

    bwrap: str = ""
    version: str = ""
    why_not: str = ""
    groups: Tree | None = None
    why_no_groups: str = ""


def find_means(mark: str, program: str = "bwrap") -> JailMeans:
    """Look for bubblewrap and for control groups, and try both. Blocks for a moment."""
    found = shutil.which(program)
    if found is None:
        return JailMeans(why_not="bubblewrap (bwrap) is not installed")
    code, said = _run([found, "--version"])
    version = said
    if not code:
        system = (word for place in SYSTEM for word in _part_of_system(place))
        with _Files() as files:
            options = [*_BASE, *files.filter(), *system, *_KERNEL]
            code, said = _run([found, *options, "--", "/bin/true"], files.numbers)
    if code:
        said = f"{version} is too old, 0.8.0 is needed" if "disable-userns" in said else said
        return JailMeans(why_not=f"bubblewrap does not work here: {said}")
    tree, why_no_groups = find_tree(mark)
    return JailMeans(bwrap=found, version=version, groups=tree, why_no_groups=why_no_groups)


class _Files(ExitStack):
    """Anonymous memory files (memfd) that hand bubblewrap its seccomp filter and arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def file(self, content: bytes) -> str:
        """Create a memfd with this content, and return its descriptor's number."""
        number = os.memfd_create("maitred")
        self.callback(os.close, number)
        self.numbers.append(number)
        os.write(number, content)
        os.lseek(number, 0, os.SEEK_SET)
        return str(number)

    def filter(self) -> Sequence[str]:
        """The arguments that set the seccomp filter, if this kind of processor is known."""
        return ("--seccomp", self.file(program)) if (program := make_filter()) else ()


def _run(argv: Sequence[str], files: Sequence[int] = ()) -> tuple[int, str]:
    """Run a command to its end; returns its exit code and its output.

    Raises:
        OSError: This process has no file descriptors left, which says nothing about the command.
    """
    how: Mapping[str, Any] = {"capture_output": True, "text": True, "check": False, "env": {}}
    try:
        done = subprocess.run(argv, timeout=_TRY_S, pass_fds=files, **how)  # noqa: PLW1510  # `how` has it
    except (OSError, subprocess.TimeoutExpired) as error:
        if open_files_reason(error):
            raise
        return -1, str(error)[:_REASON_CHARS]
    said = (done.stdout + done.stderr).strip() or f"it ended with code {done.returncode}"
    return done.returncode, said[:_REASON_CHARS]


class ProgramJail:
    """Makes a cell for each run of a program, with the means that are found for the first one.

    If none are found, or if they are gone later, it looks for them again.
    `marks` is the environment that identifies processes of the gateway, `mark` the prefix of its control
    groups. `others` are the other servers that run, `sockets` those of the engines in the configuration.
    """

    def __init__(
        self,
        *,
        mark: str,
        marks: Mapping[str, str],
        program: str = "bwrap",
        others: Callable[[], Collection[ServerSpec]] = tuple,
        sockets: Collection[str] = (),
    ) -> None:
        self._mark = mark
        self._marks = marks
        self._program = program
        self._others = others
        self._sockets = sockets
        self._means = JailMeans()
        self._looking = anyio.Lock()
        self._numbers = itertools.count()

    async def means(self) -> JailMeans:
        """What this machine has for jails."""
        async with self._looking:
            if shutil.which(self._means.bwrap) is None:  # not found yet, or gone since
                self._means = await to_thread.run_sync(find_means, self._mark, self._program)
                if self._means.bwrap and self._means.why_no_groups:
                    log.warning("limits hold for each process alone", reason=self._means.why_no_groups)
        return self._means

    @asynccontextmanager
    async def cell(self, spec: ServerSpec, launch: Launch) -> AsyncIterator[Launch]:
        """Prepare the start of a program in a jail; on exit, all processes in the jail are ended.

        The environment of `launch` is what the program gets besides a path, a home and the language.

        Raises:
            ConnectError: There is no jail here, or a file that the program needs is missing or not granted.
        """
        means = await self.means()
        if not means.bwrap:
            raise ConnectError(
                f"it may only run in a jail, and there is none here: {means.why_not}. Install bubblewrap, or"
                " set `isolation.jail: none` to run such programs as they are (`maitred docs isolation`)",
                fault="jail_missing",
            )
        group = means.groups.group(f"{self._mark}.{next(self._numbers)}") if means.groups else None
        cell = _Cell(spec.cage or Cage(), launch, means, group)
        others = self._others()

        def make() -> Launch:
            for mount in cell.cage.mounts:
                _check(mount, self._sockets, spec.name, others)
            return cell.make(self._marks)

        made = await in_thread(lambda: cell.attempt(make), drop=lambda _: cell.leave())
        try:
            yield made
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(cell.leave)


class _Cell:
    """One run of a program: the files, arguments and environment that it gets."""

    def __init__(self, cage: Cage, launch: Launch, means: JailMeans, group: ControlGroup | None) -> None:
        self.cage = cage
        self._launch = launch
        self._means = means
        self._group = group
        self._files = _Files()
        self._fetches = Path(launch.argv[0]).name in _FETCHERS
        self._search = launch.env.get("PATH") or os.environ.get("PATH", os.defpath)

    def attempt(self, make: Callable[[], Launch]) -> Launch:
        """Prepare the cell, and clean up if that fails: the caller may have been cancelled meanwhile."""
        try:
            return make()
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Close the files, and end and remove the control group. Blocks for at most two seconds."""
        self._files.close()
        if self._group is not None and not self._group.remove():
            log.warning("a control group is left, and removed by the next gateway")

    def make(self, marks: Mapping[str, str]) -> Launch:
        """Check all that is needed, and return how to start. Blocks as long as the file system does."""
        program = Path(find_program(self._launch.argv[0], self._search, self._launch.cwd)).absolute()
        writable = [Path(one.path) for one in self.cage.mounts if one.writable]
        try:
            here = installation_of(program, self._search, writable)
        except OSError as error:
            told = f"{error.strerror}: {error.filename}"
            raise ConnectError(f"the installation of its program cannot be read: {told}") from error
        self._check_covered(here)
        self._check_told(here)
        texts = {"/etc/passwd": _PASSWD, "/etc/group": _GROUP}
        texts |= {} if self.cage.network else {"/etc/hosts": _HOSTS}
        options = [
            *_BASE,
            *self._files.filter(),
            *_setenv_arguments(self._environment(here)),
            *self._view_arguments(here),
        ]
        for path, text in texts.items():
            options += ["--ro-bind-data", self._files.file(text.encode()), path]
        options += ["--remount-ro", "/", "--chdir", self._launch.cwd or HOME]
        file = self._files.file(b"\0".join(os.fsencode(option) for option in options))
        kib = 0 if self._group else max(1, self.cage.memory // 1024)
        bound = ["/bin/sh", "-c", _BOUND, "sh", str(kib), str(self.cage.pids), str(program)]
        argv = [self._means.bwrap, "--args", file, "--", *bound, *self._launch.argv[1:]]
        return Launch(
            argv=self._entering(argv),
            env=marks,
            files=tuple(self._files.numbers),
            rate=self.cage.output,
            wrapped=True,
            ending=self._ending,
        )

    def _entering(self, argv: Sequence[str]) -> Sequence[str]:
        if self._group is None:
            return argv
        try:
            self._group.make(replace(self.cage, pids=self.cage.pids + _OWN_PROCESSES))
        except OSError as error:
            raise ConnectError(f"its limits cannot be set: {error.strerror}: {error.filename}") from error
        return self._group.entering(argv)

    def _ending(self, code: int | None) -> Ending:
        """Why the program ended; bubblewrap reports a signal as an exit code."""
        code = None if code is None else of_first(code)
        if code and self._group is not None and self._group.ended_for_memory():
            limit = f"{self.cage.memory / _MIB:g} MiB"
            return Ending(
                kind="memory", reason=f"the kernel ended it: it needed more memory than its {limit}"
            )
        told = exit_ending(code)
        if code and told.kind == "exit" and not self.cage.network and self._fetches:
            return Ending(kind="exit", reason=told.reason + _FETCHES, fault="network_not_granted")
        return told

    def _environment(self, here: Installation) -> dict[str, str]:
        path = ":".join([*map(str, here.path), self._launch.env.get("PATH", _PATH)])
        own = {"HOME": HOME, "USER": "server", "TMPDIR": _TMP, "LANG": "C.UTF-8"}
        own |= {} if self.cage.network else _OFFLINE
        return own | dict(self._launch.env) | {"PATH": path}

    def _view_arguments(self, here: Installation) -> Iterator[str]:
        """The arguments that build the program's view of the file system; later ones cover earlier ones."""
        for place in (*SYSTEM, *_OF_ETC, *(_OF_NETWORK if self.cage.network else ())):
            yield from _part_of_system(place)
        yield from _KERNEL
        for place in (_SHARED, _TMP):
            yield from ("--size", str(self.cage.disk), "--tmpfs", place)
        yield from ("--remount-ro", "/dev", "--dir", HOME)
        if self.cage.network:
            yield "--share-net"
        granted = {Path(mount.at): mount for mount in self.cage.mounts}
        for link, target in here.links.items():
            if not here.has(link) and not any(link.is_relative_to(at) for at in granted):
                yield from ("--symlink", target, str(link))
        parts = [part for part in here.parts if not self._is_granted(part)]
        for at in sorted({*granted, *parts}):
            if at in granted:
                yield from _mount_arguments(granted[at])
            else:
                yield from ("--ro-bind-try", str(at), str(at))

    def _is_granted(self, path: Path) -> bool:
        """Whether a grant shows this path at its own place."""
        return any(path.is_relative_to(one.at) and one.at == one.path for one in self.cage.mounts)

    def _check_covered(self, here: Installation) -> None:
        """Refuse a grant that covers the program's own code: no operator approved that other code."""
        own = [*here.parts, *here.links]
        for mount in self.cage.mounts:
            at = Path(mount.at)
            if mount.at != mount.path and any(at.is_relative_to(p) or p.is_relative_to(at) for p in own):
                raise ConnectError(
                    f"{mount.path}, which it was granted at {mount.at}, would cover the program itself:"
                    " choose another place for it, or leave `at` out"
                )

    def _check_told(self, here: Installation) -> None:
        """Refuse an argument or variable that names a file outside of the jail: the program would fail."""
        own = self._launch
        words = [word.partition("=")[2] if word.startswith("-") else word for word in own.argv[1:]]
        for word in [*words, *own.env.values(), own.cwd or ""]:
            if word.startswith("/") and not self._is_seen(word, here) and os.path.exists(word):  # noqa: PTH110
                folder = word if os.path.isdir(word) else Path(word).parent  # noqa: PTH112  # raises nothing
                raise ConnectError(
                    f"its configuration names {word}, which its jail does not show; grant it in its manifest,"
                    f" such as `filesystem: [{{path: {folder}}}]` (`maitred docs isolation`)",
                    fault="path_not_granted",
                )

    def _is_seen(self, word: str, here: Installation) -> bool:
        path = Path(os.path.normpath(word))
        places = ("/proc", "/dev", HOME, *_OF_ETC, *_OF_NETWORK, *(mount.at for mount in self.cage.mounts))
        return (
            path in (Path("/"), Path(_TMP))
            or here.has(path)
            or path in here.links
            or any(path.is_relative_to(place) for place in places)
        )


def _part_of_system(place: str) -> Sequence[str]:
    """Mount a part of the system; a link stays a link if the program sees its target.

    Programs read the name of the time zone from such a link.
    """
    path = Path(place)
    if path.is_symlink() and any(path.resolve().is_relative_to(one) for one in SYSTEM):
        return ("--symlink", str(path.readlink()), place)
    return ("--ro-bind-try", place, place)


def _check(mount: Mount, sockets: Collection[str], server: str, others: Collection[ServerSpec]) -> None:
    if why := why_refused(mount.path, sockets) or why_raced(server, mount.path, others):
        raise ConnectError(f"{mount.path}, which it was granted, {why}", fault="mount_unusable")


def _mount_arguments(mount: Mount) -> Sequence[str]:
    return ("--bind" if mount.writable else "--ro-bind", mount.path, mount.at)


def _setenv_arguments(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        yield from ("--setenv", name, value)
