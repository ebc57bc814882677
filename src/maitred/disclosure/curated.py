"""What persons and mediation say about a tool beside its texts: its tags and use cases.

A category that mediation names and the menu does not have, such as a group of tools that a language model
sees, becomes the tag `group:<name>`, so that tools can still be searched by it.
"""

import re
from collections.abc import Container
from typing import Any, Final

from maitred.config.tags import normalise_tag
from maitred.model.categories import ToolChoice
from maitred.model.tools import Tool

_LONGEST: Final = 40
_BETWEEN: Final = re.compile(r"[\W_]+")


def own_tags(tool: Tool, choice: ToolChoice, categories: Container[str]) -> list[str]:
    """The tags that were given to a tool, those of a person first; strangers but groups are left out."""
    mended = tool.mending
    said = (*choice.tags, *(mended.tags if mended else ()))
    found = [known for tag in said if (known := normalise_tag(tag))]
    if mended and mended.category and mended.category not in categories:
        group = _BETWEEN.sub("_", mended.category.casefold()).strip("_")[:_LONGEST]
        found.append(normalise_tag(group) or f"group:{group}")
    return found


def own_use_cases(tool: Tool, choice: ToolChoice) -> dict[str, Any]:
    """The fields of a tool that differ by what was said of its use; empty where nothing was."""
    if choice.use_cases:
        return {"use_cases": choice.use_cases, "use_cases_by": "person"}
    if tool.mending and tool.mending.use_cases:
        return {"use_cases": tool.mending.use_cases, "use_cases_by": "mediation"}
    if tool.use_cases_by in ("person", "mediation"):  # who took them back
        return {"use_cases": (), "use_cases_by": ""}
    return {}
