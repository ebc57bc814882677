"""Reads tools that have no queries: recorded servers, and the operations of three PyPI packages.

The packages are read as data; none of their code is run.
"""

import gzip
import html
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maitred.search.base import ToolDocument
from training.labelled import parameters

_TAG = re.compile(r"<[^>]+>")
_FREE = re.compile(r"^(the )?(mit|apache|isc|bsd)\b(?!.*gpl)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Tools of one origin.

    Attributes:
        name: Of the origin.
        tools: Each with its server.
        servers: What each server says of itself.
        is_prose: Whether the texts name products as people write them, not generated names only.
    """

    name: str
    tools: Sequence[ToolDocument]
    servers: Mapping[str, str]
    is_prose: bool = True


def read_sources(real: Path) -> list[Source]:
    """All origins, always in the same order."""
    return [_real(real), _tooluniverse(), _aws(), _google()]


def _real(path: Path) -> Source:
    tools, servers = [], {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            if not _FREE.match(record.get("licence") or ""):
                continue
            server = record["server"]
            servers[server] = _clean(record.get("instructions") or "")
            tools += [_mcp_tool(server, tool) for tool in record["tools"]]
    return Source(name="real", tools=tools, servers=servers)


def _mcp_tool(server: str, tool: Mapping[str, Any]) -> ToolDocument:
    return ToolDocument(
        name=tool["name"],
        server=server,
        title=tool.get("title") or "",
        description=_clean(tool.get("description") or "", keep_lines=True),
        parameters=parameters(tool.get("inputSchema")),
    )


def _tooluniverse() -> Source:
    tools = []
    for path in sorted(_package("tooluniverse", "data").glob("*.json")):
        entries = json.loads(path.read_text(encoding="utf-8"))
        server = path.stem.removesuffix("_tools").replace("_", " ")
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict) or not entry.get("name") or not entry.get("description"):
                continue
            tools.append(
                ToolDocument(
                    name=entry["name"],
                    server=server,
                    description=_clean(str(entry["description"])),
                    parameters=parameters(entry.get("parameter")),
                )
            )
    return Source(name="tooluniverse", tools=tools, servers={})


def _aws() -> Source:
    tools, servers = [], {}
    for folder in sorted(_package("botocore", "data").iterdir()):
        files = sorted(folder.glob("*/service-2.json.gz")) if folder.is_dir() else []
        if not files:
            continue
        service = json.loads(gzip.decompress(files[-1].read_bytes()))
        server = service["metadata"].get("serviceFullName", folder.name)
        servers[server] = _clean(service.get("documentation", ""))
        shapes = service["shapes"]
        for name, operation in service["operations"].items():
            shape = shapes.get(operation.get("input", {}).get("shape"), {})
            tools.append(
                ToolDocument(
                    name=name,
                    server=server,
                    description=_clean(operation.get("documentation", "")),
                    parameters=tuple(_members(shape)),
                )
            )
    return Source(name="aws", tools=tools, servers=servers, is_prose=False)


def _members(shape: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, member in list(shape.get("members", {}).items())[:40]:
        yield name, _clean(member.get("documentation", ""))[:200]


def _google() -> Source:
    tools, servers = [], {}
    latest: dict[str, Path] = {}
    for path in sorted(_package("googleapiclient", "discovery_cache/documents").glob("*.json")):
        if path.name != "index.json":
            latest[path.name.split(".")[0]] = path
    for path in latest.values():
        api = json.loads(path.read_text(encoding="utf-8"))
        server = api.get("title") or api["name"]
        servers[server] = _clean(api.get("description", ""))
        for name, method in _methods(api.get("resources", {})):
            tools.append(
                ToolDocument(
                    name=name,
                    server=server,
                    description=_clean(method.get("description", "")),
                    parameters=parameters({"properties": method.get("parameters", {})}),
                )
            )
    return Source(name="google", tools=tools, servers=servers, is_prose=False)


def _methods(resources: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, resource in resources.items():
        for method_name, method in resource.get("methods", {}).items():
            yield f"{name}.{method_name}", method
        yield from _methods(resource.get("resources", {}))


def _package(name: str, folder: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the package {name} is not installed; see training/README.md")
    return Path(spec.origin).parent / folder


def _clean(text: str, *, keep_lines: bool = False) -> str:
    text = html.unescape(_TAG.sub(" ", text))[:2_000]
    return text.strip() if keep_lines else " ".join(text.split())
