"""Tasks: calls that go on at their server after it has answered, in the forms of both eras.

The gateway works with one form of the state of a task, that of the extension of 2026-07-28: all fields at the
top, with the result or the error of a task that has ended. `from_handshake` and `for_handshake` convert it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The extension, in the capabilities of clients and servers of the stateless era."""
RELATED_KEY: Final = "io.modelcontextprotocol/related-task"
"""Key in `_meta` of the handshake era: the task to which a message belongs."""
IMMEDIATE_KEY: Final = "io.modelcontextprotocol/model-immediate-response"
"""Key in `_meta` of a new task in the handshake era: what a model may read until the task has ended."""
IMMEDIATE: Final = "immediateResponse"
"""The field of a state for the value of `IMMEDIATE_KEY`, where it is screened like other texts."""
ENDED: Final = frozenset({"completed", "failed", "cancelled"})
"""Each status in which a task stays."""

_STATUSES: Final = frozenset({"working", "input_required", *ENDED})
_TIMES: Final = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}
_STATE: Final = ("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs")
_OUTCOME: Final = ("result", "error", "inputRequests")

Json = dict[str, Any]


def declares_extension(capabilities: Mapping[str, Any] | None) -> bool:
    """Whether capabilities contain the extension."""
    extensions = (capabilities or {}).get("extensions")
    return isinstance(extensions, Mapping) and EXTENSION in extensions


def with_extension(capabilities: Mapping[str, Any] | None) -> Json:
    """Capabilities with the extension."""
    known = dict(capabilities or {})
    extensions = known.get("extensions")
    return {**known, "extensions": {**(extensions if isinstance(extensions, Mapping) else {}), EXTENSION: {}}}


def related_task(params: Mapping[str, Any] | None) -> str:
    """The task to which a request of the handshake era belongs, by its `_meta`; empty without one."""
    meta = (params or {}).get("_meta")
    related = meta.get(RELATED_KEY) if isinstance(meta, Mapping) else None
    task_id = related.get("taskId") if isinstance(related, Mapping) else None
    return task_id if isinstance(task_id, str) else ""


def created_task(wire: Mapping[str, Any]) -> Json | None:
    """The state of the task that an answer of `tools/call` announces; `None` if it announces none."""
    if wire.get("resultType") == "task" and isinstance(wire.get("taskId"), str):
        return _state(wire)
    task = wire.get("task")
    if "content" in wire or not isinstance(task, Mapping) or not isinstance(task.get("taskId"), str):
        return None
    meta = wire.get("_meta")
    first = meta.get(IMMEDIATE_KEY) if isinstance(meta, Mapping) else None
    return from_handshake(task) | ({IMMEDIATE: first} if isinstance(first, str) else {})


def is_task(wire: Mapping[str, Any]) -> bool:
    """Whether an answer on its way through the steps is a new task."""
    return wire.get("resultType") == "task" and isinstance(wire.get("taskId"), str)


def from_handshake(task: Mapping[str, Any]) -> Json:
    """The state of a task of the handshake era."""
    return _state({_TIMES.get(key, key): value for key, value in task.items()})


def for_handshake(state: Mapping[str, Any]) -> Json:
    """A state for a client of the handshake era, in which a tool that failed makes the task `failed`."""
    names = {new: old for old, new in _TIMES.items()}
    out = {names.get(key, key): state[key] for key in _STATE if key in state}
    result = state.get("result")
    if isinstance(result, Mapping) and result.get("isError") and out.get("status") == "completed":
        out["status"] = "failed"
    return out


def without_immediate(task: Mapping[str, Any]) -> Json:
    """A new task for a client of the stateless era, which knows no text for meanwhile."""
    return {key: task[key] for key in ("resultType", "_meta", *_STATE) if key in task}


def detailed_state(state: Mapping[str, Any]) -> Json:
    """A state as a server of the extension answers `tasks/get`, with the result, error or questions."""
    return _state(state) | {key: state[key] for key in _OUTCOME if isinstance(state.get(key), Mapping)}


def _state(task: Mapping[str, Any]) -> Json:
    """The fields of a state, with values of the types that clients require."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    status, ttl, poll = task.get("status"), _milliseconds(task.get("ttlMs")), task.get("pollIntervalMs")
    out: Json = {"taskId": task.get("taskId"), "status": status if status in _STATUSES else "working"}
    if isinstance(message := task.get("statusMessage"), str):
        out["statusMessage"] = message
    for key in ("createdAt", "lastUpdatedAt"):
        out[key] = at if isinstance(at := task.get(key), str) else now
    return {**out, "ttlMs": ttl} | ({"pollIntervalMs": every} if (every := _milliseconds(poll)) else {})


def _milliseconds(value: Any) -> int | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**53
    return max(int(value), 1) if known else None
