"""The composition root: it alone knows concrete classes and makes a gateway of settings.

It has no rules and no state of its own. `gateway` opens everything in order, `transports` makes backends,
`isolation` what they run in, `features` the rest; `reload` follows the configuration. Heavy packages are
imported when they are needed. To add an implementation of a protocol, make it in the module of its kind.
"""

from maitred.wiring.exceptions import single_error
from maitred.wiring.features import (
    audit_key,
    bundled_embedder,
    make_credentials,
    make_placer,
    make_tables,
    open_allow_list,
    open_auditing,
    open_tokens,
)
from maitred.wiring.gateway import open_gateway
from maitred.wiring.isolation import look_at_browsers, look_at_cages
from maitred.wiring.logins import make_access, make_guarded
from maitred.wiring.references import operator_resolver
from maitred.wiring.reload import follow_settings
from maitred.wiring.storage import known_tool_names, open_store
from maitred.wiring.transports import read_definition

__all__ = [
    "audit_key",
    "bundled_embedder",
    "follow_settings",
    "known_tool_names",
    "look_at_browsers",
    "look_at_cages",
    "make_access",
    "make_credentials",
    "make_guarded",
    "make_placer",
    "make_tables",
    "open_allow_list",
    "open_auditing",
    "open_gateway",
    "open_store",
    "open_tokens",
    "operator_resolver",
    "read_definition",
    "single_error",
]
