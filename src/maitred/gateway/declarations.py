"""Checks the other declarations of a manifest: visibility, overrides, and a category.

The code that will use a part later reads it here, too. So a registered manifest cannot prevent a start of the
gateway. The findings belong to the layer `schema`, since they are about the meaning of keys.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from maitred.admission.findings import Finding
from maitred.admission.manifest import Manifest
from maitred.errors import ConfigError
from maitred.mediation.override_files import overrides_of
from maitred.poisoning.scan import PoisonScan
from maitred.visibility.declarations import read
from maitred.visibility.rules import RuleRegistry

_LINE: Final = re.compile(r"line \d+: ")
_LAYER: Final = "schema"


class Declarations:
    """Reads the declarations of manifests as the gateway will; `categories` are all that exist."""

    def __init__(self, rules: RuleRegistry, categories: Collection[str]) -> None:
        self._rules = rules
        self._categories = categories

    def findings(self, manifest: Manifest) -> Iterator[Finding]:
        """The faults of the declarations of a manifest."""
        yield from self._of_visibility(manifest)
        yield from self._of_overrides(manifest)
        yield from self._of_texts(manifest)
        if manifest.result_tools:
            yield Finding(
                layer=_LAYER,
                severity="ask",
                key="result_tools",
                reason="its results may bring tools that no operator approved",
                fix="leave it out, or have a person approve it",
            )
        if manifest.category and manifest.category not in self._categories:
            yield Finding(
                layer=_LAYER,
                severity="warn",
                key="category",
                reason=f"{manifest.category!r} is no category here; the tools stand where words put them",
                fix=f"choose one of {', '.join(self._categories)}",
            )

    def _of_texts(self, manifest: Manifest) -> Iterator[Finding]:
        """Scan the texts of a manifest that models read, like the texts of the server itself."""
        texts = {"overrides": manifest.overrides, "visibility": manifest.visibility}
        for found in PoisonScan().scan(manifest.name, {key: text for key, text in texts.items() if text}):
            yield Finding(
                layer=_LAYER,
                severity="warn" if found.severity == "warn" else "ask",
                key=found.where.strip("/").replace("/", "."),
                reason=f"{found.reason}: {found.excerpt!a}",
                fix=found.fix,
            )

    def _of_visibility(self, manifest: Manifest) -> Iterator[Finding]:
        if not manifest.visibility:
            return
        faults: list[tuple[str, str]] = []

        def fault(keys: Sequence[Any], message: str) -> None:
            faults.append((".".join(["visibility", *map(str, keys)]), message))

        read(manifest.visibility, self._rules, fault)
        for key, message in faults:
            yield Finding(
                layer=_LAYER, severity="refuse", key=key, reason=message, fix="`maitred docs visibility`"
            )

    def _of_overrides(self, manifest: Manifest) -> Iterator[Finding]:
        if not manifest.overrides:
            return
        try:
            overrides_of(manifest.name, manifest.overrides, categories=self._categories)
        except ConfigError as error:
            for fault in error.faults:
                said = (
                    _LINE.sub("", fault, count=1).removeprefix("overrides.").removeprefix(f"{manifest.name}.")
                )
                key, _, message = said.partition(": ")
                yield Finding(
                    layer=_LAYER,
                    severity="refuse",
                    key=f"overrides.{key}" if message else "overrides",
                    reason=message or said,
                    fix="`maitred docs mediation`",
                )
