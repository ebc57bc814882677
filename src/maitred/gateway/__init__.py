"""The gateway behind all surfaces: one service for each ability, and `Gateway`, which joins them.

It parses no request and prints nothing; surfaces do. It makes no concrete object; `maitred.wiring` does.
One module for each ability (`calls`, `search`, `menu`, `chains`, `admission`); `state` is what they share.
To add an ability, write its service and a method of `Gateway`, or of `Operations` if it is for operators.
"""

from maitred.admission.allow_list import KINDS as ALLOW_KINDS
from maitred.audit.line_index import NOTHING_FOUND
from maitred.audit.service import REQUEST_KEY, AuditService, known_id
from maitred.backends.base import NOT_ASKED, Caller, UnaskedCaller
from maitred.backends.forwarding_caller import ForwardingCaller
from maitred.calls.answer import Answer
from maitred.catalog.snapshot import Snapshot
from maitred.config.edit_choices import ToolChange
from maitred.disclosure.answers import ServerStatus
from maitred.disclosure.compact import compact
from maitred.disclosure.pages import PAGE_TOOLS, ToolPage
from maitred.gateway.chains import LONGEST_MS
from maitred.gateway.client_files import ClientFileChange, ClientFileState, ClientWay
from maitred.gateway.client_register import SeenClient
from maitred.gateway.gateway import Gateway
from maitred.gateway.parts import GatewayParts
from maitred.gateway.profiles import ProfileContent
from maitred.gateway.resources import ResourceService
from maitred.gateway.search import MAX_LIMIT, ToolMatch
from maitred.gateway.search_reasons import (
    ExplainedPhrase,
    Explanation,
    MovedTool,
    TrialExplanation,
    TrialText,
)
from maitred.gateway.server_control import ServerRefresh
from maitred.gateway.settings_file import SectionChange, SectionComparison, SettingsFile, SettingsSection
from maitred.gateway.stats import LEDGER_KEY
from maitred.gateway.tasks import ViewerTasks
from maitred.held_calls.binding import exact_text
from maitred.model.access import LOCAL
from maitred.model.details import Detail
from maitred.model.resources import Offer

__all__ = [
    "ALLOW_KINDS",
    "LEDGER_KEY",
    "LOCAL",
    "LONGEST_MS",
    "MAX_LIMIT",
    "NOTHING_FOUND",
    "NOT_ASKED",
    "PAGE_TOOLS",
    "REQUEST_KEY",
    "Answer",
    "AuditService",
    "Caller",
    "ClientFileChange",
    "ClientFileState",
    "ClientWay",
    "Detail",
    "ExplainedPhrase",
    "Explanation",
    "ForwardingCaller",
    "Gateway",
    "GatewayParts",
    "MovedTool",
    "Offer",
    "ProfileContent",
    "ResourceService",
    "SectionChange",
    "SectionComparison",
    "SeenClient",
    "ServerRefresh",
    "ServerStatus",
    "SettingsFile",
    "SettingsSection",
    "Snapshot",
    "ToolChange",
    "ToolMatch",
    "ToolPage",
    "TrialExplanation",
    "TrialText",
    "UnaskedCaller",
    "ViewerTasks",
    "compact",
    "exact_text",
    "known_id",
]
