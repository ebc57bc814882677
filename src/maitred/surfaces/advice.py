"""What to do about a server that failed, in one sentence for its operator."""

from collections.abc import Mapping, Sequence
from typing import Final

from maitred.disclosure.answers import ServerStatus
from maitred.model.servers import FaultCode, State

_ADVICE: Final[Mapping[FaultCode, str]] = {
    "program_missing": "install the program, or give its full path in `command`",
    "jail_missing": "install bubblewrap, as by `apt-get install bubblewrap`",
    "path_not_granted": "add that to the manifest, and register it again",
    "mount_unusable": "correct `filesystem` in its manifest, or put it there",
    "network_not_granted": "install its package, as by `uv tool install` or `npm install --global`",
    "variable_unset": "set the variable where maitred is started, for instance in your client's env",
    "not_ready": "raise `start_timeout_s` of the server if it is slow the first time",
    "image_not_fetched": "fetch or make the image by hand, or correct its name in the manifest",
    "login_needed": "run that command; `maitred docs oauth` explains the login",
    "unauthorized": "set `headers: {Authorization: Bearer ${TOKEN}}`",
    "open_files": "raise the limit as it says, or have fewer servers run at once",
}
_PROGRAMS: Final = {
    "npx": "install Node.js, which brings npx",
    "uvx": "install uv, which brings uvx",
    "docker": "install Docker, or run the server without a container",
}
_MEMORY: Final = "raise `memory` in its manifest, and register it again"
_MODULE: Final = "the server's Python package is not installed for the interpreter in `command`"
_SUSPENDED: Final = "see `maitred explain NAME`; `maitred resume NAME` ends it"
_EXIT: Final = "run its command by hand to see more; if it works there, `env` lacks a variable of your shell"
_SILENT: Final = f"it wrote nothing; {_EXIT}"
_SPOKEN: Final = f"its last output is shown above; {_EXIT}"
_OTHERWISE: Final = "see `maitred docs troubleshooting`"


def advice(status: ServerStatus, lines: Sequence[str]) -> str:
    """What to do about a server that failed; `lines` are its last output."""
    health = status.health
    ended = health.ended if health.error else ""
    if health.fault == "program_missing" and status.spec.command in _PROGRAMS:
        return _PROGRAMS[status.spec.command]
    if health.fault:
        return _ADVICE[health.fault]
    if any("ModuleNotFoundError" in line for line in lines):  # a program has no code for it
        return _MODULE
    if ended != "memory" and (status.spec.suspended or health.state is State.SUSPENDED):
        return _SUSPENDED
    return {"memory": _MEMORY, "exit": _SPOKEN if lines else _SILENT}.get(ended, _OTHERWISE)
