"""The pages on configuration name everything that can be configured, with the true defaults."""

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from maitred.config.clients.discovery import discover
from maitred.config.clients.table import CLIENT_IDS
from maitred.config.kubernetes_settings import McpServerWatch
from maitred.config.load import ServerEntry, parse
from maitred.config.monitoring_settings import ModelPrice
from maitred.config.settings import (
    AuditDestination,
    CategoryEntry,
    GroupEntry,
    HoldRule,
    Jwt,
    ProfileEntry,
    ResultDrop,
    ResultRule,
    Settings,
    SignIn,
    TeamEntry,
    ToolEntry,
)

DOCS = Path(__file__).parents[2] / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
IMPORT = (DOCS / "import.md").read_text(encoding="utf-8")
SECTIONS = {field.name: type(getattr(Settings(source=Path()), field.name)) for field in fields(Settings)}
NESTED = {
    "http.jwt": Jwt,
    "kubernetes.watch": McpServerWatch,
    "access.groups": GroupEntry,
    "access.sign_in": SignIn,
    "access.teams": TeamEntry,
    "results.rules": ResultRule,
    "results.rules.drop": ResultDrop,
    "held_calls.rules": HoldRule,
    "audit.stream": AuditDestination,
    "usage.prices": ModelPrice,
}
CLASSES = {
    "servers": ServerEntry,
    "categories": CategoryEntry,
    "tools": ToolEntry,
    "profiles": ProfileEntry,
    **NESTED,
} | {name: kind for name, kind in SECTIONS.items() if hasattr(kind, "__dataclass_fields__")}


def rows(section: str) -> dict[str, str]:
    """The keys of a section's table with the defaults that it states."""
    text = CONFIGURATION.split(f"\n## `{section}`\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (?:`(.*?)`)? ?\|", text, re.MULTILINE))


def default(field: Any) -> str:
    """A default as the page writes it; empty where the meaning explains it."""
    if field.default is MISSING and field.default_factory is MISSING:
        return ""
    value = field.default if field.default is not MISSING else field.default_factory()
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("section", CLASSES)
def test_the_page_has_every_key_of_a_section_with_its_default_and_no_other(section: str) -> None:
    assert rows(section) == {field.name: default(field) for field in fields(CLASSES[section])}


def test_the_example_on_the_page_is_a_valid_configuration() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", CONFIGURATION, re.DOTALL)
    settings = parse(Path("maitred.yaml"), example)
    assert (list(settings.servers), settings.limits.call_timeout_s) == (["time", "tracker"], 60)
    for example in re.findall(r"```json\n(.*?)```", CONFIGURATION + IMPORT, re.DOTALL):
        assert len(parse(Path("mcp.json"), example).servers) == 1


@pytest.mark.parametrize("client", CLIENT_IDS)
def test_the_page_on_importing_names_every_client_and_its_files(tmp_path: Path, client: str) -> None:
    (row,) = re.findall(rf"^\| .* \| `{client}` \| (.*) \|$", IMPORT, re.MULTILINE)
    for platform in ("darwin", "linux", "win32"):
        found = discover(home=tmp_path, cwd=tmp_path / "p", environ={}, platform=platform, clients=[client])
        for path in found.looked_at:
            assert path.name in row
            if path.is_relative_to(tmp_path / "p"):
                assert f"`{path.relative_to(tmp_path / 'p')}`" in row
