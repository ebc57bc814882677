"""Categories as tools: which tools are in which category, and the name and text of such a tool.

A tool is in the category that its server declares (`_meta.category`), or else in its group or the catalog's
category; a person's choice goes before all. The gateway publishes a server's categories under that server's
name, so that none passes for ours or another server's. Values in, values out; `maitred.gateway.lists` knows
who has opened what.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.backends.listing import clean
from maitred.catalog.names import MAX_NAME, prefix, publish
from maitred.disclosure import views
from maitred.model.categories import Category
from maitred.model.pages import split_name
from maitred.model.tools import Tool, ToolKey, content_hash
from maitred.wording import count_of

SUFFIX: Final = "_tools"
FEWEST: Final = 2
"""A category of fewer tools gets no tool of its own."""

_MOST_DECLARED: Final = 50
_DESCRIPTION_TOKENS: Final = 30
_LONGEST_NAME: Final = 100
_HASH: Final = 8
_COUNT = re.compile(r"[\s.]*\(\d+ tools?\)\s*$")


@dataclass(frozen=True, kw_only=True)
class CategoryTool:
    """A category as a tool: its published name, its subject, and its tools by name."""

    name: str
    about: str
    tools: tuple[Tool, ...]

    @property
    def is_category(self) -> bool:
        """Whether the list shows it in place of its tools."""
        return len(self.tools) >= FEWEST

    @property
    def definition(self) -> dict[str, Any]:
        """The definition for `tools/list`."""
        about = f": {self.about.rstrip('.')}" if self.about else ""
        return {
            "name": self.name,
            "description": f"List {count_of(len(self.tools), 'tool')}{about}.",
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
            "_meta": {"isCategory": True, "toolCount": len(self.tools)},
        }


def name_briefly(tools: Sequence[Tool]) -> Sequence[str]:
    """Name tools without the prefix of their server or page; if there are several, each is named once."""
    by_source: dict[str, list[str]] = {}
    for tool in tools:
        origin, in_page = split_name(tool.key.name)
        is_of_page = origin and tool.name.endswith(f"_{in_page}")
        name = in_page if is_of_page else tool.name.removeprefix(prefix(tool.server))
        by_source.setdefault(origin if is_of_page else views.plain_name(tool.server), []).append(name)
    if len(by_source) == 1:
        return next(iter(by_source.values()))
    names: list[str] = []
    for source, own in by_source.items():
        names += [f"{source}: {own[0]}", *own[1:]]
    return names


def declared_category(tool: Tool) -> tuple[str, str] | None:
    """Return the category that a server declares for a tool, as `(name, description)`.

    It is in the tool's `_meta` under `category`: a name, or `{"name": …, "description": …}`.
    """
    meta = tool.extra.get("_meta")
    value = meta.get("category") if isinstance(meta, Mapping) else None
    name, about = (value.get("name"), value.get("description")) if isinstance(value, Mapping) else (value, "")
    if not isinstance(name, str) or not (name := " ".join(clean(name).split())[:_LONGEST_NAME]):
        return None
    return name, " ".join(clean(about).split()) if isinstance(about, str) else ""


def group_by_category(
    tools: Sequence[Tool], categories: Sequence[Category], taken: Collection[str]
) -> list[CategoryTool]:
    """Group all tools by category, sorted by name; `taken` are names that no category may have."""
    declared_tools: dict[ToolKey, list[Tool]] = {}
    descriptions: dict[ToolKey, str] = {}
    catalog_tools: dict[str, list[Tool]] = {}
    declared_names = _declared_names(tools)
    catalog_categories = {category.name: category for category in categories}
    for tool in tools:
        category_of_server = declared_category(tool) if tool.placement.by != "person" else None
        if category_of_server and category_of_server[0] in declared_names[tool.server]:
            key = ToolKey(server=tool.server, name=_with_suffix(category_of_server[0]))
            declared_tools.setdefault(key, []).append(tool)
            descriptions[key] = descriptions.get(key) or category_of_server[1]
        else:
            catalog_tools.setdefault(_heading(tool, catalog_categories), []).append(tool)
    names = publish(declared_tools)
    groups = [
        CategoryTool(name=names[key], about=_short(descriptions[key]), tools=tuple(members))
        for key, members in declared_tools.items()
    ]
    for name, members in catalog_tools.items():
        category = catalog_categories.get(name) or Category(name=name)
        about = _short(category.description or category.title)
        groups.append(CategoryTool(name=_with_suffix(name or "other"), about=about, tools=tuple(members)))
    free: dict[str, CategoryTool] = {}
    for group in sorted(groups, key=lambda group: (group.name, group.about)):
        renamed = _free(group, taken, free)
        free[renamed.name] = renamed
    return sorted(free.values(), key=lambda group: group.name)


def _heading(tool: Tool, categories: Collection[str]) -> str:
    """Return the heading of a tool in the catalog: its group if the menu has it, or else its category."""
    group = tool.placement.group
    return group.name if group and group.name in categories else tool.placement.category


def _declared_names(tools: Sequence[Tool]) -> Mapping[str, Collection[str]]:
    """Return each server's own categories that count; a maximum protects the reader from a flood."""
    names: dict[str, set[str]] = {}
    for tool in tools:
        category = declared_category(tool)
        names.setdefault(tool.server, set()).update([category[0]] if category else ())
    return {server: frozenset(sorted(all_of)[:_MOST_DECLARED]) for server, all_of in names.items()}


def _with_suffix(name: str) -> str:
    return name if name.endswith(SUFFIX) else name + SUFFIX


def _short(about: str) -> str:
    """Return the first sentence, without a count that a program may have written there."""
    return views.first_sentence(_COUNT.sub("", about), _DESCRIPTION_TOKENS)[0]


def _free(group: CategoryTool, *taken: Collection[str]) -> CategoryTool:
    """Give the group a name that is free: its own, or one with a hash behind it."""
    name, hashed = group.name, group.name
    while len(name) > MAX_NAME or any(name in names for names in taken):
        name = f"{group.name[: MAX_NAME - _HASH - 1]}_{content_hash(hashed.encode())[:_HASH]}"
        hashed = name  # for the next name, if two categories come to this one
    return replace(group, name=name)
