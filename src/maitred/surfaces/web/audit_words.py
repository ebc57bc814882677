"""The words by which pages show the acts and outcomes of the audit trail: one entry a kind.

The trail, the command line and the API have the codes; `docs/audit.md` lists them. A code without an entry
is shown with spaces in place of its dots and underscores.
"""

from collections.abc import Mapping
from typing import Final, Literal

from maitred.audit.line_index import SUCCESSES

Tone = Literal["good", "warn", "bad", "quiet"]

ACTS: Final[Mapping[str, str]] = {
    "call": "call",
    "chain": "run a chain",
    "search": "search",
    "info": "read definitions",
    "browse": "list tools",
    "category": "open a category",
    "page": "read the next page",
    "read": "read a resource",
    "prompt": "get a prompt",
    "complete": "complete a value",
    "call.hold": "hold a call for a person",
    "call.approve": "approve a held call",
    "call.refuse": "refuse a held call",
    "call.expire": "end a held call undecided",
    "approve": "approve a server",
    "reject": "refuse a server",
    "suspend": "suspend a server",
    "resume": "resume a server",
    "register": "register a server",
    "withdraw": "withdraw a server",
    "restart": "restart a server",
    "recover": "server runs again",
    "token.create": "make an access token",
    "token.revoke": "revoke an access token",
    "sign_in": "sign in",
    "principal.suspend": "suspend a principal",
    "principal.resume": "resume a principal",
    "mediation.accept": "accept a mediated text",
    "mediation.reject": "reject a mediated text",
    "mediation.unset": "drop a choice about a text",
    "override.keep": "write texts for a tool",
    "override.drop": "drop texts for a tool",
    "tool.change": "decide about a tool",
    "server.switch": "switch a server off or on",
    "server.restart": "restart a server",
    "settings.apply": "change the settings",
    "client.connect": "connect a client",
    "client.disconnect": "disconnect a client",
    "allow.add": "add to the allow list",
    "allow.remove": "remove from the allow list",
    "audit": "use the audit trail",
    "audit.export": "export the audit trail",
    "prune": "drop old lines",
    "lose": "lose lines",
    "read-withheld": "read a withheld answer",
    "see": "look at tools",
    "watch": "watch servers",
    "operate": "operate servers",
    "grant": "manage access tokens",
    "configure": "change the configuration",
}
"""By action."""

_OUTCOMES: Final[Mapping[str, tuple[str, Tone]]] = {
    "ok": ("ok", "good"),
    "begun": ("begun, no end yet", "quiet"),
    "held": ("held for a person", "warn"),
    "input_required": ("server asks back", "quiet"),
    "nothing_found": ("nothing found", "quiet"),
    "registered": ("registered", "good"),
    "changed": ("registered again", "good"),
    "tool_error": ("error of the tool", "bad"),
    "cancelled": ("given up by its caller", "bad"),
    "expired": ("no person decided", "bad"),
    "refused": ("refused", "bad"),
    "not_allowed": ("not allowed", "bad"),
    "sign_in_failed": ("not signed in", "bad"),
    "principal_refused": ("refused", "bad"),
    "call_not_approved": ("not approved", "bad"),
    "tool_not_found": ("no such tool", "bad"),
    "tool_withheld": ("tool is withheld", "bad"),
    "arguments_invalid": ("wrong arguments", "bad"),
    "call_timeout": ("took too long", "bad"),
    "server_unavailable": ("server not available", "bad"),
    "connection_lost": ("connection lost", "bad"),
    "syntax": ("mistake in the program", "bad"),
    "type": ("mistake in the program", "bad"),
    "runtime": ("program failed", "bad"),
    "timeout": ("took too long", "bad"),
    "memory": ("took too much memory", "bad"),
    "calls": ("made too many calls", "bad"),
    "size": ("answer is too large", "bad"),
    "crashed": ("sandbox ended", "bad"),
    "audit_failed": ("could not be recorded", "bad"),
    "internal": ("fault of the gateway", "bad"),
}
"""By outcome: words, and the tone of their sign."""


def act_text(action: object) -> str:
    """An action of the trail in words."""
    return ACTS.get(str(action)) or _spaced(str(action))


def outcome_text(outcome: object) -> str:
    """An outcome of the trail in words; an empty one is `ok`."""
    code = str(outcome or "ok")
    return _OUTCOMES[code][0] if code in _OUTCOMES else _spaced(code)


def outcome_tone(outcome: object) -> Tone:
    """The tone of an outcome: what waits is no success yet, and what no person answered is none."""
    code = str(outcome or "ok")
    return _OUTCOMES[code][1] if code in _OUTCOMES else "good" if code in SUCCESSES else "bad"


def _spaced(code: str) -> str:
    return code.replace("_", " ").replace(".", " ").replace("-", " ")
