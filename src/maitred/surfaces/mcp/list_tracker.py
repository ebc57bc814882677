"""Which lists differ from those that clients can have seen: the state behind notices of changed lists."""

import hashlib
from collections.abc import Sequence
from typing import Final, Literal, get_args

from maitred.gateway import Gateway
from maitred.meta_tools import menu
from maitred.model.access import Viewer

ListKind = Literal["tools", "resources", "prompts"]
Scope = tuple[str, str]

LIST_KINDS: Final[tuple[ListKind, ...]] = get_args(ListKind)

_MOST_KEPT: Final = 1_000


class ListTracker:
    """Knows which lists differ from those that viewers may have seen, by a notice or by listing them."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._of: object = None
        self._kept: dict[object, str] = {}
        self._seen: dict[Scope, dict[ListKind, set[str]]] = {}

    def begin(self, viewer: Viewer) -> None:
        """Track a viewer, who may list from now on."""
        self._seen[viewer.scope] = {kind: {self._now(kind, viewer)} for kind in LIST_KINDS}

    def doubt(self, viewer: Viewer) -> None:
        """Count all lists as changed: a viewer may have seen others than this gateway has shown."""
        if viewer.scope in self._seen:
            self._seen[viewer.scope] = {kind: {""} for kind in LIST_KINDS}

    def is_tracked(self, viewer: Viewer) -> bool:
        """Whether a viewer is tracked."""
        return viewer.scope in self._seen

    def forget(self, viewer: Viewer) -> None:
        """Stop tracking a viewer who has gone."""
        self._seen.pop(viewer.scope, None)

    def shown(self, kind: ListKind, viewer: Viewer) -> None:
        """Record that a viewer received a list in its present version."""
        if viewer.scope in self._seen:
            self._seen[viewer.scope][kind].add(self._now(kind, viewer))

    def changed(self, viewer: Viewer) -> list[ListKind]:
        """The lists to announce to a viewer; they count as announced from now on."""
        if (seen := self._seen.get(viewer.scope)) is None:
            return []
        now = {kind: self._now(kind, viewer) for kind in LIST_KINDS}
        changed = [kind for kind in LIST_KINDS if seen[kind] != {now[kind]}]
        self._seen[viewer.scope] = {kind: {now[kind]} for kind in LIST_KINDS}
        return changed

    def _now(self, kind: ListKind, viewer: Viewer) -> str:
        """A fingerprint of a list in its present version; computed once for all viewers of that list."""
        gateway = self._gateway
        mode = gateway.mode(viewer)
        if (of := gateway.version) != self._of or len(self._kept) > _MOST_KEPT:
            self._of, self._kept = of, {}
        seen_by = gateway.list_state(viewer) if kind == "tools" and mode != "menu" else None
        key = (kind, mode, viewer.grant.scope, seen_by, viewer.era)
        if key not in self._kept:
            self._kept[key] = self._fingerprint(kind, viewer)
        return self._kept[key]

    def _fingerprint(self, kind: ListKind, viewer: Viewer) -> str:
        gateway = self._gateway
        entries: Sequence[object]
        mode = gateway.mode(viewer)
        if kind == "tools" and mode == "menu":
            entries = [gateway.index(viewer)]
        elif kind == "tools":
            first = menu.with_categories(gateway, viewer) if mode == "categories" else ()
            entries = [
                *first,
                *(
                    (
                        *(t.name, t.title, t.description, gateway.requirement(t, viewer)),
                        *(t.input_hash, t.output_hash, t.annotations, t.extra),
                    )
                    for t in gateway.listed(viewer)
                ),
            ]
        elif kind == "resources":
            offers = [*gateway.offers_of("resource", viewer), *gateway.offers_of("template", viewer)]
            entries = [(offer.key.kind, offer.name, offer.definition) for offer in offers]
        else:
            entries = [(offer.name, offer.definition) for offer in gateway.offers_of("prompt", viewer)]
        digest = hashlib.sha256()
        for entry in entries:
            digest.update(repr(entry).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()
