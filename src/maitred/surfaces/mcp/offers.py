"""Requests about resources, prompts and completions: our own are answered, those of servers are relayed.

A server's answer goes through the SDK, which drops fields that the client's revision does not know. Errors
follow the client's revision, also where the server speaks another. Lists come in pages with cursors. One
malformed definition of one server would make a whole list invalid. So each definition is checked alone and
loses the parts that the client's revision forbids.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import unquote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from maitred.errors import (
    CursorError,
    MaitredError,
    NotFoundError,
    PromptNotFoundError,
    ProtocolError,
    ResourceNotFoundError,
)
from maitred.gateway import Caller, Gateway, Offer
from maitred.model.access import Viewer
from maitred.model.resources import OfferKind
from maitred.surfaces.mcp.caller import HandshakeCaller, StatelessCaller, caller_of
from maitred.surfaces.mcp.completions import OwnCompletions, limit_values
from maitred.surfaces.mcp.identity import Viewers
from maitred.surfaces.mcp.list_pages import PROMPTS, RESOURCES, TEMPLATES, ProtocolList, page_of
from maitred.surfaces.mcp.list_tracker import ListTracker
from maitred.surfaces.mcp.parked_calls import ParkableRequest, ParkedCalls
from maitred.surfaces.mcp.prompts import OwnPrompts
from maitred.surfaces.mcp.resources import OwnResources
from maitred.surfaces.mcp.result_shape import for_revision
from maitred.wording import quote_input

_ENVELOPE: Mapping[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def acceptable(listed: ProtocolList, definition: Mapping[str, Any], version: str) -> dict[str, Any]:
    """A definition that the protocol revision allows: as registered, or without the parts that it forbids."""
    candidate = dict(definition)
    for part in (None, *listed.doubtful):
        if part is not None:
            candidate = {**listed.bare, **{k: v for k, v in candidate.items() if k != part}}
        try:
            validate_server_result(listed.method, version, {**_ENVELOPE, listed.field: [candidate]})
        except ValidationError:
            continue
        return candidate
    return {**{key: definition[key] for key in listed.keys}, **listed.bare}


def page_at(
    listed: ProtocolList,
    own: Sequence[Mapping[str, Any]],
    offers: Sequence[Offer],
    cursor: str | None,
    version: str,
) -> dict[str, Any]:
    """A page of a list from a cursor on.

    Raises:
        MCPError: The cursor is not ours.
    """
    return page_of(listed, own, offers, unquote(read_cursor(cursor)), partial(acceptable, version=version))


def read_cursor(cursor: str | None) -> str:
    """The name after which a page starts.

    Raises:
        MCPError: The cursor is not ours.
    """
    if cursor is None:
        return ""
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        raise MCPError(
            INVALID_PARAMS, f"{quote_input(cursor)} is not a cursor of this server; list from the start"
        ) from None


Context = ServerRequestContext[Any, Any]

_NOT_FOUND_BEFORE: Final = -32002
_RELAYED: Final = ("inputResponses", "requestState", "_meta")


class Send(Protocol):
    """Sends a request to its server for a caller."""

    async def __call__(self, *, caller: Caller) -> dict[str, Any]:
        """Return the server's answer."""
        ...


