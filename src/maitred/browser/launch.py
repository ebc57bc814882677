"""Starts a browser with a debugging port of its own, and ends it with all its processes.

The browser takes a free port, and prints its address on standard error. It runs in a process group of its
own; the warden ends the group if the gateway is killed. A fresh profile is a temporary folder, which goes
with the browser. A persistent profile is a folder of maitred, never the profile of the user's own browser.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import structlog
from anyio import to_thread
from websockets.exceptions import WebSocketException

from maitred.backends import warden
from maitred.backends.base import ConnectError
from maitred.backends.launch import Launch
from maitred.backends.process import ChildProcess, Tail, Warden, environment, start
from maitred.browser.cdp import CdpClosedError, CdpConnection, CdpError, CdpTimeoutError, connect
from maitred.browser.errors import AttachError, BrowserFaultError
from maitred.browser.executable import find_chrome
from maitred.config.paths import make_folder, state_folder
from maitred.model.browsers import PROFILE_NAME, BrowserOptions
from maitred.model.tools import content_hash
from maitred.wording import did_you_mean

if sys.platform != "win32":
    import fcntl
log = structlog.get_logger(__name__)

_START_S: Final = 60.0
_QUIT_S: Final = 2.0
_REMOVALS: Final = 50
_REMOVE_AGAIN_S: Final = 0.1
_PREFIX: Final = "maitred-browser-"
_LISTENING: Final = re.compile(rb"DevTools listening on (wss?://\S+)")
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")
_DESKTOP: Final = (
    *_DISPLAYS,
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_SESSION_TYPE",
)
_ALWAYS: Final = (
    "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip
NO_ADDRESS_BAR: Final = "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup"
"""The suggestions of the address bar are pages, which each tab in a profile of its own would load unseen."""
HARMLESS: Final = frozenset({
    "--window-size", "--window-position", "--start-maximized", "--lang", "--user-agent", "--mute-audio",
    "--force-device-scale-factor", "--incognito", "--disable-gpu", "--force-dark-mode", "--hide-scrollbars",
    "--enable-experimental-web-platform-features", "--enable-features", "--enable-blink-features",
})  # fmt: skip
"""The flags that `extra_args` may have without the operator's word."""
_FEATURES: Final = {
    "--enable-features": frozenset({"WebMCP", "WebMCPTesting"}),
    "--enable-blink-features": frozenset({"WebMCP"}),
}
"""The only features that those two flags may turn on without the operator's word."""


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """How a browser is to be started. `port` 0 is a free one; `profile` is as in `chrome_launch`.

    `principal` is whose profile of that name it is, empty for the local user.
    """

    port: int = 0
    headless: bool | None = None
    profile: str = ""
    extra_args: Sequence[str] = ()
    principal: str = ""


def check_flags(extra_args: Sequence[str], options: BrowserOptions) -> None:
    """Refuse flags that could free the browser of its limits.

    Raises:
        BrowserFaultError: It names the first flag that is not allowed.
    """
    for one in extra_args:
        flag, _, value = one.partition("=")
        if flag in options.flags:
            continue
        if flag not in HARMLESS:
            hint = did_you_mean(flag, HARMLESS, lead="; ")
            raise BrowserFaultError(
                f"`extra_args` may not have {flag!r}{hint}; the operator may allow it in `flags`"
            )
        if flag in _FEATURES and not set(value.split(",")) <= _FEATURES[flag]:
            allowed = ", ".join(sorted(_FEATURES[flag]))
            raise BrowserFaultError(
                f"`{flag}` may turn on {allowed} only, unless the operator allows the flag"
            )


