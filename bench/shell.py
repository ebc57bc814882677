"""Seconds of whole commands of the command line, with and without a gateway that runs, in turn.

A round runs every command once without a gateway, and once while a client holds the shared one. The servers
are known from before, so `call` starts one without a gateway, and finds it running with one. Output goes to a
pipe.
"""

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio
from anyio import to_thread

from bench.stage import Checkout, Known, Stage
from bench.values import Failure, PeerError, Size, Spread, spread
from bench.wire import connect, environment

_SERVERS = 10
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,30}")
_MOST_S = 300
_WAYS = ("no gateway", "gateway runs")


@dataclass(frozen=True, kw_only=True)
class CommandTime:
    """One command of one checkout: seconds of the whole process, without and with a gateway that runs."""

    name: str
    command: str
    alone_s: Spread
    running_s: Spread


@dataclass(frozen=True, kw_only=True)
class CommandTimes:
    """All commands."""

    rounds: int
    servers: int
    tools: int
    commands: Sequence[CommandTime]
    failures: Sequence[Failure]


def measure(stage: Stage, size: Size) -> CommandTimes:
    """Run every command in turn; first rounds that are not counted warm the caches."""
    known = {checkout.name: stage.known(_SERVERS, checkout) for checkout in stage.checkouts}
    taken: dict[tuple[str, str, str], list[float]] = {}
    failures: list[Failure] = []
    checkouts = list(stage.checkouts)
    for number in range(-size.warm_up_starts, size.starts):
        for checkout in list(checkouts):
            try:
                found = anyio.run(_round, checkout, known[checkout.name], _tool(stage, known[checkout.name]))
            except PeerError as error:
                failures.append(Failure(what=checkout.name, why=str(error)))
                checkouts.remove(checkout)
                continue
            for (way, command), seconds in found.items() if number >= 0 else ():
                taken.setdefault((checkout.name, command, way), []).append(seconds)
    names = dict.fromkeys((name, command) for name, command, _ in taken)
    return CommandTimes(
        rounds=size.starts,
        servers=_SERVERS,
        tools=next(iter(known.values())).tools,
        commands=[
            CommandTime(
                name=name,
                command=command,
                alone_s=spread(taken[name, command, _WAYS[0]]),
                running_s=spread(taken[name, command, _WAYS[1]]),
            )
            for name, command in names
        ],
        failures=failures,
    )


def _tool(stage: Stage, known: Known) -> str:
    """A tool without required parameters, by its published name."""
    for record in stage.generated.records:
        server = str(record["server"])
        for tool in record["tools"] if server in known.servers and _PLAIN.fullmatch(server) else ():
            if _PLAIN.fullmatch(tool["name"]) and not (tool.get("inputSchema") or {}).get("required"):
                return f"{server}__{tool['name']}"
    raise PeerError("no tool of the corpus can be called without arguments")


async def _round(checkout: Checkout, known: Known, tool: str) -> Mapping[tuple[str, str], float]:
    config = ["--config", str(known.config)]
    commands = {
        "--help": ["--help"],
        "search": ["search", *config, "create an issue"],
        "list": ["list", *config],
        "call": ["call", *config, tool],
    }
    found = {}
    await to_thread.run_sync(checkout.stop, known.config)
    for name, words in commands.items():
        found[_WAYS[0], name] = await to_thread.run_sync(_seconds, checkout, words)
    async with connect(checkout.serve(known.config, shared=True)) as wire:
        await wire.list_tools()
        for words in (
            commands["search"],
            commands["call"],
        ):  # the gateway loads what it needs, and the server
            await to_thread.run_sync(_seconds, checkout, words)
        for name, words in commands.items():
            found[_WAYS[1], name] = await to_thread.run_sync(_seconds, checkout, words)
    await to_thread.run_sync(checkout.stop, known.config)
    return found


def _seconds(checkout: Checkout, words: Sequence[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(
        checkout.command(*words), capture_output=True, timeout=_MOST_S, check=False, env=environment()
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise PeerError(f"`maitred {words[0]}` ended with {done.returncode}: {why}")
    return seconds
