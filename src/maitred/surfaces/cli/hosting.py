"""Runs commands of the command line in a gateway, for processes that ask at its socket.

A command is parsed and printed by the same functions as in a process of its own, in a thread; what it asks
the gateway runs in the gateway's event loop.
"""

import sys
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from typing import Any, Final

import anyio
import structlog
import typer
from anyio import to_thread

from maitred.config.load import load
from maitred.config.settings import Settings
from maitred.errors import ConfigError, MaitredError, StoreError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.surfaces.cli.app import USAGE_ERROR, app
from maitred.surfaces.cli.console import fail
from maitred.surfaces.cli.hosted_command import ElsewhereError, HostedCommand, OutputStream, host_command
from maitred.surfaces.cli.logs import uncaught_text
from maitred.surfaces.daemon.command_client import HOSTED
from maitred.surfaces.daemon.command_server import CommandRequest, CommandStreams

log = structlog.get_logger(__name__)

_MOST_AT_ONCE: Final = 32


class CommandHost:
    """Runs commands in a gateway; `settings` are those that it was opened with."""

    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self._gateway = gateway
        self._applied = settings
        self._stamp: tuple[int, ...] = ()
        self._limiter = anyio.CapacityLimiter(_MOST_AT_ONCE)
        self._turn = anyio.Lock()

    async def run(self, request: CommandRequest, streams: CommandStreams) -> int | str:
        """Run a command; returns its exit code, or why the process that asked has to run it."""
        if not request.words or request.words[0] not in HOSTED:
            return "it is not one of those that gateways run"
        try:
            async with self._turn:
                settings = await self._take_changes()
        except (ConfigError, StoreError, OSError) as error:
            return f"the configuration on disk cannot be used: {error}"
        terminals, encodings = request.terminals, request.encodings
        command = HostedCommand(
            gateway=self._gateway,
            settings=settings,
            config=request.config,
            folder=request.folder,
            viewer=request.viewer,
            out=OutputStream(partial(streams.write, "out"), is_terminal=terminals[1], encoding=encodings[1]),
            err=OutputStream(partial(streams.write, "err"), is_terminal=terminals[2], encoding=encodings[2]),
            environ=request.environ,
            input_is_terminal=terminals[0],
            read_input=streams.read_input,
            quiet=request.quiet,
        )
        return await to_thread.run_sync(_run, command, list(request.words), limiter=self._limiter)

    async def _take_changes(self) -> Settings:
        """The settings of the file as it is now, once the gateway has taken them over.

        The gateway notices a change by itself a moment later. A person who has just written the file expects
        that the next command knows it.

        Raises:
            ConfigError: The file is faulty; the gateway goes on with what it had.
        """
        source = self._applied.source
        found = source.stat()
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._stamp:
            fresh = replace(await to_thread.run_sync(load, source), http=self._applied.http)
            if fresh != self._applied:
                await self._gateway.configure(
                    fresh, viewer=LOCAL_USER
                )  # who can write the file may configure
            self._applied, self._stamp = fresh, stamp
        return self._applied


def _run(command: HostedCommand, words: list[str]) -> int | str:
    """Run a command in this thread, which belongs to it alone until it ends."""
    host_command(command)
    try:
        return _exit_code(words)
    except ElsewhereError as error:
        return str(error)
    except USAGE_ERROR:
        return "its words are not understood"
    except MaitredError as error:
        return fail(error).exit_code
    except CancelledError:  # the process that asked is gone
        return 1
    except Exception:  # a fault of one command must not end the gateway
        log.exception("a command failed", command=words[0])
        command.err.write(uncaught_text(*sys.exc_info()))
        return 1


def _exit_code(words: list[str]) -> int:
    group: Any = typer.main.get_command(app)
    name = words[0]
    code = group.get_command(None, name).main(
        args=words[1:], prog_name=f"maitred {name}", standalone_mode=False
    )
    return code if isinstance(code, int) else 0