def has_display(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a window can be shown."""
    return sys.platform in ("darwin", "win32") or any(environ.get(name) for name in _DISPLAYS)


def profile_folder(profile: str, options: BrowserOptions, principal: str = "") -> Path | None:
    """The folder of a persistent profile; `None` for a fresh one.

    Each principal has profiles of its own, since a profile is signed in where its principal is. No name has
    an `@`, so a name of the local user is never the folder of a principal.

    Raises:
        BrowserFaultError: It is neither a name nor a folder that the operator allows.
    """
    wanted = profile or options.profile
    if not wanted:
        return None
    if PROFILE_NAME.fullmatch(wanted):
        whose = f"@{content_hash(principal.encode())}" if principal else ""
        return state_folder() / "browser-profiles" / f"{wanted}{whose}"
    path = Path(wanted).expanduser()
    if any(path == Path(one).expanduser() for one in options.profile_folders):
        return path
    raise BrowserFaultError(
        f"`user_data_dir` {wanted!r} is neither a name, such as `work`, nor a folder of the operator's"
        " `profile_folders`"
    )


class _Announcement(Tail):
    """The standard error of a browser, in which it prints the address of its port."""

    def __init__(self) -> None:
        super().__init__()
        self.address = ""
        self.ended = ""
        self.news = anyio.Event()
        self._seen = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes, and look for the address."""
        super().feed(data)
        if not self.address:
            self._seen = (self._seen + data)[-8_192:]
            if found := _LISTENING.search(self._seen):
                self.address = found[1].decode()
                self.news.set()

    def end(self, reason: str) -> None:
        """The process has ended."""
        self.ended = reason
        self.news.set()


@dataclass(frozen=True, kw_only=True)
class RunningBrowser:
    """A browser that was started or reached. `pid` is its process, 0 if maitred did not start it."""

    connection: CdpConnection
    address: str
    pid: int = 0
    executable: str = ""


@asynccontextmanager
async def launch(
    request: LaunchRequest,
    options: BrowserOptions,
    processes: Warden,
    on_address: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[RunningBrowser]:
    """Start a browser and connect to it. Leaving the context ends it, and removes a fresh profile.

    `on_address` is called with its address as soon as that is known.

    Raises:
        AttachError: It cannot be started; the error says which of the known reasons it is.
        BrowserFaultError: The request is not allowed.
    """
    check_flags(request.extra_args, options)
    executable = find_chrome(options.executable)
    folder = profile_folder(request.profile, options, request.principal)
    headless = not has_display() if request.headless is None else request.headless
    if not headless and not has_display():
        raise AttachError("no_display", "there is no display for a window; use `headless: true`")
    if options.sandbox and hasattr(os, "geteuid") and os.geteuid() == 0:
        raise AttachError(
            "root_sandbox",
            "Chrome does not run as root with its sandbox; run maitred as another user, or give up the"
            " sandbox: `browser: {sandbox: false}`, or `maitred browser serve --no-sandbox`",
        )
    async with _fresh(processes.mark) if folder is None else _persistent(folder) as profile:
        arguments = _arguments(request, options, profile, headless=headless)
        async with _process([executable, *arguments], processes) as (child, announcement):
            address = await _address(announcement, request.profile or options.profile)
            on_address(address)
            async with _connection(address) as connection:
                yield RunningBrowser(
                    connection=connection, address=address, pid=child.pid, executable=executable
                )
                with suppress(CdpClosedError, CdpError, CdpTimeoutError):  # it writes its profile
                    await connection.send("Browser.close", timeout_s=_QUIT_S)


@asynccontextmanager
async def _connection(address: str) -> AsyncIterator[CdpConnection]:
    """The connection to a browser that has just printed its address.

    Raises:
        AttachError: It has ended meanwhile.
    """
    async with AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(connect(address))
        except (OSError, TimeoutError, WebSocketException) as error:
            raise AttachError("not_started", f"the browser ended before it could be used: {error}") from error
        yield connection


def _arguments(
    request: LaunchRequest, options: BrowserOptions, profile: Path, *, headless: bool
) -> Sequence[str]:
    return [
        *_ALWAYS,
        *(["--headless", "--disable-gpu", NO_ADDRESS_BAR] if headless else []),
        *([] if options.sandbox else ["--no-sandbox"]),
        f"--remote-debugging-port={request.port}",
        f"--user-data-dir={profile}",
        *options.args,
        *request.extra_args,
        "about:blank",
    ]


@asynccontextmanager
async def _fresh(mark: str) -> AsyncIterator[Path]:
    """A profile that is removed at the end; removes those that killed gateways left."""
    await to_thread.run_sync(_remove_left)
    profile = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{mark}_"))
    lock = _lock(profile)
    try:
        yield profile
    finally:
        with anyio.CancelScope(shield=True):
            for _ in range(_REMOVALS):
                if await to_thread.run_sync(_remove, profile):
                    break
                await anyio.sleep(_REMOVE_AGAIN_S)
            else:
                log.warning("the profile of a browser cannot be removed", folder=str(profile))
        if lock is not None:
            os.close(lock)


def _remove_left() -> None:
    """Remove the profiles whose gateway has gone.

    A gateway in another container, with the same folder, seems to have gone. So its lock counts, too.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX).rpartition("_")[0]
        if owner and warden.is_gone(owner) and (lock := _lock(left)) is not None:
            _remove(left)
            os.close(lock)


def _remove(profile: Path) -> bool:
    """Remove a profile; false if a process of a killed browser, which ends later, still wrote in it."""
    shutil.rmtree(profile, ignore_errors=True)
    return not profile.exists()


def _lock(folder: Path) -> int | None:
    """The open file that locks a folder until it is closed; `None` if it cannot be locked."""
    if sys.platform == "win32":
        return None
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


@asynccontextmanager
async def _persistent(folder: Path) -> AsyncIterator[Path]:
    """A profile of maitred that stays, for the owner alone."""
    make_folder(folder)
    yield folder


@asynccontextmanager
async def _process(
    argv: Sequence[str], processes: Warden
) -> AsyncIterator[tuple[ChildProcess, _Announcement]]:
    """The browser's process; leaving the context ends its group and its descendants."""
    desktop = {name: os.environ[name] for name in _DESKTOP if name in os.environ}
    request = Launch(argv=argv, env=environment(desktop) | processes.environment)
    announcement = _Announcement()
    await to_thread.run_sync(processes.start)
    try:
        child = await start(
            request,
            lambda: ChildProcess(
                request, on_stdout=lambda _: None, on_end=announcement.end, tail=announcement
            ),
        )
    except ConnectError as error:
        raise AttachError("not_started", f"the browser cannot be started: {error}") from error
    try:
        processes.watch(child.pid)
        yield child, announcement
    finally:
        await child.stop()
        processes.forget(child.pid)


async def _address(announcement: _Announcement, profile: str) -> str:
    """Wait until the browser has printed the address of its port.

    Raises:
        AttachError: It ended, or took too long.
    """
    with anyio.move_on_after(_START_S):
        await announcement.news.wait()
    if announcement.address:
        return announcement.address
    if not announcement.ended:
        raise AttachError("start_timeout", f"the browser was not ready within {_START_S:g} s")
    lines = " ".join(announcement.lines()[-3:])
    if "code 0" in announcement.ended or "existing browser session" in lines or "ProcessSingleton" in lines:
        raise AttachError(
            "profile_in_use",
            f"another browser uses the profile {profile!r}: close that, or use another profile",
        )
    raise AttachError("not_started", f"the browser ended at once: {announcement.ended}")
