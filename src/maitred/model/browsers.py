"""What an operator decides about a server of the transport `browser`, as values."""

import re
from dataclasses import dataclass
from typing import Final

PROFILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What the name of a persistent profile may be."""


@dataclass(frozen=True, kw_only=True)
class BrowserOptions:
    """Which browser maitred starts, and what agents may do with browsers.

    Attributes:
        executable: The program; empty means the first known browser on PATH.
        profile: The persistent profile of browsers that it starts, a name such as `work`; empty means a
            fresh one each time, which is removed at the end. Each principal has its own of that name.
        profile_folders: Further folders that `chrome_launch` may use as `user_data_dir`.
        sandbox: The browser keeps its sandbox. Chrome refuses to run as root with it.
        hosts: Hosts beside this machine to which `chrome_connect` may connect.
        args: Arguments that each browser gets that maitred starts.
        flags: Flags that `extra_args` of `chrome_launch` may have beside the harmless ones.
        evaluate: Agents may run expressions of their own in a paused page.
        consent_s: How many seconds a running Chrome may take until its user allows the connection.
        idle_stop_s: After how many seconds without a call the browsers of a client end.
        max_connections: How many browsers one client may use at a time.
    """

    executable: str = ""
    profile: str = ""
    profile_folders: tuple[str, ...] = ()
    sandbox: bool = True
    hosts: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    evaluate: bool = True
    consent_s: float = 60.0
    idle_stop_s: float = 3_600.0
    max_connections: int = 8


@dataclass(frozen=True, kw_only=True)
class BrowserReport:
    """What `maitred doctor` finds of the browser of one server, or without a server of this machine's.

    `webmcp` is whether pages get the native WebMCP interface where the feature is turned on. `fault` says why
    the browser cannot be started; empty if it can.
    """

    server: str
    program: str = ""
    version: str = ""
    sandbox: bool = True
    webmcp: bool = False
    fault: str = ""

    @property
    def text(self) -> str:
        """The same in one line."""
        if self.fault:
            where = f"{self.version} at {self.program}: " if self.version and not self.server else ""
            return f"{where}{self.fault}"
        why = "as configured" if self.server else "since it is started as root"
        sandbox = "in its sandbox" if self.sandbox else f"without its sandbox, {why}"
        webmcp = "with a flag" if self.webmcp else "no"
        return f"{self.version} at {self.program}, starts {sandbox}; native WebMCP: {webmcp}"
