"""What a gateway shows to monitoring, and where surfaces report requests and sessions."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from maitred.gateway.session_stubs import SessionStubs
from maitred.telemetry.activity import Activity

if TYPE_CHECKING:  # the metrics load with their first reader
    from maitred.gateway.metrics import Metrics


class ActivityMethods:
    """The methods of a gateway for monitoring."""

    _activity: Activity
    _session_stubs: SessionStubs | None

    @property
    def activity(self) -> Activity:
        """Where surfaces note what monitoring counts."""
        return self._activity

    @property
    def session_stubs(self) -> SessionStubs | None:
        """What all gateways on one store know of sessions; `None` where this one is alone."""
        return self._session_stubs

    @cached_property
    def metrics(self) -> "Metrics":
        """The metrics, which count from the first use of this attribute."""
        from maitred.gateway.metrics import Metrics  # noqa: PLC0415  # only monitoring needs prometheus-client

        gateway: Any = self
        return Metrics(gateway)
