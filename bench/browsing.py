"""What a task in a browser costs an agent: two browser servers and maitred's own, alone and behind maitred.

A shop page of our own, twenty steps, an agent that is a script (`tests/support/shop.py`). It acts on what it
was given and on nothing else, and looks at the page after each step. Where a server has a search of its own,
there is a run in which it looks at each page once and searches after that. A model makes mistakes, so the
figures are those of the answers, not of a model. The gateway has no rules but its own.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.support import shop
from tests.support.web_site import serve_site

from bench.stage import CURRENT, Command, Stage, discover
from bench.values import Failure, Size, leaf

_SERVER: Final = "shop"
_MOST_S: Final = 180
_ALONE, _SEARCHING, _OURS = "alone", "alone, own search", "maitred"


@dataclass(frozen=True, kw_only=True)
class Errand:
    """The task with one server, alone or behind maitred. Tokens are o200k, `largest` those of one answer."""

    peer: str
    way: str
    steps: int
    is_ordered: bool
    requests: int
    questions: int
    definitions: int
    calls: int
    answers: int
    largest: int
    total: int
    lost: str


@dataclass(frozen=True, kw_only=True)
class Browsing:
    """All errands, two for each server; `of` is how many steps the task has."""

    of: int
    errands: Sequence[Errand]
    failures: Sequence[Failure]


def measure(stage: Stage, size: Size) -> Browsing:
    """Do the task in each way; `size` changes nothing, since it is one task."""
    errands: list[Errand] = []
    failures: list[Failure] = []
    chromium = shop.chromium()
    with serve_site("shop") as site:
        for name, make in shop.PEERS_IN_SHOP.items():
            peer = make(chromium, stage.folder)
            if not (chromium and peer.is_installed):
                why = "run `make servers`, which installs Chromium and both servers"
                failures.append(Failure(what=f"{name} is not installed", why=why))
                continue
            for way in (_ALONE, *([_SEARCHING] if peer.search and not peer.looks_in_part else []), _OURS):
                try:
                    errands.append(_errand(stage, peer, way, site.origin))
                except Exception as error:  # noqa: BLE001  # a peer must not take the other's figures with it
                    failures.append(Failure(what=f"{way}, {name}", why=leaf(error)))
    return Browsing(of=len(shop.STEPS), errands=errands, failures=failures)


def _errand(stage: Stage, peer: shop.Peer, way: str, url: str) -> Errand:
    command, prefix = peer.command, ""
    if way == _OURS:
        config = stage.configure(f"browsing-{peer.name}", {}, servers={_SERVER: peer.server})
        discover(config, {})
        command, prefix = CURRENT.serve(config), f"{_SERVER}__"
    spent = anyio.run(_run, command, prefix, peer, url, stage.folder, way)
    return Errand(
        peer=peer.name,
        way=way,
        steps=spent.steps,
        is_ordered=bool(spent.order),
        requests=spent.requests,
        questions=spent.asked,
        definitions=spent.definitions,
        calls=spent.calls,
        answers=spent.answers,
        largest=spent.largest,
        total=spent.total,
        lost=spent.lost,
    )


async def _run(
    command: Command, prefix: str, peer: shop.Peer, url: str, folder: Path, way: str
) -> shop.Spent:
    started = StdioServerParameters(
        command=command[0], args=command[1:], cwd=str(folder), env=dict(os.environ)
    )
    with (folder / "browsing.log").open("a", encoding="utf-8") as errors, anyio.fail_after(_MOST_S):
        # in the handshake era, as browser servers and most of their clients are
        async with Client(stdio_client(started, errlog=errors), mode="legacy") as client:
            return await shop.ShopAgent(client, peer, url, prefix=prefix, searches=way == _SEARCHING).run()
