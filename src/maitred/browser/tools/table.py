"""All tools of the browser server, by name."""

from collections.abc import Mapping
from typing import Final

from maitred.browser.tools import connections, console, debugging, elements, stepping, targets
from maitred.browser.tools.base import BrowserTool

_GROUPS: Final = (connections, targets, elements, console, debugging, stepping)

TOOLS: Final[Mapping[str, BrowserTool]] = {tool.name: tool for group in _GROUPS for tool in group.TOOLS}
"""The table."""
