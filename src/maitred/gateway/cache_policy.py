"""Which answers the cache may store, by the operator and the servers, and which calls make them stale."""

from maitred.calls.cache import CacheKey, cache_key, cacheable
from maitred.calls.pipeline import Call
from maitred.gateway.state import GatewayState
from maitred.gateway.visibility import VisibilityService
from maitred.model.sharing import sharer_of
from maitred.model.tasks import declares_extension
from maitred.model.tools import Tool


class CachePolicy:
    """Decides by the settings at the time of a call."""

    def __init__(self, context: GatewayState, visibility: VisibilityService) -> None:
        self._context = context
        self._visibility = visibility

    def lifetime_s(self, call: Call) -> float:
        """For how long the cache may give an answer again, in seconds; 0 unless the operator allows it.

        It is 0 for a tool that may write, unless the operator names the tool itself, and its server declares
        that it is repeatable.
        """
        lifetime_s = self._chosen_s(call.tool)
        return lifetime_s if lifetime_s > 0 and self._may_be_kept(call) else 0.0

    def _chosen_s(self, tool: Tool) -> float:
        """What the operator has chosen for the tool, or for its server."""
        choices = self._context.settings.tools
        choice = choices.get(tool.key) if choices else None
        if choice is not None and choice.cache_s is not None:
            return choice.cache_s
        spec = self._context.spec(tool.key.server)
        return spec.cache_s if spec.cache_s and tool.read_only else 0.0

    def _may_be_kept(self, call: Call) -> bool:
        tool, request = call.tool, call.request
        if request.input_responses is not None or request.request_state is not None or not cacheable(tool):
            return False
        if request.task is not None or declares_extension(request.client_capabilities):
            return False  # the answer may be a task, which belongs to one caller
        if self._visibility.changes(tool):
            return False
        return not self._context.why_not_callable(tool.server, tool.key.name)  # else the call says why

    def key(self, call: Call) -> CacheKey:
        """The key of a call: equal calls have the same server release, arguments, principal and instance."""
        tool = call.tool
        record = self._context.snapshot.servers[tool.server]
        version = f"{self._context.spec(tool.server).fingerprint}/{record.facts.version}"
        if call.chain is not None and self._context.is_composed(tool.server):
            version += "/value"  # a chain gets the plain value of a tool that the gateway runs
        instance = self._context.pool.key(tool.server, sharer_of(call.viewer))
        return cache_key(version, tool, call.arguments, call.viewer.principal, instance)

    def changes(self, tool: Tool) -> bool:
        """Whether a call of the tool may change other answers of its server."""
        return not tool.read_only or self._visibility.changes(tool)
