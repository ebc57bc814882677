"""Which sections of the configuration file a person may change by a page, and why the others are locked.

A page is reached with the session of an admin, and a session can be stolen. So a section is locked if with it
a stolen session could start a program, read a file, send a key elsewhere, let a caller in, or end a
protection. Where a tool is in the menu is open all the same, though rules and scopes may go by its
category. A section is also locked if the gateway reads it only when it starts. What is not in the table is
locked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_START: Final = "The gateway reads it only when it starts."
_BY_HAND: Final = "Edit the file."
_THEN_START: Final = "Edit the file, then start the gateway again: `maitred stop` ends a shared one."


@dataclass(frozen=True, kw_only=True)
class SectionRule:
    """What may be done to one section.

    `about` says what the section is for. `locked` is why it is locked, empty if a person may change it, and
    `instead` where that is done. `fixed` are keys that stay as they are nevertheless, and `why_fixed` is why.
    """

    about: str
    locked: str = ""
    instead: str = ""
    fixed: frozenset[str] = frozenset()
    why_fixed: str = ""

    @property
    def needs_start(self) -> bool:
        """Whether the gateway uses a change of the section, or some of it, only when it starts again."""
        return self.instead.startswith(_THEN_START)


RULES: Final[Mapping[str, SectionRule]] = {
    "limits": SectionRule(
        about="how long servers may take",
        fixed=frozenset({"max_starting", "max_message_bytes", "max_tools", "max_pages"}),
        why_fixed="they protect this machine, and are read only when the gateway starts",
    ),
    "disclosure": SectionRule(about="what agents see first, and by whose tokens it is counted"),
    "mediation": SectionRule(
        about="how texts of tools are made better",
        fixed=frozenset({
            "llm_provider", "model", "url", "api_key", "overrides", "overrides_url", "overrides_checksum",
        }),
        why_fixed="they say where texts and a key are sent, what a model costs, and which files are read",
    ),
    "visibility": SectionRule(about="how rules of visibility decide what clients list"),
    "supervision": SectionRule(about="how running servers are checked and started again"),
    "categories": SectionRule(about="headings of the menu"),
    "tools": SectionRule(about="what you decided about single tools"),
    "profiles": SectionRule(about="selections of tools for clients and projects"),
    "servers": SectionRule(
        about="the servers behind this gateway",
        locked="It says which programs run and which addresses are asked, with which credentials.",
        instead="`maitred add`, `maitred remove` and `maitred import` change it; a server that registers is "
        "decided on at Approvals.",
    ),
    "chains": SectionRule(
        about="saved chains",
        locked="It says which programs run, and which version of each a person reviewed.",
        instead="`maitred chains` changes it.",
    ),
    "chain": SectionRule(
        about="limits of one chain",
        locked="It limits and jails the programs that agents write. Some of it is read only at the start.",
        instead=_THEN_START,
    ),
    "admission": SectionRule(
        about="which servers get in",
        locked="It decides which servers are used without a person, and what becomes of suspicious texts.",
        instead=_BY_HAND,
    ),
    "access": SectionRule(
        about="how much each principal may call, what groups may do, and who signs in",
        locked="It lets people in and limits principals, so also one whose session was stolen.",
        instead=f"{_BY_HAND} Tokens and roles are at Access.",
    ),
    "held_calls": SectionRule(
        about="which calls wait for a person",
        locked="Without its rules, a stolen session could do what a person must approve. It also says where "
        "messages about such calls are sent.",
        instead=f"{_BY_HAND} Calls that wait are decided on at Approvals, or with `maitred calls`.",
    ),
    "audit": SectionRule(
        about="what is recorded of who did what",
        locked="A stolen session could end the record of what it does.",
        instead=_BY_HAND,
    ),
    "use_cases": SectionRule(
        about="the language model that writes use cases",
        locked="It says where a key is sent: a reference in it reads any variable or file of the gateway.",
        instead=f"{_BY_HAND} Single use cases are kept at Search.",
    ),
    "search": SectionRule(
        about="how tools are found",
        locked=f"{_START} It also says where keys are sent.",
        instead=f"{_THEN_START} Texts by which one tool is found are kept at Search.",
    ),
    "results": SectionRule(
        about="what answers of tools may have",
        locked=f"{_START} It also decides whether answers are screened and their secrets masked.",
        instead=_THEN_START,
    ),
    "cache": SectionRule(about="the memory for cached answers", locked=_START, instead=_THEN_START),
    "catalog": SectionRule(
        about="where the catalog is",
        locked=f"{_START} The catalog has approvals, tokens and the audit trail.",
        instead=_THEN_START,
    ),
    "isolation": SectionRule(
        about="the isolation of servers from a manifest",
        locked=f"{_START} It decides what their programs may reach.",
        instead=_THEN_START,
    ),
    "daemon": SectionRule(
        about="the gateway that clients share", locked=_START, instead=_THEN_START
    ),
    "http": SectionRule(
        about="how the gateway serves HTTP",
        locked=f"{_START} It decides who may enter.",
        instead=f"{_THEN_START} Tokens are made at Access.",
    ),
    "kubernetes": SectionRule(
        about="which resources of a cluster become servers",
        locked="It says which cluster is asked for servers, and with which token.",
        instead=_BY_HAND,
    ),
    "replica": SectionRule(
        about="what this process does among several gateways",
        locked=f"{_START} It says where other replicas send the calls of clients.",
        instead=_THEN_START,
    ),
    "shared": SectionRule(
        about="where several gateways share what lasts a while",
        locked=f"{_START} It has sessions of clients, and counts the limits of all gateways.",
        instead=_THEN_START,
    ),
    "registry": SectionRule(
        about="where servers are looked for",
        locked="It says which registry is asked for servers that a person then adds.",
        instead=_BY_HAND,
    ),
    "secrets": SectionRule(
        about="which programs may print secrets",
        locked=f"{_START} It says which programs run.",
        instead=f"{_THEN_START} `maitred secret` keeps secrets in the keyring.",
    ),
    "telemetry": SectionRule(
        about="where traces and metrics are sent",
        locked=f"{_START} It says where they are sent, with which credentials.",
        instead=_THEN_START,
    ),
    "usage": SectionRule(about="what use costs"),
    "upgrade": SectionRule(
        about="where newer versions of maitred are looked for",
        locked="It says which address is asked, and so whose version a person installs next.",
        instead=_BY_HAND,
    ),
}  # fmt: skip
"""Every section of a configuration file, those that a person may change first."""

UNKNOWN_RULE: Final = SectionRule(
    about="not known to this version", locked="This version does not know the section.", instead=_BY_HAND
)
"""The rule for what is not in the table."""
