"""The requests and answers of the routes of admission, as OpenAPI describes them, with an example of each."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from maitred.surfaces.http.schemas import Count


class FindingResponse(BaseModel):
    """One thing that a layer found."""

    layer: str
    severity: Literal["refuse", "ask", "warn"] = Field(
        description="`refuse`: not possible; `ask`: a person has to approve it; `warn`: a remark only."
    )
    key: str = Field(description="The place in the manifest, or the part of the definition.")
    reason: str
    fix: str = Field(description="What to do about it; may be empty.")
    line: Count = Field(description="The line of the manifest; 0 where there is none.")
    file: str
    rule: str = Field(default="", description="The rule that a text or a name of the server breaks, if any.")
    place: str = Field(default="", description="Where in the definition, as a JSON pointer; may be empty.")
    excerpt: str = Field(default="", description="The text there, or the name that another one is like.")


class Layer(BaseModel):
    """What one layer found."""

    layer: str
    findings: list[FindingResponse]
    ran: bool = Field(description="False if there was nothing to check.")


class DecisionResponse(BaseModel):
    """What all layers found in a manifest, in order, and the decision that follows."""

    server: str = Field(description="The name in the manifest; empty if it could not be read.")
    manifest_hash: str
    layers: list[Layer]
    outcome: Literal["refused", "needs approval", "approved"]


class PartResponse(BaseModel):
    """A part of what a server publishes that is withheld."""

    kind: Literal["tool", "prompt", "template", "instructions"]
    name: str = Field(description="The name that the server gave it; empty for the instructions.")
    why: str


class ChangeResponse(BaseModel):
    """A difference between what was approved and what the server publishes now."""

    kind: Literal["tool", "prompt", "template", "instructions"]
    name: str
    change: str = Field(description="A stable word for its kind.")
    weight: Literal["power", "wording", "less"] = Field(
        description="Whether the change gives the server more power over its caller, less, or the same."
    )
    text: str = Field(description="The change as a sentence.")


class WaitingToolResponse(BaseModel):
    """A tool of a web page that waits for a decision, as its page defined it."""

    name: str = Field(description="Its name in the page.")
    description: str
    input_schema: dict[str, Any]
    why: str


class WaitingOriginResponse(BaseModel):
    """The tools that wait of the pages of one origin."""

    origin: str
    digest: str = Field(
        description="Send it back as `seen`, with the `origin`, to approve these tools alone."
    )
    tools: list[WaitingToolResponse]


class EventResponse(BaseModel):
    """One thing that happened to a server."""

    kind: str
    who: str
    why: str
    at: str


class RefusalOfCase(BaseModel):
    """The decision of a person that something is not to be used."""

    who: str
    why: str
    at: str


class BriefCase(BaseModel):
    """The state of a server, and the parts of it that wait for a decision."""

    server: str
    source: str = Field(description="`configuration`, or where its manifest came from.")
    state: Literal["pending", "approved", "rejected", "suspended", "withdrawn"]
    awaits: bool = Field(description="Whether a person is to decide.")
    withheld: str = Field(description="Why the whole server may not be used; empty if it may.")
    digest: str = Field(description="The digest of the case to decide on; send it back as `seen`.")
    parts: list[PartResponse]
    changes: list[ChangeResponse]
    findings: list[FindingResponse]
    origins: list[WaitingOriginResponse] = Field(
        description="Of a server of the transport `pages`: the tools that wait, by the origin of their pages."
    )
    refused: RefusalOfCase | None = Field(
        default=None,
        description="Who refused it, or what changed of it, so that it is not in use; null if no person did.",
    )


class CaseResponse(BriefCase):
    """All that is known about a server, for a decision."""

    manifest: dict[str, Any] = Field(
        description="In its normal form; empty for a server of the configuration."
    )
    record: dict[str, Any] = Field(description="What each layer found when it was registered.")
    log: list[EventResponse]


class Cases(BaseModel):
    """Servers, by name."""

    cases: list[BriefCase]


class RegistrationResponse(BaseModel):
    """The result of a registration."""

    happened: Literal["registered", "changed", "unchanged"]
    decision: DecisionResponse
    case: CaseResponse


class RefusalResponse(BaseModel):
    """Why a manifest was refused."""

    error: Literal["manifest_refused"]
    message: str
    faults: list[str] = Field(description="What is wrong: a text for each fault, with its line.")
    findings: list[FindingResponse] = Field(default=[], description="All that the layers found.")


class VerdictBody(BaseModel):
    """A decision on a server."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"verdict": "approve", "seen": "3f2a91c0d4e5", "why": "read it"}]},
    )

    verdict: Literal["approve", "reject", "suspend", "resume", "withdraw"]
    seen: str = Field(
        default="", max_length=64, description="The digest of what you looked at; an approval needs it."
    )
    why: str = Field(default="", max_length=2_000, description="A reason, for the log.")
    origin: str = Field(
        default="",
        max_length=300,
        description="Approve only the tools that web pages of this origin have now; `seen` is its digest.",
    )
    again: bool = Field(
        default=False, description="Approve it although a person refused it; without this it is an error."
    )


_ASKED: Final = {
    "layer": "network",
    "severity": "ask",
    "key": "network",
    "reason": "asks for the network exemption 'github-api'",
    "fix": "a person with the admin role may approve it",
    "line": 4,
    "file": "http",
}
_BRIEF: Final = {
    "server": "github",
    "source": "http",
    "state": "pending",
    "awaits": True,
    "withheld": "waits for approval",
    "digest": "3f2a91c0d4e5",
    "parts": [],
    "changes": [],
    "findings": [],
    "origins": [],
    "refused": None,
}
MANIFEST: Final[Any] = {
    "name": "time",
    "command": "mcp-server-time",
    "args": ["--local-timezone", "UTC"],
}
DECISION: Final[Any] = {
    "server": "github",
    "manifest_hash": "0" * 64,
    "layers": [{"layer": "network", "findings": [_ASKED], "ran": True}],  # one of several
    "outcome": "needs approval",
}
CASE: Final[Any] = _BRIEF | {
    "manifest": {"name": "github", "image": "ghcr.io/github/github-mcp-server:v1.0.0"},
    "record": DECISION,
    "log": [{"kind": "registered", "who": "local", "why": "", "at": "2026-03-01T09:30:00+00:00"}],
}
CASES: Final[Any] = {"cases": [_BRIEF]}
REGISTERED: Final[Any] = {"happened": "registered", "decision": DECISION, "case": CASE}
REFUSED: Final[Any] = {
    "error": "manifest_refused",
    "message": "The manifest is refused; nothing was registered.",
    "faults": ["http:3: memory: asks for more than a server may have (ask for at most 2 GiB of memory)"],
    "findings": [_ASKED | {"severity": "refuse"}],
}
