"""Held calls as values: what a person decides about, what the decision is bound to, and what came of it."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Final, Literal

from maitred.model.tools import canonical

CallDecision = Literal["once", "session", "any", "refuse"]
"""What a person may say about a held call.

`once`: this call may be made, one time. `session`: also the same call, with these very arguments, as often as
this client session makes it. `any`: any call of this tool in this session, whatever its arguments.
"""

DECISIONS: Final[tuple[CallDecision, ...]] = ("once", "session", "any", "refuse")

HeldState = Literal["waiting", "approved", "refused", "expired", "used"]
"""`approved`: it may be made and was not yet. `used`: the approval was for one call, which was made."""

DeciderKind = Literal["caller", "operator"]
SessionChoice = Literal["never", "same", "any"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallBinding:
    """What an approval is bound to. If any of it differs, a person is asked again.

    Attributes:
        principal: Who calls.
        server: The server of the tool.
        tool: The name of the tool at its server.
        definition: A hash of the tool as its server defines it, and of how the server is reached.
        arguments: A hash of the arguments as canonical JSON.
        policy: A hash of all rules that hold calls, of those that hold this one, and of what may be decided.
    """

    principal: str
    server: str
    tool: str
    definition: str
    arguments: str
    policy: str

    @property
    def digest(self) -> str:
        """The SHA-256, in hex, of all of it."""
        return _digest(asdict(self))

    @property
    def tool_digest(self) -> str:
        """The same without the arguments, for an approval of any call of the tool."""
        return _digest({**asdict(self), "arguments": None})


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldCall:
    """A call that waits for a person, or did.

    Attributes:
        id: Its name for people, in commands and addresses.
        binding: What a decision is bound to.
        name: The published name of the tool.
        arguments: The arguments as canonical JSON; empty as soon as they are not needed any more.
        why: Why it is held: the rules, in the words of the operator.
        by: Who decides. An operator always may.
        choices: What may be decided; where a viewer looks at it, what this viewer may decide.
        session: The client session, by a hash; empty if nothing connects the client's requests.
        client: The name that the client gave itself, a claim and no proof.
        surface: Where the call came in.
        chain: The id of the chain that makes the call; empty if none does.
        request_id: The id of the request in the audit trail.
        held_at: When it was held, in UTC.
        expires_at: When it is refused if there is no decision, in UTC.
        state: What came of it.
        decision: What was decided; empty before.
        decided_by: The principal who decided.
        decided_at: When, in UTC.
    """

    id: str
    binding: CallBinding
    name: str
    arguments: str
    why: str
    by: DeciderKind
    choices: tuple[CallDecision, ...]
    session: str = ""
    client: str = ""
    surface: str = ""
    chain: str = ""
    request_id: str = ""
    held_at: str = ""
    expires_at: str = ""
    state: HeldState = "waiting"
    decision: CallDecision | Literal[""] = ""
    decided_by: str = ""
    decided_at: str = ""


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()
