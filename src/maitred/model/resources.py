"""What servers offer besides tools: resources, resource templates and prompts, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

OfferKind = Literal["resource", "template", "prompt"]


@dataclass(frozen=True, kw_only=True, order=True, slots=True)
class OfferKey:
    """The identity of an offer, under any published name: its server, its kind, and its URI or name there."""

    server: str
    kind: OfferKind
    key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A resource, template or prompt as its server published it, without deceiving characters in its texts.

    `name` is the published name: the namespaced URI, URI template or prompt name. `definition` has the fields
    as they came, with the server's own name or URI. `withheld` says why admission hides it, in words that
    follow "it"; empty if the gateway offers it.
    """

    key: OfferKey
    name: str
    definition: Mapping[str, Any] = field(default_factory=dict)
    withheld: str = ""

    @property
    def server(self) -> str:
        """The server of this offer."""
        return self.key.server
