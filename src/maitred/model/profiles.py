"""Profiles: named selections of tools, which a client or a project takes instead of the whole catalog.

A profile narrows what a grant covers and never widens it. It is no right: the client chooses it, and a client
without a profile has all that its grant covers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from maitred.errors import ProfileNotFoundError
from maitred.model.access import Grant
from maitred.model.tools import Tool
from maitred.wording import near_names

ProfileMode = Literal["", "auto", "menu", "all", "categories"]
"""What the list of a client shows; empty leaves it to the section `disclosure`."""

_SLASH = "/"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A selection; a tool has to be within every limit that is set, and `None` is no limit.

    `categories` include those below them; a sub-category may be named, too. `tools` and `exclude` are
    patterns of `server/tool`, or of published names. A tool is within `tags` if it has one of them, in the
    form `dimension:tag`.
    """

    servers: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    read_only: bool = False
    mode: ProfileMode = ""

    def selects(self, tool: Tool) -> bool:
        """Whether a tool is in it; `categories` must include those below them already."""
        placement = tool.placement
        return (
            (self.servers is None or tool.server in self.servers)
            and (
                self.categories is None
                or placement.category in self.categories
                or placement.subcategory in self.categories
            )
            and (self.tools is None or _fits(tool, self.tools))
            and (self.tags is None or not frozenset(self.tags).isdisjoint(placement.tags))
            and (tool.read_only or not self.read_only)
            and not _fits(tool, self.exclude)
        )

    def selects_server(self, name: str, tools: Sequence[Tool]) -> bool:
        """Whether a server is in it, with its resources and prompts: if one of its `tools` is.

        A server without known tools is in it unless `servers`, `categories`, `tools` or `tags` leave it out.
        """
        if tools:
            return any(map(self.selects, tools))
        if self.servers is not None and name not in self.servers:
            return False
        if self.categories is not None or self.tags is not None:
            return False
        patterns = self.tools
        return patterns is None or any(
            fnmatchcase(name, pattern.partition(_SLASH)[0]) for pattern in patterns if _SLASH in pattern
        )


Profiles = Mapping[str, Profile]


def narrow_to_profile(grant: Grant, name: str, profiles: Profiles) -> Grant:
    """The grant within a profile; without a name, the grant as it is.

    Raises:
        ProfileNotFoundError: There is no such profile.
    """
    if not name:
        return grant
    if name not in profiles:
        raise ProfileNotFoundError(name, nearest=near_names(name, profiles), known=list(profiles))
    chosen = tuple(dict.fromkeys([*grant.scope.profiles, name]))
    return replace(grant, scope=replace(grant.scope, profiles=chosen))


def mode_of_profiles(names: Sequence[str], profiles: Profiles) -> ProfileMode:
    """The mode of the last of some profiles that names one; empty if none does."""
    modes = [profiles[name].mode for name in names if name in profiles]
    return next((mode for mode in reversed(modes) if mode), "")


def _fits(tool: Tool, patterns: Sequence[str]) -> bool:
    own = f"{tool.server}{_SLASH}{tool.key.name}"
    return any(fnmatchcase(own if _SLASH in pattern else tool.name, pattern) for pattern in patterns)
