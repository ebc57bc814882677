"""Whether the keys of a manifest fit together.

The reader has already checked each key by itself. This layer also refuses names that maitred uses itself.
"""

from collections.abc import Iterator, Sequence

from maitred.admission.checks.base import SCHEMA, LayerCheck, Policy
from maitred.admission.findings import Finding, unknown_transport
from maitred.admission.manifest import Manifest
from maitred.config.settings import SAVED
from maitred.model.transports import keys_that_do_not_fit, manifest_kind, manifest_kinds
from maitred.wording import join_with_or

_RESERVED = (SAVED, "maitred", "category", "server", "all", "none")


class SchemaCheck(LayerCheck):
    """Refuses keys that contradict each other."""

    layer = SCHEMA

    def check(self, manifest: Manifest, policy: Policy) -> Sequence[Finding]:
        """Findings about the name, the transport, and keys that do not fit the transport."""
        del policy  # the meaning of a manifest depends on no policy
        return [*self._name(manifest), *self._reach(manifest), *self._places(manifest)]

    def _name(self, manifest: Manifest) -> Iterator[Finding]:
        if manifest.name in _RESERVED:
            yield self._finding("refuse", "name", "is a name that maitred uses itself", "choose another one")

    def _reach(self, manifest: Manifest) -> Iterator[Finding]:
        name = manifest.transport
        kind = manifest_kind(name)
        if kind is None:
            yield unknown_transport(self.layer, name)
            return
        if not getattr(manifest, kind.key):
            yield self._finding(
                "refuse", kind.key, f"is missing, which a server of transport {name} needs", "add it"
            )
        elif kind.key == "url" and not kind.takes(manifest.url):
            schemes = join_with_or([f"{scheme}://" for scheme in kind.url_schemes])
            yield self._finding(
                "refuse", "url", f"does not fit the transport {name}", f"begin with {schemes}"
            )
        for key, fitting in keys_that_do_not_fit(manifest, name, manifest_kinds()):
            fix = f"it is for {join_with_or(fitting)}; leave it out"
            yield self._finding("refuse", key, f"does not fit the transport {name}", fix)

    def _places(self, manifest: Manifest) -> Iterator[Finding]:
        seen: set[str] = set()
        for at, grant in enumerate(manifest.filesystem):
            place = (grant.at or grant.path).rstrip("/")
            if place in seen:
                yield self._finding(
                    "refuse",
                    f"filesystem[{at}]",
                    "is the second grant for the same place",
                    "keep one of the two",
                )
            seen.add(place)
