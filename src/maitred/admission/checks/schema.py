"""Whether the keys of a manifest fit together.

The reader has already checked each key by itself. This layer also refuses names that maitred uses itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from maitred.admission.checks.base import SCHEMA, Policy
from maitred.admission.findings import Finding, unknown_transport
from maitred.admission.manifest import Manifest, fits
from maitred.config.settings import SAVED
from maitred.model.transports import manifest_kind
from maitred.wording import join_with_or

_RESERVED = (SAVED, "maitred", "category", "server", "all", "none")


class SchemaCheck:
    """Refuses keys that contradict each other."""

    layer = SCHEMA

    def check(self, manifest: Manifest, policy: Policy) -> Sequence[Finding]:
        """Findings about the name, the transport, and keys that do not fit the transport."""
        del policy  # the meaning of a manifest depends on no policy
        return [*self._name(manifest), *self._reach(manifest), *self._places(manifest)]

    def _name(self, manifest: Manifest) -> Iterator[Finding]:
        if manifest.name in _RESERVED:
            yield self._refuse("name", "is a name that maitred uses itself", "choose another one")

    def _reach(self, manifest: Manifest) -> Iterator[Finding]:
        name = manifest.transport
        kind = manifest_kind(name)
        if kind is None:
            yield unknown_transport(self.layer, name)
            return
        if not getattr(manifest, kind.key):
            yield self._refuse(kind.key, f"is missing, which a server of transport {name} needs", "add it")
        elif kind.key == "url" and not kind.takes(manifest.url):
            schemes = join_with_or([f"{scheme}://" for scheme in kind.url_schemes])
            yield self._refuse("url", f"does not fit the transport {name}", f"begin with {schemes}")
        fit = fits()
        for one in fields(manifest):
            names = fit.get(one.name, (name,))
            if name not in names and not _is_default(one, getattr(manifest, one.name)):
                fix = f"it is for {join_with_or(names)}; leave it out"
                yield self._refuse(one.name, f"does not fit the transport {name}", fix)

    def _places(self, manifest: Manifest) -> Iterator[Finding]:
        seen: set[str] = set()
        for at, grant in enumerate(manifest.filesystem):
            place = (grant.at or grant.path).rstrip("/")
            if place in seen:
                yield self._refuse(
                    f"filesystem[{at}]", "is the second grant for the same place", "keep one of the two"
                )
            seen.add(place)

    def _refuse(self, key: str, reason: str, fix: str) -> Finding:
        return Finding(layer=self.layer, severity="refuse", key=key, reason=reason, fix=fix)


def _is_default(one: Any, value: Any) -> bool:
    return value in (one.default, (), {}, "")
