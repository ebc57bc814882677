"""Categories as tools: which tools stand behind which, what such a tool is called and says.

A tool stands in the category that its server declares for it (`_meta.category`), else in the catalog's; what
a person chose goes before both. Categories of servers are published as tools of theirs would be, so that none
passes for one of ours or of another server. Values in, values out; who has opened what is known to
`maitred.gateway.lists`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from maitred.backends.listing import clean
from maitred.catalog.names import MAX_NAME, publish
from maitred.disclosure import views
from maitred.model.categories import Category
from maitred.model.tools import Tool, ToolKey, content_hash
from maitred.wording import counted

SUFFIX: Final = "_tools"
FEWEST: Final = 2
"""A category of fewer tools is not worth a tool of its own."""

_MOST_DECLARED: Final = 50
_DESCRIPTION_TOKENS: Final = 30
_LONGEST_NAME: Final = 100
_HASH: Final = 8
_COUNT = re.compile(r"[\s.]*\(\d+ tools?\)\s*$")


@dataclass(frozen=True, kw_only=True)
class CategoryTool:
    """A category as a tool: its published name, what it is about, and what stands in it, by name."""

    name: str
    about: str
    tools: tuple[Tool, ...]

    @property
    def is_category(self) -> bool:
        """Whether it is listed in place of its tools."""
        return len(self.tools) >= FEWEST

    @property
    def definition(self) -> dict[str, Any]:
        """What `tools/list` shows."""
        about = f"{self.about.rstrip('.')}. " if self.about else ""
        return {
            "name": self.name,
            "description": f"{about}{counted(len(self.tools), 'tool')}; call to see them.",
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
            "_meta": {"isCategory": True, "toolCount": len(self.tools)},
        }


def declared(tool: Tool) -> tuple[str, str] | None:
    """The category that a server declares for a tool, as `(name, description)`.

    It stands in the tool's `_meta` under `category`: a name, or `{"name": …, "description": …}`.
    """
    meta = tool.extra.get("_meta")
    said = meta.get("category") if isinstance(meta, Mapping) else None
    name, about = (said.get("name"), said.get("description")) if isinstance(said, Mapping) else (said, "")
    if not isinstance(name, str) or not (name := " ".join(clean(name).split())[:_LONGEST_NAME]):
        return None
    return name, " ".join(clean(about).split()) if isinstance(about, str) else ""


def grouped(
    tools: Sequence[Tool], categories: Sequence[Category], taken: Collection[str]
) -> list[CategoryTool]:
    """All tools in their categories, these by name; `taken` are names that no category may have."""
    own: dict[ToolKey, list[Tool]] = {}
    said: dict[ToolKey, str] = {}
    placed: dict[str, list[Tool]] = {}
    few = _declared_by(tools)
    for tool in tools:
        found = declared(tool) if tool.placement.by != "person" else None
        if found and found[0] in few[tool.server]:
            key = ToolKey(server=tool.server, name=_suffixed(found[0]))
            own.setdefault(key, []).append(tool)
            said[key] = said.get(key) or found[1]
        else:
            placed.setdefault(tool.placement.category, []).append(tool)
    known = {category.name: category for category in categories}
    names = publish(own)
    groups = [
        CategoryTool(name=names[key], about=_short(said[key]), tools=tuple(held)) for key, held in own.items()
    ]
    for name, held in placed.items():
        category = known.get(name) or Category(name=name)
        about = _short(category.description or category.title)
        groups.append(CategoryTool(name=_suffixed(name or "other"), about=about, tools=tuple(held)))
    free: dict[str, CategoryTool] = {}
    for group in sorted(groups, key=lambda group: (group.name, group.about)):
        one = _free(group, {*taken, *free} if group.name in free else taken)
        free[one.name] = one
    return sorted(free.values(), key=lambda group: group.name)


def _declared_by(tools: Sequence[Tool]) -> Mapping[str, Collection[str]]:
    """By server, the categories of its own that count; nobody is flooded with them."""
    names: dict[str, set[str]] = {}
    for tool in tools:
        found = declared(tool)
        names.setdefault(tool.server, set()).update([found[0]] if found else ())
    return {server: frozenset(sorted(all_of)[:_MOST_DECLARED]) for server, all_of in names.items()}


def _suffixed(name: str) -> str:
    return name if name.endswith(SUFFIX) else name + SUFFIX


def _short(about: str) -> str:
    """The first sentence, without a count that a program may have written there."""
    return views.first_sentence(_COUNT.sub("", about), _DESCRIPTION_TOKENS)[0]


def _free(group: CategoryTool, taken: Collection[str]) -> CategoryTool:
    """The group under a name that is not taken."""
    if group.name not in taken and len(group.name) <= MAX_NAME:
        return group
    digest = content_hash(group.name.encode())[:_HASH]
    return CategoryTool(
        name=f"{group.name[: MAX_NAME - _HASH - 1]}_{digest}", about=group.about, tools=group.tools
    )
