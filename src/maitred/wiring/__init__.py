"""The composition root: it alone knows concrete classes, and puts a gateway together from settings.

What is slow to import is imported here when it is needed, so that `maitred --help` is quick.
"""

from maitred.wiring.admission import audit_key, make_grants, open_auditing, open_tokens
from maitred.wiring.cages import look_at_cages
from maitred.wiring.gateway import open_gateway
from maitred.wiring.plain import plainly
from maitred.wiring.reloading import follow_settings
from maitred.wiring.servers import make_access, make_guarded
from maitred.wiring.stores import open_store
from maitred.wiring.tools import bundled, make_placer, make_tables

__all__ = [
    "audit_key",
    "bundled",
    "follow_settings",
    "look_at_cages",
    "make_access",
    "make_grants",
    "make_guarded",
    "make_placer",
    "make_tables",
    "open_auditing",
    "open_gateway",
    "open_store",
    "open_tokens",
    "plainly",
]
