"""Resources, resource templates and prompts of the servers, under names and URIs that tell the server.

What a server answers is passed on as it came; only the URIs of what was read are turned into ours, so that a
client can ask for them again. A URI that a server wrote somewhere else (in a result, in a prompt) is found
too, as long as only one server can be meant.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from maitred.backends.base import Connection
from maitred.catalog.names import RESOURCES, resource_uri, split_resource_uri
from maitred.errors import PromptNotFoundError, ResourceNotFoundError, ServerUnavailableError
from maitred.execution.subscriptions import Subscriptions
from maitred.gateway.context import Context
from maitred.model.offers import Offer, OfferKey, OfferKind

_EXPRESSION = re.compile(r"\{[^{}]*\}")
_OURS = "maitred://"


def is_ours(uri: str) -> bool:
    """Whether a URI is one of maitred itself, and not of a server behind it."""
    return uri.startswith(_OURS) and not uri.startswith(RESOURCES)


class Offers:
    """Lists and relays what servers offer besides tools."""

    def __init__(self, context: Context, subscriptions: Subscriptions) -> None:
        self._context = context
        self._subscriptions = subscriptions

    def list(self, kind: OfferKind) -> Sequence[Offer]:
        """The offers of a kind whose servers may be shown now, by published name."""
        visible = self._context.visible
        return [o for o in self._context.snapshot.offers if o.key.kind == kind and o.server in visible]

    # --- resources ----------------------------------------------------------------------------------------

    def locate(self, uri: str) -> tuple[str, str]:
        """The server of a resource and the URI it has there.

        Raises:
            ResourceNotFoundError: No server, or more than one, can be meant.
        """
        if found := split_resource_uri(uri):
            if not self._context.is_enabled(found[0]):
                raise ResourceNotFoundError(uri, hint=f"There is no server {found[0]!r}, or it is disabled.")
            return found
        if uri.startswith("maitred:"):
            raise ResourceNotFoundError(uri)
        listed = {o.server for o in self.list("resource") if o.key.key == uri}
        servers = listed or {o.server for o in self.list("template") if _matches(o.key.key, uri)}
        if len(servers) != 1:
            several = f"Several servers have it; ask for one of them as {RESOURCES}SERVER/{uri}."
            raise ResourceNotFoundError(uri, hint=several if servers else "")
        return servers.pop(), uri

    async def read(self, uri: str, also: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of `resources/read`, with the URIs that a client of ours can use.

        `also` are further parameters of the request, such as the answers to what a server asked for.

        Raises:
            ResourceNotFoundError: No server has it.
            ServerError: Its server cannot be reached, or answered with an error.
        """
        server, inner = self.locate(uri)
        result = await self._request(server, "resources/read", {**(also or {}), "uri": inner})
        contents = result.get("contents")
        if isinstance(contents, list) and uri != inner:
            result = result | {"contents": [_published(server, content) for content in contents]}
        return result

    async def hold(self, uri: str) -> Callable[[], None]:
        """Have the server tell of changes of a resource, until what is returned is called, once.

        Raises:
            ResourceNotFoundError: No server has it.
            ServerError: Its server cannot be reached, or does not tell of changes.
        """
        server, inner = self.locate(uri)
        await self._subscriptions.add(server, inner)
        return partial(self._subscriptions.remove, server, inner)

    # --- prompts and completions --------------------------------------------------------------------------

    def prompt(self, name: str) -> Offer:
        """A prompt by its published name.

        Raises:
            PromptNotFoundError: There is none.
        """
        offer = self._context.snapshot.offers_by_name.get(("prompt", name))
        if offer is None or not self._context.is_enabled(offer.server):
            raise PromptNotFoundError(name)
        return offer

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any], also: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The result of `prompts/get`; `also` as with `read`.

        Raises:
            PromptNotFoundError: There is none of this name.
            ServerError: Its server cannot be reached, or answered with an error.
        """
        offer = self.prompt(name)
        params = {**(also or {}), "name": offer.key.key, "arguments": dict(arguments)}
        return await self._request(offer.server, "prompts/get", params)

    async def complete(
        self, kind: OfferKind, name: str, argument: Mapping[str, Any], context: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """The result of `completion/complete` for an argument of a prompt or a template of a server.

        A server that completes nothing answers with no values.

        Raises:
            PromptNotFoundError: There is no such prompt.
            ResourceNotFoundError: There is no such template.
            ServerError: The server cannot be reached, or answered with an error.
        """
        if kind == "prompt":
            offer = self.prompt(name)
            ref = {"type": "ref/prompt", "name": offer.key.key}
            server = offer.server
        else:
            server, inner = self.locate(name)
            ref = {"type": "ref/resource", "uri": inner}
        params: dict[str, Any] = {"ref": ref, "argument": dict(argument)}
        if context:
            params["context"] = dict(context)
        async with self._context.pool.connection(server) as connection:
            if not connection.completes:
                return {"completion": {"values": []}}
            return await self._ask(connection, server, "completion/complete", params)

    # --- relaying -----------------------------------------------------------------------------------------

    async def _request(self, server: str, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if why := self._context.reasons().get(server, "it is not configured any more"):
            raise ServerUnavailableError(server, why)
        async with self._context.pool.connection(server) as connection:
            return await self._ask(connection, server, method, params)

    async def _ask(
        self, connection: Connection, server: str, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        timeout_s = self._context.spec(server).timeouts.call_s
        return await connection.request(method, params, timeout_s=timeout_s)

    def published_uri(self, server: str, uri: str) -> str:
        """The URI by which a client knows a resource of a server."""
        offer = self._context.snapshot.offers_by_key.get(OfferKey(server=server, kind="resource", key=uri))
        return offer.name if offer else resource_uri(server, uri)


def _published(server: str, content: Any) -> Any:
    if isinstance(content, Mapping) and isinstance(uri := content.get("uri"), str):
        return {**content, "uri": resource_uri(server, uri)}
    return content


def _matches(template: str, uri: str) -> bool:
    """Whether a URI may be one that a template stands for: its fixed parts are there, in their order."""
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
