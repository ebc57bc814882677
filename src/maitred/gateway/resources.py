"""Resources, resource templates and prompts of the servers, under names and URIs that contain the server.

Answers of servers are passed on unchanged. Only the URIs of read contents become URIs of the gateway, so that
a client can read them again. A URI that a server wrote elsewhere (in a result, in a prompt) is found, too, if
only one server can have it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from maitred.audit.service import AuditService
from maitred.backends.base import NOT_ASKED, Caller, Connection
from maitred.calls.rounds import RecordedCaller, finish_rounds
from maitred.calls.screening import AnswerScreen
from maitred.calls.subscriptions import Subscriptions
from maitred.catalog.names import RESOURCES, resource_uri, split_resource_uri
from maitred.errors import (
    PromptNotFoundError,
    ResourceNotFoundError,
    ServerUnavailableError,
    ToolWithheldError,
)
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.resources import Offer, OfferKind
from maitred.model.sharing import sharer_of

_EXPRESSION = re.compile(r"\{[^{}]*\}")
_OURS = "maitred://"


def is_ours(uri: str) -> bool:
    """Whether a URI is one of maitred itself, and not of a server behind it."""
    return uri.startswith(_OURS) and not uri.startswith(RESOURCES)


class ResourceService:
    """Lists and relays what servers offer besides tools."""

    def __init__(
        self,
        context: GatewayState,
        subscriptions: Subscriptions,
        auditing: AuditService,
        screen: AnswerScreen,
    ) -> None:
        self._context = context
        self._subscriptions = subscriptions
        self._auditing = auditing
        self._screen = screen

    def list(self, kind: OfferKind) -> Sequence[Offer]:
        """The offers of a kind whose servers may be shown now, by published name."""
        visible = self._context.visible
        offers = self._context.snapshot.offers
        return [o for o in offers if o.key.kind == kind and o.server in visible and not o.withheld]

    # --- resources ----------------------------------------------------------------------------------------

    def locate(self, uri: str) -> tuple[str, str]:
        """The server of a resource and the URI it has there.

        Raises:
            ResourceNotFoundError: No server can have it, or more than one.
            ToolWithheldError: It may not be used now; the text says why.
        """
        if found := split_resource_uri(uri):
            if not self._context.is_enabled(found[0]):
                raise ResourceNotFoundError(uri, hint=f"There is no server {found[0]!r}, or it is disabled.")
            self._check(self._fitting(found[1], found[0]), found[1])
            return found
        if uri.startswith("maitred:"):
            raise ResourceNotFoundError(uri)
        listed = {o.server for o in self.list("resource") if o.key.key == uri}
        servers = listed or {o.server for o in self.list("template") if _matches(o.key.key, uri)}
        self._check([o for o in self._fitting(uri) if not servers or o.server in servers], uri)
        if len(servers) != 1:
            several = f"Several servers have it; ask for one of them as {RESOURCES}SERVER/{uri}."
            raise ResourceNotFoundError(uri, hint=several if servers else "")
        return servers.pop(), uri

    def _fitting(self, uri: str, server: str = "") -> Sequence[Offer]:
        """The resources of a URI, or else the templates that match it, also withheld ones."""
        offers = [o for o in self._context.snapshot.offers if o.server == server or not server]
        exact = [o for o in offers if o.key.kind == "resource" and o.key.key == uri]
        return exact or [o for o in offers if o.key.kind == "template" and _matches(o.key.key, uri)]

    def _check(self, fitting: Sequence[Offer], uri: str) -> None:
        """Refuse a URI that only withheld resources have. An unlisted URI may be used."""
        if fitting and all(o.withheld for o in fitting):
            raise ToolWithheldError(uri, f"it {fitting[0].withheld}", what="Resource")

    async def read(
        self,
        uri: str,
        also: Mapping[str, Any] | None = None,
        *,
        viewer: Viewer,
        caller: Caller = NOT_ASKED,
    ) -> dict[str, Any]:
        """The result of `resources/read`, with URIs that a client of the gateway can use.

        `also` are further parameters of the request, such as answers to questions of the server. `caller` is
        whom the server may ask meanwhile.

        Raises:
            NotAllowedError: The viewer may not call.
            ResourceNotFoundError: No server has it.
            ServerError: Its server cannot be reached, or answered with an error.
        """
        self._auditing.require(viewer, "call")
        async with self._auditing.request("read", uri, viewer, also) as entry:
            server, inner = self.locate(uri)
            entry.means(server, inner)
            params = {**(also or {}), "uri": inner}
            recheck = partial(self.locate, uri)
            asked = RecordedCaller(caller, entry.note_question)
            result = await self._request(server, "resources/read", params, recheck, viewer, asked)
            await entry.ended(result)
        result = await self._screen.screened(result, server, kind="contents")
        contents = result.get("contents")
        if isinstance(contents, list) and uri != inner:
            result = result | {"contents": [_published(server, content) for content in contents]}
        return result

    async def hold(self, uri: str, *, viewer: Viewer) -> Callable[[], None]:
        """Subscribe to changes of a resource at its server, until the returned function is called, once.

        Raises:
            NotAllowedError: The viewer may not call.
            ResourceNotFoundError: No server has it.
            ServerError: Its server cannot be reached, or does not report changes.
        """
        self._auditing.require(viewer, "call")
        server, inner = self.locate(uri)
        sharer = sharer_of(viewer)
        key = self._context.keeper.connections.key(server, sharer)
        await self._subscriptions.add(server, inner, sharer)
        return partial(self._subscriptions.remove, server, inner, key)

    # --- prompts and completions --------------------------------------------------------------------------

    def prompt(self, name: str) -> Offer:
        """A prompt by its published name.

        Raises:
            PromptNotFoundError: There is none.
            ToolWithheldError: It may not be used now; the text says why.
        """
        offer = self._context.snapshot.offers_by_name.get(("prompt", name))
        if offer is None or not self._context.is_enabled(offer.server):
            raise PromptNotFoundError(name)
        if offer.withheld:
            raise ToolWithheldError(name, f"it {offer.withheld}", what="Prompt")
        return offer

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any],
        also: Mapping[str, Any] | None = None,
        *,
        viewer: Viewer,
        caller: Caller = NOT_ASKED,
    ) -> dict[str, Any]:
        """The result of `prompts/get`; `also` and `caller` as with `read`.

        Raises:
            NotAllowedError: The viewer may not call.
            PromptNotFoundError: There is none of this name.
            ServerError: Its server cannot be reached, or answered with an error.
        """
        self._auditing.require(viewer, "call")
        async with self._auditing.request("prompt", name, viewer, also, arguments) as entry:
            offer = self.prompt(name)
            entry.means(offer.server, offer.key.key)
            params = {**(also or {}), "name": offer.key.key, "arguments": dict(arguments)}
            recheck = partial(self.prompt, name)
            asked = RecordedCaller(caller, entry.note_question)
            result = await self._request(offer.server, "prompts/get", params, recheck, viewer, asked)
            await entry.ended(result)
        return await self._screen.screened(result, offer.server, kind="messages")

    async def complete(
        self,
        kind: OfferKind,
        name: str,
        argument: Mapping[str, Any],
        context: Mapping[str, Any] | None,
        *,
        viewer: Viewer,
        caller: Caller = NOT_ASKED,
    ) -> dict[str, Any]:
        """The result of `completion/complete` for an argument of a prompt or a template of a server.

        A server that completes nothing answers with no values.

        Raises:
            NotAllowedError: The viewer may not call.
            PromptNotFoundError: There is no such prompt.
            ResourceNotFoundError: There is no such template.
            ToolWithheldError: It may not be used now; the text says why.
            ServerError: The server cannot be reached, or answered with an error.
        """
        self._auditing.require(viewer, "call")
        async with self._auditing.request("complete", name, viewer, arguments=dict(argument)) as entry:
            server, inner, ref = self._reference(kind, name)
            entry.means(server, inner)
            params: dict[str, Any] = {"ref": ref, "argument": dict(argument)}
            if context:
                params["context"] = dict(context)
            result: dict[str, Any] = {"completion": {"values": []}}
            sharer = sharer_of(viewer)
            async with self._context.keeper.connections.connection(server, sharer) as connection:
                self._reference(kind, name)  # the server may have been started, and its prompts may differ
                if connection.completes:
                    result = await self._ask(connection, server, "completion/complete", params, caller)
            await entry.ended(result)
        return await self._screen.screened(result, server, kind="completion")

    def _reference(self, kind: OfferKind, name: str) -> tuple[str, str, dict[str, str]]:
        """The server of a prompt or a template, its name there, and the reference to it for a request."""
        if kind == "prompt":
            offer = self.prompt(name)
            return offer.server, offer.key.key, {"type": "ref/prompt", "name": offer.key.key}
        server, inner = self.locate(name)
        if not self._fitting(inner, server):
            raise ResourceNotFoundError(name)
        return server, inner, {"type": "ref/resource", "uri": inner}

    # --- relaying -----------------------------------------------------------------------------------------

    async def _request(
        self,
        server: str,
        method: str,
        params: Mapping[str, Any],
        recheck: Callable[[], object],
        viewer: Viewer,
        caller: Caller,
    ) -> dict[str, Any]:
        """Send a request to a server. `recheck` raises if a start of the server withheld its subject."""
        if why := self._context.reasons().get(server, "it is not configured any more"):
            raise ServerUnavailableError(server, why)
        async with self._context.keeper.connections.connection(server, sharer_of(viewer)) as connection:
            recheck()
            return await self._ask(connection, server, method, params, caller)

    async def _ask(
        self, connection: Connection, server: str, method: str, params: Mapping[str, Any], caller: Caller
    ) -> dict[str, Any]:
        timeout_s = self._context.spec(server).timeouts.call_s
        async with self._screen.errors():

            async def again(responses: Mapping[str, Any], state: str | None) -> dict[str, Any]:
                asked = {**params, "inputResponses": responses} | ({"requestState": state} if state else {})
                return await connection.request(method, asked, timeout_s=timeout_s, caller=caller)

            result = await connection.request(method, params, timeout_s=timeout_s, caller=caller)
            return await finish_rounds(server, result, caller, again)


def _published(server: str, content: Any) -> Any:
    if isinstance(content, Mapping) and isinstance(uri := content.get("uri"), str):
        return {**content, "uri": resource_uri(server, uri)}
    return content


def _matches(template: str, uri: str) -> bool:
    """Whether a URI may be one of a template: it has the fixed parts of the template, in their order."""
    first, *rest = _EXPRESSION.split(template)
    if not rest:
        return uri == template
    *middle, last = rest
    if not uri.startswith(first) or not uri.endswith(last):
        return False
    at = len(first)
    for part in middle:
        at = uri.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return at <= len(uri) - len(last)
