"""Runs maitred in a process where its own modules find what Python has on Windows, and no more.

`posix_free.py measure FOLDER COMMANDS` imports all modules, runs commands (a list of lists of words, as JSON)
in the folder, and prints what came of it as JSON. `posix_free.py run WORDS…` is the command `maitred`.

Only imports by maitred's modules are narrowed: the standard library and packages stay those of this system,
and so do files, pipes and processes. It measures what the modules need, and is no Windows.
"""

import builtins
import contextlib
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from types import ModuleType
from typing import Any

MISSING_MODULES = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"})
"""Modules that Python does not have on Windows."""
_OS = """
    chown chroot fchmod fchown fork forkpty getegid geteuid getgid getgroups getloadavg getpgid
    getpgrp getresuid getsid getuid initgroups killpg lchown lockf major memfd_create minor mkfifo
    mknod nice openpty pidfd_open pipe2 posix_spawn pread preadv pwrite register_at_fork
    sched_getaffinity sched_setaffinity sendfile set_blocking setgid setpgid setsid setuid splice
    statvfs sync sysconf tcgetpgrp uname wait wait3 wait4 waitid writev O_CLOEXEC O_DIRECTORY
    O_NOFOLLOW O_NONBLOCK O_DSYNC O_SYNC WNOHANG
"""
_SIGNAL = """
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGTTIN
    SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH alarm getitimer pidfd_send_signal pthread_kill
    pthread_sigmask setitimer sigpending sigwait
"""
_SOCKET = "AF_UNIX CMSG_LEN SCM_RIGHTS SO_PEERCRED recv_fds send_fds"
MISSING_NAMES: Mapping[ModuleType, frozenset[str]] = {
    os: frozenset(_OS.split()),
    signal: frozenset(_SIGNAL.split()),
    socket: frozenset(_SOCKET.split()),
}
"""What modules lack that Python has on Windows too. `set_blocking` came there with Python 3.12."""


class Narrow(ModuleType):
    """A module without some of its names; what is set goes to the real one."""

    def __init__(self, module: ModuleType, missing: frozenset[str], other: Mapping[str, Any]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(_module=module, _missing=missing, _other=other)

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return self._other[name] if name in self._other else getattr(self._module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._module) if name not in self._missing]


def narrow_imports() -> None:
    """From now on, modules of maitred get narrowed modules from their imports."""
    plain = builtins.__import__
    narrowed = {module.__name__: Narrow(module, names, {}) for module, names in MISSING_NAMES.items()}
    narrowed["sys"] = Narrow(sys, frozenset({"getdlopenflags"}), {"platform": "win32"})

    def import_(
        name: str, globals_: Any = None, locals_: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        is_own = f"{(globals_ or {}).get('__name__', '')}.".startswith("maitred.")
        if is_own and name.partition(".")[0] in MISSING_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}")
        if is_own and name in narrowed:
            return narrowed[name]
        return plain(name, globals_, locals_, fromlist, level)

    builtins.__dict__["__import__"] = import_


def modules() -> list[str]:
    """The names of all modules of maitred but for those that Alembic runs."""
    import maitred  # noqa: PLC0415  # after the imports are narrowed

    found = pkgutil.walk_packages(maitred.__path__, "maitred.")
    return [one.name for one in found if not one.name.startswith("maitred.storage.migrations.")]


def import_all() -> Mapping[str, str]:
    """Import every module; returns those that could not be, each with why."""
    faults = {}
    for name in modules():
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001  # reported
            faults[name] = traceback.format_exc(limit=-2)
    return faults


def run(*words: str) -> Mapping[str, Any]:
    """Run a command as `main` does; returns its exit code, and what it printed."""
    from maitred.surfaces.cli.app import main  # noqa: PLC0415  # after the imports are narrowed

    sys.argv = ["maitred", *words]
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        except BaseException:  # noqa: BLE001  # reported
            code = traceback.format_exc()
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def main() -> None:
    """Measure, or run one command."""
    narrow_imports()
    if sys.argv[1] == "run":
        sys.argv[:2] = ["maitred"]
        from maitred.__main__ import main as run_command  # noqa: PLC0415  # after the imports are narrowed

        run_command()
        return
    _, _, folder, commands = sys.argv
    os.chdir(folder)
    faults = import_all()
    sys.stdout.write(
        json.dumps({"faults": faults, "commands": [run(*words) for words in json.loads(commands)]})
    )


if __name__ == "__main__":
    main()
