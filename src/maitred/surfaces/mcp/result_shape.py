"""Shape the messages between client and server: results for the client's era, `_meta` without our own keys.

A result goes through whole. Only the keys of one connection are taken out. Parts that an older revision
cannot express are replaced by parts that its clients can read.
"""

import json
from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from maitred.model.tasks import IMMEDIATE, IMMEDIATE_KEY, is_task, without_immediate
from maitred.model.tasks import for_handshake as task_for_handshake
from maitred.model.tools import ToolCall

_CONNECTION_OWNED = frozenset(
    {
        "progressToken",
        CLIENT_CAPABILITIES_META_KEY,
        CLIENT_INFO_META_KEY,
        LOG_LEVEL_META_KEY,
        PROTOCOL_VERSION_META_KEY,
        SERVER_INFO_META_KEY,
        "io.modelcontextprotocol/subscriptionId",
    }
)


def without_owned(meta: Any) -> dict[str, Any]:
    """A `_meta` object without the keys that belong to the connection it came over."""
    return {k: v for k, v in meta.items() if k not in _CONNECTION_OWNED} if isinstance(meta, Mapping) else {}


def read_call(name: str, params: Mapping[str, Any], *, task: Mapping[str, Any] | None = None) -> ToolCall:
    """The tool call in the parameters of a `tools/call` request; `task` is what its caller wants of one."""
    meta = params.get("_meta")
    capabilities = meta.get(CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, Mapping) else None
    responses, state = params.get("inputResponses"), params.get("requestState")
    return ToolCall(
        name=name,
        arguments=params.get("arguments") or {},
        meta=without_owned(meta),
        input_responses=responses if isinstance(responses, Mapping) else None,
        request_state=state if isinstance(state, str) else None,
        client_capabilities=capabilities if isinstance(capabilities, Mapping) else None,
        task=task,
    )


def for_stateless(result: Mapping[str, Any], server_info: Mapping[str, Any]) -> dict[str, Any]:
    """A result in the form of revision 2026-07-28, with our own name on the envelope."""
    out = _checked(result) if not is_task(result) else without_immediate(result)
    out.setdefault("resultType", "complete")
    out["_meta"] = without_owned(out.get("_meta")) | {SERVER_INFO_META_KEY: dict(server_info)}
    return out


def for_handshake(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result that clients of revisions up to 2025-11-25 can read."""
    if is_task(result):
        return _task_for_handshake(result)
    out = _checked(result)
    if out.pop("resultType", "complete") == "input_required":
        text = (
            "The tool asks for input from the user, in a way that this client's protocol revision cannot"
            " answer. It was not carried out."
        )
        return {"content": [{"type": "text", "text": text}], "isError": True}
    out["content"] = out.get("content") or []
    structured = out.get("structuredContent")
    if structured is not None and not isinstance(structured, Mapping):
        del out["structuredContent"]
        out["content"] = out["content"] or [
            {"type": "text", "text": json.dumps(structured, ensure_ascii=False)}
        ]
    if meta := without_owned(out.get("_meta")):
        out["_meta"] = meta
    else:
        out.pop("_meta", None)
    return out


def _task_for_handshake(task: Mapping[str, Any]) -> dict[str, Any]:
    first = task.get(IMMEDIATE)
    meta = without_owned(task.get("_meta")) | ({IMMEDIATE_KEY: first} if first else {})
    return {"task": task_for_handshake(task)} | ({"_meta": meta} if meta else {})


def for_revision(
    method: str, version: str, result: Mapping[str, Any], always: Mapping[str, Any]
) -> dict[str, Any]:
    """A result of `resources/read` or `prompts/get` for a client of a revision; `always` are fields of ours.

    Raises:
        MCPError: The server asks for input that such a client cannot give, or its answer is malformed.
    """
    asks = result.get("resultType") == "input_required"
    stateless = version in MODERN_PROTOCOL_VERSIONS
    if asks and not stateless:
        raise MCPError(
            INTERNAL_ERROR,
            "The server asks for input from the user, which this client's protocol revision cannot give.",
        )
    out = {**result} if asks else {**result, **always, "resultType": "complete"}
    out.pop("_meta", None)
    if meta := without_owned(result.get("_meta")):
        out["_meta"] = meta
    # For 2026-07-28 the SDK accepts any value as a question; an answer is checked by the older shape.
    shape = LATEST_HANDSHAKE_VERSION if stateless and not asks else version
    try:
        validate_server_result(method, shape, out)
    except ValidationError:
        raise MCPError(
            INTERNAL_ERROR, f"The server answered {method} with what the protocol does not allow."
        ) from None
    return out


def _checked(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with a list of content, which clients require; other content becomes JSON text."""
    out = dict(result)
    if out.get("resultType") == "task":  # a task without an id is none
        out["resultType"] = "complete"
    content = out.get("content")
    if content is None:
        if out.get("resultType") != "input_required":
            out["content"] = []
    elif not isinstance(content, list) or not all(isinstance(c, Mapping) and "type" in c for c in content):
        out["content"] = [{"type": "text", "text": json.dumps(content, ensure_ascii=False)}]
    return out
