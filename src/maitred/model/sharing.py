"""Who shares a running copy of a server: all clients, those of one project, one client, or one principal.

A copy is an *instance*, and its *share key* says whose it is. The empty key is the default instance: lists
are read from it, and callers of which no more is known use it. A key never joins two principals, except with
`share: all`. The default depends on the kind of the server, which `KNOWN` and `NAMES` list.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from maitred.model.access import LOCAL, Viewer
from maitred.model.servers import Cage, Health, ServerSpec, Share
from maitred.model.tools import canonical
from maitred.model.transports import TRANSPORTS, is_composed, reach_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharer:
    """The client for which a connection is borrowed. What is empty is not known.

    `client` identifies one client of the principal, `folder` is the absolute path that the client works in.
    """

    principal: str = ""
    client: str = ""
    folder: str = ""


NO_SHARER: Final = Sharer()
"""The gateway itself, for instance when it lists tools."""


def sharer_of(viewer: Viewer) -> Sharer:
    """The sharer that a viewer is."""
    own = viewer.start
    return Sharer(principal=viewer.principal, client=own.client or viewer.connection, folder=own.folder)


def owner_name(sharer: Sharer) -> str:
    """The principal that owns what a sharer makes; empty for the local user, who owns what no other does."""
    return "" if sharer.principal == LOCAL else sharer.principal


def share_key(share: Share, sharer: Sharer, *, personal: bool = False) -> str:
    """The key of the instance that serves a sharer; empty for the default instance.

    Of a `personal` server, whose requests carry tokens of their principal, no two principals share an
    instance. The default one is then that of the gateway itself, and serves no caller.
    """
    if personal:
        share, who = "principal" if share == "all" else share, sharer.principal
        if not who:
            return ""
    elif share == "all":
        return ""
    else:
        who = owner_name(sharer)
    part = {"principal": "", "project": sharer.folder, "client": sharer.client}[share]
    return canonical([share, who, part]).decode() if who or part else ""


class Sharing(NamedTuple):
    """How a server is shared, and why, in words that follow "since"."""

    share: Share
    why: str


UNSHARED: Final = Sharing("all", "nothing else is known of it")


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One running copy of a server, beside the default one. `note` is what the operator should know."""

    sharer: Sharer
    health: Health
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return what a program may want to know."""
        health = self.health
        return {
            "owner": self.owner,
            "principal": self.sharer.principal,
            "folder": self.sharer.folder,
            "state": health.state.value,
            "since": health.since,
            "pid": health.pid,
            "starts": health.starts,
            "restarts": health.restarts,
            "ended": health.ended,
            "error": health.error,
            "note": self.note,
        }

    @property
    def owner(self) -> str:
        """Whose it is, in short."""
        who = "" if self.sharer.principal in ("", LOCAL) else self.sharer.principal
        client = f"client {self.sharer.client[:8]}" if self.sharer.client else ""
        return ", ".join(filter(None, (who, client, self.sharer.folder))) or "a client"


_BROWSER: Final = "it drives a browser"
_FILES: Final = "it works on the files of a folder"
_GIT: Final = "it works on a repository"
_CODE: Final = "it indexes the code of a project"

KNOWN: Final[Mapping[str, Sharing]] = {
    "@playwright/mcp": Sharing("client", _BROWSER),
    "@executeautomation/playwright-mcp-server": Sharing("client", _BROWSER),
    "playwright-mcp": Sharing("client", _BROWSER),
    "mcp-server-playwright": Sharing("client", _BROWSER),
    "chrome-devtools-mcp": Sharing("client", _BROWSER),
    "@browsermcp/mcp": Sharing("client", _BROWSER),
    "@modelcontextprotocol/server-puppeteer": Sharing("client", _BROWSER),
    "mcp-server-puppeteer": Sharing("client", _BROWSER),
    "@agent-infra/mcp-server-browser": Sharing("client", _BROWSER),
    "@browserbasehq/mcp": Sharing("client", _BROWSER),
    "@browserbasehq/mcp-server-browserbase": Sharing("client", _BROWSER),
    "mcp/playwright": Sharing("client", _BROWSER),
    "mcp/puppeteer": Sharing("client", _BROWSER),
    "mcr.microsoft.com/playwright/mcp": Sharing("client", _BROWSER),
    "@modelcontextprotocol/server-filesystem": Sharing("project", _FILES),
    "mcp-server-filesystem": Sharing("project", _FILES),
    "rust-mcp-filesystem": Sharing("project", _FILES),
    "mcp-server-git": Sharing("project", _GIT),
    "@cyanheads/git-mcp-server": Sharing("project", _GIT),
    "git-mcp-server": Sharing("project", _GIT),
    "serena": Sharing("project", _CODE),
    "serena-mcp-server": Sharing("project", _CODE),
    "mcp-gopls": Sharing("project", _CODE),
    "mcp-language-server": Sharing("project", _CODE),
    "@colbymchenry/codegraph": Sharing("project", _CODE),
    "codegraph": Sharing("project", _CODE),
    "@zilliz/claude-context-mcp": Sharing("project", _CODE),
    "code-index-mcp": Sharing("project", _CODE),
}
"""Known programs, packages and images, by the word of the command line that names them."""

NAMES: Final[Mapping[str, Sharing]] = {
    "playwright": Sharing("client", _BROWSER),
    "playwright mcp": Sharing("client", _BROWSER),
    "chrome_devtools": Sharing("client", _BROWSER),
    "chrome devtools mcp server": Sharing("client", _BROWSER),
    "browser mcp": Sharing("client", _BROWSER),
    "puppeteer": Sharing("client", _BROWSER),
    "secure-filesystem-server": Sharing("project", _FILES),
    "filesystem": Sharing("project", _FILES),
    "mcp-git": Sharing("project", _GIT),
    "serena": Sharing("project", _CODE),
    "mcp-language-server": Sharing("project", _CODE),
    "codegraph": Sharing("project", _CODE),
    "codeindexer": Sharing("project", _CODE),
}
"""The names and titles by which known servers introduce themselves, in lower case."""

_ENDINGS: Final = re.compile(r"\.(?:exe|cmd|bat|js|mjs|cjs|py)$")


def sharing_of(spec: ServerSpec, title: str = "") -> Sharing:
    """How a server is shared: as configured, else by its command line, else by its own name or `title`."""
    if is_composed(spec.transport):
        return Sharing("all", "the gateway runs it")
    if spec.is_personal or spec.share != "auto":
        return _chosen(spec)
    if (kind := TRANSPORTS.get(spec.transport)) is not None and kind.of_client:
        return Sharing("client", _BROWSER)
    for word in (spec.command, *spec.args, spec.image):
        if (found := KNOWN.get(_package(word))) is not None:
            return found
    if (found := NAMES.get(title.strip().lower())) is not None:
        return Sharing(found.share, f"{found.why}, by its own name {title!r}")
    return UNSHARED


def _chosen(spec: ServerSpec) -> Sharing:
    if spec.is_personal and spec.share in ("auto", "all"):
        return Sharing("principal", "each principal has its own login")
    return Sharing("all" if spec.share == "auto" else spec.share, "it is configured so")


def _package(word: str) -> str:
    """The package, program or image that a word of a command line may name, without path and version."""
    name = word.strip()
    if name.startswith(("/", ".", "~")) or "\\" in name:
        name = re.split(r"[/\\]", name)[-1]
    name = _ENDINGS.sub("", name.partition("==")[0])
    head, at, _ = name.rpartition("@")
    name = head if at and head else name
    return re.sub(r"(?<=[^:/]):[\w.\-]+$", "", name)


def follows_folder(share: Share) -> bool:
    """Whether an instance works in the folder of its client."""
    return share in ("project", "client")


def in_folder(spec: ServerSpec, sharer: Sharer, share: Share, *, quoted: str) -> tuple[ServerSpec, str]:
    """The specification of an instance that runs in its client's folder, with a note if it cannot run there.

    `quoted` is that folder as a configuration writes it. A `cwd` of the configuration wins.
    """
    if not (sharer.folder and follows_folder(share)) or reach_of(spec.transport) != "program" or spec.cwd:
        return spec, ""
    if spec.cage is not None and not _is_granted(spec.cage, sharer.folder):
        return spec, f"its jail does not grant {sharer.folder}, so it does not run there"
    return replace(spec, cwd=quoted), ""


def _is_granted(cage: Cage, folder: str) -> bool:
    """Whether a jail shows a folder at its own place."""
    grants = (mount.path for mount in cage.mounts if mount.at == mount.path)
    return any(PurePath(folder).is_relative_to(path) for path in grants)
