"""What tests of mediation share: a poor server, settings, a model that has a word to say of each tool."""

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import structlog
from tests.gateway.rig import settings_of
from tests.support.corpus import replay_command
from tests.support.openai_server import OpenAiServer, Request

from maitred.config.settings import MediationSettings, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER

POOR = {"gt_usr": "gets user", "del_ord": "", "weather": "Tell the weather of a place."}


def poor(folder: Path, **mediation: Any) -> Settings:
    """Settings for the poor server."""
    return settings_of(folder, "poor", mediation=MediationSettings(**mediation))


def asking(model: OpenAiServer, **mediation: Any) -> dict[str, Any]:
    """The keys of `mediation` that have a model asked, and use what it says as it is."""
    given = {"auto_enhance": True, "llm_provider": "local", "model": "some-model", "url": model.url}
    return {**given, "proof": False, **mediation}


def described(gateway: Gateway) -> dict[str, str]:
    """What tools are said to do, by published name."""
    return {tool.name: tool.description for tool in gateway.visible_tools(LOCAL_USER)}


def by(gateway: Gateway) -> dict[str, str]:
    """Who mended a tool, by its name on its server; empty for nobody."""
    return {tool.key.name: tool.mending.by if tool.mending else "" for tool in gateway.snapshot.tools}


def asked_about(request: Request) -> list[str]:
    """The names of the tools in a question."""
    lines = request.body["messages"][-1]["content"].splitlines()
    rows = [json.loads(line) for line in lines if line.startswith('{"number"')]
    return [row["tool"] for row in rows]


def saying(entry: Callable[[str], Mapping[str, Any]]) -> Callable[[Request], str]:
    """A reply that says something about each tool by its name."""

    def reply(request: Request) -> str:
        names = asked_about(request)
        return json.dumps(
            {"tools": {str(at): {"tool": name, **entry(name)} for at, name in enumerate(names, 1)}}
        )

    return reply


def plainly(name: str) -> Mapping[str, Any]:
    """An entry that tells a tool by the model."""
    return {"description": f"The model says what {name} is for.", "confidence": 0.8}


@contextmanager
def hearing(**wanted: Any) -> Iterator[anyio.Event]:
    """An event that is set when something is logged that has these values."""
    heard = anyio.Event()

    def hear(_: Any, __: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if wanted.items() <= entry.items():
            heard.set()
        return entry

    processors = structlog.get_config()["processors"]
    processors.insert(0, hear)
    try:
        yield heard
    finally:
        processors.remove(hear)


def replayed(folder: Path, server: str, tools: Mapping[str, str]) -> list[str]:
    """The command of a server that lists tools with these descriptions."""
    path = folder / f"{server}.jsonl"
    listed = [
        {
            "name": name,
            "description": text,
            "inputSchema": {"type": "object", "properties": {"usr_id": {"type": "string"}}},
        }
        for name, text in tools.items()
    ]
    record = {
        "server": server,
        "serverInfo": {"name": server, "version": "1"},
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "tools": listed,
    }
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return replay_command(path, server, 0)
