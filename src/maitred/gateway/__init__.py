"""The gateway behind all surfaces; what they may know of it stands in `__all__`."""

from maitred.backends.base import Progress
from maitred.catalog.snapshot import Snapshot
from maitred.disclosure.answers import ServerStatus
from maitred.disclosure.menu import PAGE_TOOLS
from maitred.gateway.auditing import REQUEST_KEY, Auditing, known_id
from maitred.gateway.chains import LONGEST_MS
from maitred.gateway.core import Gateway
from maitred.gateway.finder import MAX_LIMIT
from maitred.gateway.ledger import LEDGER_KEY
from maitred.gateway.menu import Detail
from maitred.gateway.offers import Offers
from maitred.gateway.parts import Parts
from maitred.model.access import LOCAL
from maitred.model.offers import Offer

__all__ = [
    "LEDGER_KEY",
    "LOCAL",
    "LONGEST_MS",
    "MAX_LIMIT",
    "PAGE_TOOLS",
    "REQUEST_KEY",
    "Auditing",
    "Detail",
    "Gateway",
    "Offer",
    "Offers",
    "Parts",
    "Progress",
    "ServerStatus",
    "Snapshot",
    "known_id",
]
