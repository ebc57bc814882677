"""The gateway behind all surfaces; what they may know of it stands in `__all__`."""

from maitred.backends.base import Progress
from maitred.disclosure.answers import ServerStatus
from maitred.gateway.core import Gateway
from maitred.gateway.ledger import LEDGER_KEY
from maitred.gateway.menu import Detail
from maitred.gateway.offers import Offers
from maitred.gateway.parts import Parts
from maitred.model.offers import Offer
from maitred.model.principals import LOCAL

__all__ = [
    "LEDGER_KEY",
    "LOCAL",
    "Detail",
    "Gateway",
    "Offer",
    "Offers",
    "Parts",
    "Progress",
    "ServerStatus",
]
