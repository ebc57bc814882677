"""The rules that hold calls, for one state of the settings."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maitred.config.hold_rules import ARGS, SEEN_BEFORE, compile_rules, policy_text
from maitred.config.settings import HeldCallSettings, HoldRule
from maitred.model.access import Viewer
from maitred.model.held_calls import CallDecision, DeciderKind, SessionChoice
from maitred.model.tools import Tool, canonical

_CHOICES: Mapping[SessionChoice, tuple[CallDecision, ...]] = {
    "never": ("once", "refuse"),
    "same": ("once", "session", "refuse"),
    "any": ("once", "session", "any", "refuse"),
}


@dataclass(frozen=True, kw_only=True)
class HoldVerdict:
    """A call is held: by which rules and why, who decides, and what may be decided in a client session."""

    rules: tuple[str, ...]
    why: str
    by: DeciderKind
    choices: tuple[CallDecision, ...]


class HoldPolicy:
    """The rules of some settings. `version` differs if any of them does."""

    def __init__(self, settings: HeldCallSettings) -> None:
        self.settings = settings
        self.version = hashlib.sha256(policy_text(settings)).hexdigest()
        self._compiler, self._rules = compile_rules(settings.rules)
        reads = frozenset(name for one in self._rules for name in one.reads)
        self.reads_history = SEEN_BEFORE in reads
        self._reads_arguments = ARGS in reads

    def __bool__(self) -> bool:
        """Whether there are rules."""
        return bool(self._rules)

    def judge(self, values: Mapping[str, Any]) -> HoldVerdict | None:
        """Whether a call is held; `values` are those of `values_of`.

        If several rules hold it, an operator decides as soon as one of them wants that, and the narrowest
        choice counts.
        """
        size = len(canonical(values[ARGS])) if self._reads_arguments else 0
        found = [
            (one.rule, why) for one in self._rules if (why := self._compiler.why_held(one, values, size))
        ]
        if not found:
            return None
        rules = [rule for rule, _ in found]
        narrowest = min((rule.session for rule in rules), key=("never", "same", "any").index)
        return HoldVerdict(
            rules=tuple(rule.when for rule in rules),
            why="; ".join(_reason(rule, why) for rule, why in found),
            by="operator" if any(rule.by == "operator" for rule in rules) else "caller",
            choices=_CHOICES[narrowest],
        )

    def hash_of(self, verdict: HoldVerdict | None, *, in_chain: bool) -> str:
        """A hash of all rules, and of what they say of a call. An approval is bound to it.

        So an approval that a lenient rule lets a person give passes no call that a stricter one holds.
        """
        found = [list(verdict.rules), verdict.by, list(verdict.choices)] if verdict else []
        return hashlib.sha256(canonical([self.version, found, in_chain])).hexdigest()


def _reason(rule: HoldRule, why: str) -> str:
    return f"{rule.because} ({why})" if rule.because else why


def values_of(
    tool: Tool, arguments: Mapping[str, Any], viewer: Viewer, *, in_chain: bool, seen_before: bool
) -> Mapping[str, Any]:
    """The values that rules read; `docs/held-calls.md` says what each means."""
    return {
        "server": tool.server,
        "tool": tool.key.name,
        "category": tool.placement.category,
        "destructive": tool.destructive,
        "read_only": tool.read_only,
        "idempotent": tool.annotations.get("idempotentHint") is True,
        "open_world": tool.annotations.get("openWorldHint") is not False,
        ARGS: arguments,
        "principal": viewer.principal,
        "role": viewer.grant.role,
        "client": viewer.client,
        "surface": viewer.surface,
        "in_chain": in_chain,
        SEEN_BEFORE: seen_before,
    }
