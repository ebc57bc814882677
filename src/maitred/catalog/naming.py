"""The published names of the tools of a snapshot: all at once, or after some of them changed.

Names depend on the set of tools alone (`maitred.catalog.names`). Tools that want different names do not
affect each other, unless one gets a name with a hash that another wants. So after a change only those tools
are named that want the same name as a changed one, and all of them where a hash meets another name, which is
rare.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain

from maitred.catalog.names import is_short_hashed, publish, wanted_name
from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import Tool, ToolKey


def named_together(tools: Mapping[ToolKey, Tool]) -> dict[ToolKey, Tool]:
    """All tools of a catalog, named together."""
    withheld = {key for key, tool in tools.items() if tool.withheld}
    renamed = {
        key: tool.mending.rename
        for key, tool in tools.items()
        if tool.mending and tool.mending.rename and not tool.withheld
    }
    names = publish(tools, renamed, withheld)
    return {k: tool if tool.name == names[k] else replace(tool, name=names[k]) for k, tool in tools.items()}


def named_after(snapshot: Snapshot, touched: Mapping[ToolKey, Tool | None]) -> dict[ToolKey, Tool]:
    """The tools that were added or replaced, with their names, and the others whose names change by it.

    `None` is a tool that was removed. Tools may be among the others whose names stay.
    """
    before = [tool for key in touched if (tool := snapshot.by_key.get(key))]
    now = [tool for tool in touched.values() if tool]
    wanted = {wanted_name(tool) for tool in (*before, *now)}
    group = {tool.key: tool for name in wanted for tool in _wanting(snapshot, name)}
    group = {key: tool for key, tool in group.items() if key not in touched}
    named = named_together(group | {tool.key: tool for tool in now})
    names = wanted | {tool.name for tool in (*before, *group.values(), *named.values())}
    usual = all(map(is_short_hashed, named.values()))
    if usual and _are_apart(snapshot, names, touched.keys() | group.keys()):
        return named
    others = {key: tool for key, tool in snapshot.by_key.items() if key not in touched}
    return named_together(others | {tool.key: tool for tool in now})


def _wanting(snapshot: Snapshot, name: str) -> list[Tool]:
    """The tools that want a name, whichever they have."""
    has = snapshot.by_name.get(name)
    others = [snapshot.by_key[key] for key in snapshot.crowded.get(name, ())]
    return [has, *others] if has is not None and wanted_name(has) == name else others


def _are_apart(snapshot: Snapshot, names: Collection[str], keys: Collection[ToolKey]) -> bool:
    """Whether no other tool than these has one of these names, or wants it."""
    if not snapshot.has_usual_names:
        return False
    owners = (tool.key for name in names if (tool := snapshot.by_name.get(name)))
    wanting = (key for name in names for key in snapshot.crowded.get(name, ()))
    return all(key in keys for key in chain(owners, wanting))
