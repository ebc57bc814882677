"""Resources, prompts and completions which the conformance suite expects to find behind the gateway.

They belong to `everything_server.py`: each has the name, the arguments and the contents which a scenario of
the suite asks for.
"""

import json
import re
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]

# One red pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

TEXT = "test://static-text"
BINARY = "test://static-binary"
WATCHED = "test://watched-resource"
TEMPLATE = "test://template/{id}/data"
_FILLED = re.compile(r"test://template/([^/]+)/data")

SIMPLE = "test_simple_prompt"
WITH_ARGUMENTS = "test_prompt_with_arguments"
EMBEDDING = "test_prompt_with_embedded_resource"
PICTURE = "test_prompt_with_image"
ASKING = "test_input_required_result_prompt"
EXTRA = "test_extra_prompt"
ARGUMENTS = {WITH_ARGUMENTS: ["arg1", "arg2"], EMBEDDING: ["resourceUri"]}


async def list_resources(_ctx: Context, _params: object) -> types.ListResourcesResult:
    kinds = {TEXT: "text/plain", BINARY: "image/png", WATCHED: "text/plain"}
    resources = [
        types.Resource(uri=uri, name=uri.removeprefix("test://"), description="A resource.", mime_type=kind)
        for uri, kind in kinds.items()
    ]
    return types.ListResourcesResult(resources=resources)


async def list_templates(_ctx: Context, _params: object) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template=TEMPLATE, name="data", mime_type="application/json")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri == BINARY:
        return types.ReadResourceResult(
            contents=[types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)]
        )
    filled = _FILLED.fullmatch(uri)
    if filled:
        text, kind = json.dumps({"id": filled[1], "data": f"Data for ID: {filled[1]}"}), "application/json"
    elif uri in (TEXT, WATCHED):
        text, kind = "This is the content of the static text resource.", "text/plain"
    else:
        code = types.INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else -32002
        raise MCPError(code, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=text)])


async def subscribe(_ctx: Context, _params: object) -> types.EmptyResult:
    return types.EmptyResult()


class Prompts:
    """The prompts of this server, one of which comes and goes."""

    def __init__(self) -> None:
        self._names = [SIMPLE, WITH_ARGUMENTS, EMBEDDING, PICTURE, ASKING]

    def toggle_extra(self) -> None:
        """Show the extra prompt, or hide it: either way the list has changed."""
        if EXTRA in self._names:
            self._names.remove(EXTRA)
        else:
            self._names.append(EXTRA)

    async def listed(self, _ctx: Context, _params: object) -> types.ListPromptsResult:
        prompts = [
            types.Prompt(
                name=name,
                description="A prompt.",
                arguments=[types.PromptArgument(name=one, required=True) for one in ARGUMENTS.get(name, [])],
            )
            for name in self._names
        ]
        return types.ListPromptsResult(prompts=prompts)


async def get_prompt(
    _ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    if params.name == SIMPLE:
        return said(text("This is a simple prompt for testing."))
    if params.name == WITH_ARGUMENTS:
        return said(text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))
    if params.name == EMBEDDING:
        resource = types.TextResourceContents(
            uri=given["resourceUri"], mime_type="text/plain", text="Embedded resource content for testing."
        )
        return said(types.EmbeddedResource(resource=resource), text("Please process it."))
    if params.name == PICTURE:
        return said(types.ImageContent(data=PNG, mime_type="image/png"), text("Please analyze it."))
    if params.name == ASKING:
        return asked(params)
    raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")


def asked(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    """Ask for the context until it is given."""
    if params.input_responses and "user_context" in params.input_responses:
        return said(text("The context was given."))
    schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    question = types.ElicitRequestFormParams(
        message="What context should the prompt use?", requested_schema=schema
    )
    return types.InputRequiredResult(input_requests={"user_context": types.ElicitRequest(params=question)})


async def complete(_ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    words = ["test value", "test case", "paris", "park"]
    values = [word for word in words if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values)))


def text(message: str) -> types.TextContent:
    return types.TextContent(text=message)


def said(*contents: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=content) for content in contents]
    )


def offer(server: Server[Any], prompts: Prompts) -> None:
    """Make a server answer all of these requests."""
    paginated = types.PaginatedRequestParams
    server.add_request_handler("resources/list", paginated, list_resources)
    server.add_request_handler("resources/templates/list", paginated, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, subscribe)
    server.add_request_handler("prompts/list", paginated, prompts.listed)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
