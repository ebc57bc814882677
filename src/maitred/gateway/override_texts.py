"""Texts of a person for single tools, written into the operator's file of overrides and applied at once."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from maitred.audit.service import AuditService
from maitred.config.document import read_text
from maitred.config.edit_overrides import with_override, with_overrides_file
from maitred.config.file_rewrite import rewrite
from maitred.config.load import load, parse
from maitred.config.settings import Settings
from maitred.config.taxonomy import merge_categories
from maitred.errors import ConfigError
from maitred.gateway.configure import Configuration
from maitred.gateway.search_reasons import TrialText, with_trial
from maitred.mediation.factory import overrides_path
from maitred.mediation.override_files import load_overrides, overrides_of, parse_overrides
from maitred.model.access import Viewer
from maitred.model.tools import Tool

_FILE: Final = "overrides.yaml"
_NOTHING: Final = {"description": "", "use_cases": []}


class OverrideTexts:
    """Writes and removes texts for a gateway. Who calls it has checked what the viewer may do."""

    def __init__(self, configuration: Configuration, auditing: AuditService) -> None:
        self._configuration = configuration
        self._auditing = auditing

    async def keep(self, tool: Tool, trial: TrialText, viewer: Viewer) -> Path:
        """Write the texts; see `Gateway.keep_text`."""
        changed = with_trial(tool, trial)
        cases = list(changed.mending.use_cases) if changed.mending else []
        values = {"description": changed.description, "use_cases": cases}
        return await self._write(tool, values, viewer, "override.keep")

    async def drop(self, tool: Tool, viewer: Viewer) -> Path:
        """Remove the texts; see `Gateway.drop_text`."""
        return await self._write(tool, _NOTHING, viewer, "override.drop")

    async def _write(self, tool: Tool, values: dict[str, Any], viewer: Viewer, action: str) -> Path:
        path = await self._configuration.change(partial(_edit, tool=tool, values=values))
        await self._auditing.record(viewer, action, server=tool.server, tool=tool.key.name, arguments=values)
        return path


def _edit(settings: Settings, tool: Tool, values: dict[str, Any]) -> Path:
    """Write the file, and have the configuration name it if it names none.

    Raises:
        ConfigError: A file has faults, or its layout does not allow this change alone.
    """
    named = overrides_path(load(settings.source))  # what cannot be read afterwards must not be changed before
    path = named or settings.source.absolute().parent / _FILE
    _refuse_shadow(settings, path, tool)
    categories = [category.name for category in merge_categories(settings.categories)]
    drops = not any(values.values())
    if drops and not path.exists():
        raise ConfigError(str(path), [_nothing(tool)])

    def edit(text: str) -> str:
        new_text = with_override(path, text, tool.key, values)
        if drops and new_text == text:
            raise ConfigError(str(path), [_nothing(tool)])
        parse_overrides(path, new_text.encode(), categories=categories)
        return new_text

    if named:
        rewrite(path, edit, create=True)
    else:
        _make(settings.source, path, edit)
    return path


def _make(source: Path, path: Path, edit: Callable[[str], str]) -> None:
    """Write the first texts, and name their file in the configuration; both, or none."""
    name_file, is_new = _naming(source), not path.exists()
    name_file(read_text(source))  # it may be a client's file, which can name none
    rewrite(path, edit, create=True)
    try:
        rewrite(source, name_file, create=False)
    except ConfigError:
        if is_new:
            path.unlink(missing_ok=True)
        raise


def _nothing(tool: Tool) -> str:
    return f"has no texts for {tool.key.name!r} of {tool.key.server!r}, so nothing was removed"


def _naming(source: Path) -> Callable[[str], str]:
    def edit(text: str) -> str:
        new_text = with_overrides_file(source, text, _FILE)
        parse(source, new_text)
        return new_text

    return edit


def _refuse_shadow(settings: Settings, path: Path, tool: Tool) -> None:
    """Refuse an entry for a tool if other overrides of it would lose their effect by it."""
    server, name = tool.key.server, tool.key.name
    if path.exists() and path.stat().st_size:
        there = load_overrides(path)
        if there.find(server, name) and name not in there.servers.get(server, {}):
            hint = f"a pattern or a domain in it has texts for {name!r} already; edit the file by hand"
            raise ConfigError(str(path), [hint])
    spec = settings.servers.get(server)
    if spec and spec.overrides and overrides_of(server, spec.overrides).find(server, name):
        hint = f"the manifest of {server!r} has texts for {name!r} already; change them there"
        raise ConfigError(str(settings.source), [hint])
