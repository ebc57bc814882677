"""What servers offer besides tools: resources, resource templates and prompts, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

OfferKind = Literal["resource", "template", "prompt"]


@dataclass(frozen=True, kw_only=True, order=True, slots=True)
class OfferKey:
    """Which offer it is, whatever it is called: its server, its kind, and the URI or name it has there."""

    server: str
    kind: OfferKind
    key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A resource, template or prompt as its server published it, its texts cleaned of deceiving characters.

    `name` is what maitred publishes: the namespaced URI, URI template or prompt name. `definition` holds the
    fields as they came, still under the server's own name or URI. `withheld` is why admission lets nobody
    list or use it, in words that go on from "it"; empty for one that is offered.
    """

    key: OfferKey
    name: str
    definition: Mapping[str, Any] = field(default_factory=dict)
    withheld: str = ""

    @property
    def server(self) -> str:
        """The server it lives on."""
        return self.key.server
