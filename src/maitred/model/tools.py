"""Tools as values: as a server published them (raw) and as maitred publishes them.

Nothing here knows the wire: JSON comes and goes as plain mappings, so two protocol revisions stay out of the
core. Schemas are canonical JSON *bytes*: ten thousand parsed schemas would cost ten times the memory, and
most are never read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from maitred.model.categories import UNPLACED, Placement, WrittenBy


@dataclass(frozen=True, kw_only=True, order=True, slots=True)
class ToolKey:
    """The identity of a tool, under any published name: its server and its name there."""

    server: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RawTool:
    """A tool as its server published it, without deceiving characters in its texts.

    `input_schema` and `output_schema` are any JSON value that the server sent; they may be invalid. `extra`
    has the remaining fields of the definition (icons, `_meta`, execution) for pass-through.
    """

    key: ToolKey
    title: str = ""
    description: str = ""
    input_schema: Any = None
    output_schema: Any = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mediation:
    """The changes of mediation to a tool: who made them, how sure (0 to 1), and the server's own texts.

    `title`, `description` and `input_hash` are the server's own. `rename` is a new name in place of the
    server's. `hidden` and `pinned` are wishes about the menu. `category`, `tags` and `use_cases` count if no
    person chose others. A category that the menu does not have is a group, about which `category_description`
    says more. `inferred` names the parameters of a schema that was suggested where the server declares none;
    no call is checked by it.
    """

    by: str
    confidence: float = 0.0
    title: str = ""
    description: str = ""
    input_hash: str = ""
    rename: str = ""
    hidden: bool = False
    pinned: bool = False
    category: str = ""
    tags: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    category_description: str = ""
    inferred: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool as maitred publishes it; `mending` says what differs from the server's definition.

    `input_hash` and `output_hash` name schemas in the snapshot (`""` if the server sent none). `cost_tokens`
    is the price of its whole definition in a model's context (o200k). `use_cases` are phrases of users who
    need it. `withheld` says why admission hides it, in words that follow "it"; empty if the gateway offers
    it. `since` is the UTC time from which on its server publishes it like this, and admission lets it; empty
    for tools of older catalogs.
    """

    key: ToolKey
    name: str
    title: str
    description: str
    input_hash: str
    output_hash: str
    annotations: Mapping[str, Any]
    extra: Mapping[str, Any]
    cost_tokens: int
    placement: Placement = UNPLACED
    use_cases: tuple[str, ...] = ()
    use_cases_by: WrittenBy = ""
    mending: Mediation | None = None
    withheld: str = ""
    since: str = ""

    @property
    def hashes(self) -> tuple[str, ...]:
        """The hashes of its schemas, the server's own included."""
        own = (self.mending.input_hash,) if self.mending else ()
        return (self.input_hash, self.output_hash, *own)

    @property
    def inferred(self) -> tuple[str, ...]:
        """The parameters that mediation suggests where the server declares none."""
        return self.mending.inferred if self.mending else ()

    @property
    def checked_hash(self) -> str:
        """The hash of the schema by which calls are checked: the server's own if ours is inferred."""
        return self.mending.input_hash if self.mending and self.mending.inferred else self.input_hash

    @property
    def raw(self) -> "Tool":
        """The tool as its server describes it."""
        own = self.mending
        if own is None:
            return self
        return replace(
            self, title=own.title, description=own.description, input_hash=own.input_hash, mending=None
        )

    @property
    def server(self) -> str:
        """The server of this tool."""
        return self.key.server

    @property
    def read_only(self) -> bool:
        """Whether the server says that a call changes nothing; no statement counts as no."""
        return self.annotations.get("readOnlyHint") is True

    @property
    def destructive(self) -> bool:
        """Whether a call may destroy something; no statement counts as yes (the protocol's default)."""
        return not self.read_only and self.annotations.get("destructiveHint") is not False


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call as the caller made it.

    `input_responses`, `request_state` and `client_capabilities` belong to multi-round-trip requests of the
    stateless era; the gateway relays them unchanged. `meta` is the caller's `_meta` without the keys of its
    own connection. `request_id` is the id of the caller's request, if it has one. `task` is what a client of
    the handshake era wants of a task (the field `task` of its request); on the way to the server it is not
    None if the server may answer with a task. `via` is the tool of the menu that a model called instead of
    the tool itself.
    """

    name: str
    arguments: Mapping[str, Any]
    meta: Mapping[str, Any] = field(default_factory=dict)
    input_responses: Mapping[str, Any] | None = None
    request_state: str | None = None
    client_capabilities: Mapping[str, Any] | None = None
    request_id: str = ""
    task: Mapping[str, Any] | None = None
    via: str = ""


Band = Literal["strong", "fair", "weak", "none"]
"""How well a tool, or the best tool of an answer, fits the search; `none`: there is no tool at all."""


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: Any) -> bytes:
    """Encode a JSON value so that equal values have equal bytes, whatever the order of their keys."""
    return _CANONICAL.encode(value).encode("utf-8", "surrogatepass")


def as_written(value: Any) -> bytes:
    """Encode a JSON value with its keys in their given order; people order parameters by meaning."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def content_hash(data: bytes) -> str:
    """Name a piece of content by its SHA-256, shortened to 32 hex digits."""
    return hashlib.sha256(data).hexdigest()[:32]