class OfferHandler:
    """Handles the requests of clients for a gateway; `lists` records which viewer received which list."""

    def __init__(self, gateway: Gateway, lists: ListTracker, viewers: Viewers, parked: ParkedCalls) -> None:
        self._gateway = gateway
        self._parked = parked
        self._lists = lists
        self._viewers = viewers
        self._resources = OwnResources(gateway)
        self._prompts = OwnPrompts(gateway, self._resources)
        self._completions = OwnCompletions(gateway)

    def register(self, server: Server[Any]) -> None:
        """Register the handlers of these requests at a server."""
        paginated = types.PaginatedRequestParams
        server.add_request_handler(RESOURCES.method, paginated, self._list_resources)
        server.add_request_handler(TEMPLATES.method, paginated, self._list_templates)
        server.add_request_handler(PROMPTS.method, paginated, self._list_prompts)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        server.add_request_handler("completion/complete", types.CompleteRequestParams, self._complete)

    def _caller(self, ctx: Context, viewer: Viewer) -> HandshakeCaller | StatelessCaller:
        return caller_of(ctx, viewer, self._gateway.answer_s)

    async def _parkable(
        self, ctx: Context, viewer: Viewer, name: str, arguments: Mapping[str, Any], send: Send
    ) -> dict[str, Any]:
        """The result of a request, which is parked if its server asks a client that takes no requests."""
        caller = self._caller(ctx, viewer)
        if not isinstance(caller, StatelessCaller):
            return await send(caller=caller)
        params = ctx.params or {}
        request = ParkableRequest(
            principal=viewer.principal,
            method=ctx.method,
            name=name,
            arguments=arguments,
            request_state=params.get("requestState"),
            input_responses=params.get("inputResponses"),
        )
        if request.continues or caller.can_answer:
            return await self._parked.answer(request, caller, partial(send, caller=caller))
        return await send(caller=caller)

    # --- lists --------------------------------------------------------------------------------------------

    async def _list_resources(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        viewer = self._viewers.of(ctx)
        offers = await self._offers("resource", viewer)
        self._lists.shown("resources", viewer)
        return page_at(RESOURCES, self._resources.listed(viewer), offers, params.cursor, ctx.protocol_version)

    async def _list_templates(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        viewer = self._viewers.of(ctx)
        offers = await self._offers("template", viewer)
        self._lists.shown("resources", viewer)
        own = self._resources.templates(viewer)
        return page_at(TEMPLATES, own, offers, params.cursor, ctx.protocol_version)

    async def _list_prompts(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        viewer = self._viewers.of(ctx)
        offers = await self._offers("prompt", viewer)
        self._lists.shown("prompts", viewer)
        return page_at(PROMPTS, self._prompts.listed(viewer), offers, params.cursor, ctx.protocol_version)

    async def _offers(self, kind: OfferKind, viewer: Viewer) -> list[Offer]:
        """The offers of the servers; waits for a limited time for unknown ones, like `tools/list`."""
        disclosure = self._gateway.settings.disclosure
        if disclosure.mode != "menu":
            await self._gateway.settled(disclosure.first_list_wait_s)
        return list(self._gateway.offers_of(kind, viewer))

    # --- resources ----------------------------------------------------------------------------------------

    async def _read(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        try:
            viewer = self._viewers.of(ctx)
            if own := await self._resources.read(uri, viewer):
                return own.to_result()
            offers = self._gateway.offers(viewer)
            read = partial(offers.read, uri, _relayed(ctx), viewer=viewer)
            result = await self._parkable(ctx, viewer, uri, {}, read)
        except (MaitredError, MCPError) as error:
            raise resource_error(error, uri, ctx.protocol_version) from error
        fresh = {"ttlMs": 0, "cacheScope": "private"}
        return for_revision("resources/read", ctx.protocol_version, result, fresh)

    async def text_of(self, uri: str, viewer: Viewer) -> str:
        """The present text of a resource of ours.

        Raises:
            NotFoundError: It does not exist for the viewer.
            NotAllowedError: The viewer may not read it.
            CursorError: The resource has no such page.
        """
        content = await self._resources.read(uri, viewer)
        return content.text if content else ""

    # --- prompts ------------------------------------------------------------------------------------------

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> dict[str, Any]:
        arguments = params.arguments or {}
        try:
            viewer = self._viewers.of(ctx)
            if own := await self._prompts.get(params.name, arguments, viewer):
                return own
            offers = self._gateway.offers(viewer)
            get = partial(offers.get_prompt, params.name, arguments, _relayed(ctx), viewer=viewer)
            result = await self._parkable(ctx, viewer, params.name, arguments, get)
        except MaitredError as error:
            raise _prompt_error(error) from error
        return for_revision("prompts/get", ctx.protocol_version, result, {})

    # --- completions --------------------------------------------------------------------------------------

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> dict[str, Any]:
        ref, argument = params.ref, params.argument
        context = (ctx.params or {}).get("context")
        relayed = context if isinstance(context, Mapping) else None
        asked = {"name": argument.name, "value": argument.value}
        viewer = self._viewers.of(ctx)
        if isinstance(ref, types.PromptReference):
            kind: OfferKind = "prompt"
            name = ref.name
            own = self._completions.for_prompt(name, argument.name, argument.value, viewer)
        else:
            kind, name = "template", str(ref.uri)
            own = self._completions.for_template(name, argument.name, argument.value, viewer)
        if own is not None:
            return own
        try:
            offers = self._gateway.offers(viewer)
            caller = self._caller(ctx, viewer)
            return limit_values(
                await offers.complete(kind, name, asked, relayed, viewer=viewer, caller=caller)
            )
        except MaitredError as error:
            raise _prompt_error(error) from error


def resource_error(error: MaitredError | MCPError, uri: str, version: str) -> MCPError:
    """The error for a client that cannot have a resource; each era has its own code for a missing one."""
    if isinstance(error, MCPError):
        return error
    missing = INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else _NOT_FOUND_BEFORE
    if isinstance(error, ProtocolError) and error.rpc_code in (INVALID_PARAMS, _NOT_FOUND_BEFORE):
        said = ResourceNotFoundError(uri, hint=f"Server {error.server!r} said: {error.message}.")
        return MCPError(missing, f"{said} `resources/list` says what is.", {"uri": uri})
    if isinstance(error, NotFoundError):
        return MCPError(missing, str(error), {"uri": uri})
    if isinstance(error, CursorError):
        return MCPError(INVALID_PARAMS, str(error), {"uri": uri})
    if isinstance(error, ProtocolError):
        return MCPError(error.rpc_code, error.message, error.data)
    return MCPError(INTERNAL_ERROR, str(error), {"uri": uri})


def _prompt_error(error: MaitredError) -> MCPError:
    if isinstance(error, ProtocolError):
        return MCPError(error.rpc_code, error.message, error.data)
    if isinstance(error, PromptNotFoundError | ResourceNotFoundError):
        return MCPError(INVALID_PARAMS, str(error))
    return MCPError(INTERNAL_ERROR, str(error))


def _relayed(ctx: Context) -> dict[str, Any]:
    """The fields of a request that go on to the server besides its subject."""
    return {key: value for key, value in (ctx.params or {}).items() if key in _RELAYED}
