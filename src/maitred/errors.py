"""Every error that maitred raises on purpose.

Each has a stable `code`; its text says what is wrong, where, and what to do next. A tool that fails is not an
error but a result. An unexpected exception is a bug and never one of these. Directly below `MaitredError`:
`ConfigError`, `StoreError`, `VaultError`, `DaemonError`, `ServerError` (five kinds), `NotFoundError` (ten
kinds), `CallerRefusedError`, `CursorError`, `AdmissionError`, `AllowPatternError`, `DecisionError`,
`UnknownDetailError`, `UnknownTagError`, `ToolWithheldError`, `CallNotApprovedError`, `AuditError`,
`ArgumentsError`, `NotAllowedError`, `BusyError`, `ReplicaError`.
"""

import errno
import sys
from collections.abc import Sequence
from typing import ClassVar, Final

from maitred.wording import count_of, one_of, quote_input, shorten_middle, suggest_names

if sys.platform != "win32":
    import resource


_MOST_LINE: Final = 2_000
"""Most characters of a line about a fault; a value that the line repeats may be long."""

_MOST_TAGS: Final = 10
"""Most unknown tags that a message names."""


def os_reason(error: OSError) -> str:
    """The system's reason for a failure; if file descriptors ran out, with the limit and how to raise it."""
    if error.errno == errno.EMFILE and sys.platform != "win32":
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"this process may have no more than {limit} open files; `ulimit -n` raises that before a start"
        )
    if error.errno == errno.ENFILE:
        return "the whole system has too many open files; `sysctl fs.file-max` raises that"
    return error.strerror or str(error) or type(error).__name__


def open_files_reason(error: BaseException) -> str:
    """The reason, if file descriptors ran out anywhere in the error's causes; else empty."""
    todo, visited = [error], set[int]()
    while todo:
        link = todo.pop()
        if id(link) in visited:
            continue
        visited.add(id(link))
        if isinstance(link, OSError) and link.errno in (errno.EMFILE, errno.ENFILE):
            return os_reason(link)
        todo += [cause for cause in (link.__cause__, link.__context__) if cause is not None]
        todo += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
    return ""


class MaitredError(Exception):
    """Base of all errors raised on purpose."""

    code: ClassVar[str] = "error"
    request_id: str = ""
    """The id of the call in the audit trail; empty if the error ended no call."""


class ConfigError(MaitredError):
    """The configuration is wrong; lists every fault, one a line."""

    code: ClassVar[str] = "config_invalid"

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        self.source = source
        self.faults = tuple(faults)
        head = f"{shorten_middle(source, _MOST_LINE)}: {count_of(len(self.faults), 'fault')}"
        super().__init__("\n".join([head, *(f"  {shorten_middle(f, _MOST_LINE)}" for f in self.faults)]))


class StoreError(MaitredError):
    """The catalog cannot be read or written now; the gateway goes on with what is in memory.

    `path` is its file, or the address of its database without the password. `advice` is a sentence on what
    to do, if that is known.
    """

    code: ClassVar[str] = "store_failed"

    def __init__(self, path: str, reason: str, *, advice: str = "") -> None:
        self.path = path
        self.reason = reason
        self.advice = advice
        super().__init__(f"The catalog {path} cannot be used: {reason}. {advice}".rstrip())


class StoreAwayError(StoreError):
    """The server of the catalog's database cannot be reached. Reads go on; a later try may succeed."""


class LostJobError(StoreError):
    """Another process has taken over the job that a write was part of; what that one writes counts."""

    def __init__(self, job: str) -> None:
        super().__init__(f"for the job {job!r}", "another process has taken it over")


class VaultError(MaitredError):
    """The stored logins cannot be decrypted, or new ones cannot be encrypted."""

    code: ClassVar[str] = "vault_locked"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The logins that are kept cannot be used: {reason}")


class DaemonError(MaitredError):
    """The shared gateway in the background cannot be started, does not answer, or refuses the client."""

    code: ClassVar[str] = "daemon_failed"


class ServerError(MaitredError):
    """Something is wrong with one upstream server."""

    code: ClassVar[str] = "server_error"

    def __init__(self, server: str, message: str) -> None:
        self.server = server
        super().__init__(message)


class ServerUnavailableError(ServerError):
    """The server cannot be started or reached now."""

    code: ClassVar[str] = "server_unavailable"

    def __init__(self, server: str, reason: str, *, retry_in_s: float | None = None) -> None:
        self.reason = reason
        self.retry_in_s = retry_in_s
        later = f" It is tried again in {retry_in_s:.0f} s." if retry_in_s else ""
        super().__init__(
            server,
            f"Server {server!r} is not available: {reason}.{later} `maitred doctor` shows its last output.",
        )


class CallTimeoutError(ServerError):
    """The server did not answer within its time limit; the call may still have taken effect.

    `in_all` is set if it reported progress, but not the answer.
    """

    code: ClassVar[str] = "call_timeout"

    def __init__(self, server: str, what: str, timeout_s: float, *, in_all: bool = False) -> None:
        self.timeout_s = timeout_s
        effect = " The call was cancelled, but may have taken effect." if what == "tools/call" else ""
        lists = what.endswith("/list") or "subscri" in what
        setting = "list_timeout_s" if lists else "call_timeout_max_s" if in_all else "call_timeout_s"
        super().__init__(
            server,
            f"Server {server!r} did not answer {what} within {timeout_s:g} s.{effect}"
            f" Raise `{setting}` of the server if it needs longer.",
        )


class ConnectionLostError(ServerError):
    """The connection ended before the answer came; the call may or may not have taken effect.

    `unread` is set if the server certainly did not read the request, so that it is safe to send it again.
    """

    code: ClassVar[str] = "connection_lost"

    def __init__(self, server: str, reason: str, *, unread: bool = False) -> None:
        self.reason = reason
        self.unread = unread
        super().__init__(
            server,
            f"Server {server!r} went away before it answered: {reason}. The call may or may not have taken"
            " effect; check before trying again. The next call starts the server again.",
        )


class UnreadableAnswerError(ServerError):
    """The server's answer is not JSON-RPC; the call may have taken effect."""

    code: ClassVar[str] = "answer_unreadable"

    def __init__(self, server: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            server,
            f"Server {server!r} answered, but its answer could not be read: {reason}. The call may have taken"
            " effect; check before you try again.",
        )


class ProtocolError(ServerError):
    """The server answered a request with a JSON-RPC error."""

    code: ClassVar[str] = "protocol_error"

    def __init__(self, server: str, rpc_code: int, message: str, data: object = None) -> None:
        self.rpc_code = rpc_code
        self.message = message
        self.data = data
        super().__init__(server, f"Server {server!r} answered with error {rpc_code}: {message}")


class LoginError(ServerError):
    """A login to the server failed; an earlier login stays valid."""

    code: ClassVar[str] = "login_failed"

    def __init__(self, server: str, reason: str) -> None:
        self.reason = reason
        super().__init__(server, f"The login to server {server!r} failed: {reason}.")


class CallerRefusedError(MaitredError):
    """The caller of a request did not answer what the server asked: it cannot, or it answered with an error.

    `rpc_code`, `message` and `data` are the JSON-RPC error that the server gets.
    """

    code: ClassVar[str] = "caller_refused"

    def __init__(self, rpc_code: int, message: str, data: object = None, *, server: str = "") -> None:
        self.rpc_code = rpc_code
        self.message = message
        self.data = data
        who = f"Server {server!r}" if server else "The server"
        super().__init__(f"{who} asked its caller, who did not answer: {message}.")


class NotFoundError(MaitredError):
    """Nothing has the name in the request."""

    code: ClassVar[str] = "not_found"


class ToolNotFoundError(NotFoundError):
    """No tool of this name is known."""

    code: ClassVar[str] = "tool_not_found"

    def __init__(self, name: str, *, nearest: Sequence[str] = ()) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        hint = suggest_names(self.nearest)
        super().__init__(
            f"There is no tool named {quote_input(name)}.{hint} `search_tools` finds tools by what they do."
        )


class SwitchNotFoundError(NotFoundError):
    """No server and no tool that can be switched off has this name."""

    code: ClassVar[str] = "switch_not_found"

    def __init__(self, name: str, *, nearest: Sequence[str] = ()) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        hint = suggest_names(self.nearest)
        super().__init__(
            f"There is no server and no tool named {name!r}.{hint} `maitred list` shows servers."
        )


class ProfileNotFoundError(NotFoundError):
    """The configuration has no profile of this name; `known` are those that it has."""

    code: ClassVar[str] = "profile_not_found"

    def __init__(self, name: str, *, nearest: Sequence[str] = (), known: Sequence[str] = ()) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        there = f"The configuration has {', '.join(known)}." if known else "The configuration has none."
        hint = suggest_names(self.nearest) or f" {there}"
        super().__init__(f"There is no profile named {name!r}.{hint}")


class PathNotFoundError(NotFoundError):
    """No page of the menu has this path; if it names a server or a category, none has that name.

    `nearest` are similar paths that exist; `lists` says to the reader what lists them all.
    """

    code: ClassVar[str] = "path_not_found"

    def __init__(
        self,
        path: str,
        *,
        nearest: Sequence[str] = (),
        lists: str = "`list_tools_meta` lists all categories, with path servers all servers.",
    ) -> None:
        self.path = path
        self.nearest = tuple(nearest)
        kind, _, name = path.strip("/").partition("/")
        names = [near.removeprefix(f"{kind}/") for near in self.nearest]
        is_named = bool(name) and kind in ("server", "category")
        what, label = (kind, name) if is_named else ("page", path)
        hint = suggest_names(names if is_named else self.nearest, repr)
        super().__init__(f"There is no {what} {quote_input(label)}.{hint} {lists}")


class ResourceNotFoundError(NotFoundError):
    """No resource has this URI."""

    code: ClassVar[str] = "resource_not_found"

    def __init__(self, uri: str, *, hint: str = "") -> None:
        self.uri = uri
        lists = "`resources/list` and `resources/templates/list` say what there is."
        super().__init__(f"There is no resource {quote_input(uri)}. {hint or lists}")


class PromptNotFoundError(NotFoundError):
    """No prompt has this name."""

    code: ClassVar[str] = "prompt_not_found"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"There is no prompt named {quote_input(name)}. `prompts/list` says which there are."
        )


class ResultNotFoundError(NotFoundError):
    """A stored result has expired, or belongs to another principal."""

    code: ClassVar[str] = "result_not_found"

    def __init__(self, result_id: str) -> None:
        self.result_id = result_id
        super().__init__(
            f"There is no result {quote_input(result_id)}: its time ran out, or it gave way to newer ones."
            " Call the tool again, if possible for less at once."
        )


class TaskNotFoundError(NotFoundError):
    """No task of the caller has this id; `hint` says what is known of it."""

    code: ClassVar[str] = "task_not_found"

    def __init__(self, task_id: str, *, hint: str = "") -> None:
        self.task_id = task_id
        ended = "It may have ended long ago, or belong to another principal; call the tool again."
        super().__init__(f"There is no task {quote_input(task_id)}. {hint or ended}")


class ServerNotFoundError(NotFoundError):
    """No server of this name is configured or registered."""

    code: ClassVar[str] = "server_not_found"

    def __init__(self, name: str, *, nearest: Sequence[str] = ()) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        hint = suggest_names(self.nearest, repr)
        lists = "`maitred list` and `maitred approvals --all` name all."
        super().__init__(f"There is no server {quote_input(name)}.{hint} {lists}")


class AdmissionError(MaitredError):
    """An operator's decision about a server is not possible in its present state; the text says why."""

    code: ClassVar[str] = "admission_forbidden"

    def __init__(self, server: str, reason: str) -> None:
        self.server = server
        self.reason = reason
        super().__init__(f"Server {quote_input(server)}: {reason}.")


class TokenNotFoundError(NotFoundError):
    """No valid access token has this id or is for a principal of this name."""

    code: ClassVar[str] = "token_not_found"

    def __init__(self, which: str) -> None:
        self.which = which
        super().__init__(
            f"There is no valid token {quote_input(which)}, neither by id nor by name."
            " `maitred tokens list` shows all."
        )


class PrincipalError(MaitredError):
    """A principal cannot be suspended or resumed; the text says why."""

    code: ClassVar[str] = "principal_refused"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"This cannot be done: {reason}.")


class HeldCallNotFoundError(NotFoundError):
    """No call that was held has this id."""

    code: ClassVar[str] = "held_call_not_found"

    def __init__(self, held_id: str) -> None:
        self.held_id = held_id
        super().__init__(
            f"There is no held call {quote_input(held_id)}. `maitred calls list` shows those that wait."
        )


class AllowPatternError(MaitredError):
    """A pattern of the allow list cannot be added or removed like this; the text says why."""

    code: ClassVar[str] = "allow_pattern_refused"

    def __init__(self, pattern: str, reason: str) -> None:
        self.pattern = pattern
        self.reason = reason
        super().__init__(f"Pattern {quote_input(pattern)} {reason}.")


class PatternNotFoundError(NotFoundError):
    """The allow list has no such pattern."""

    code: ClassVar[str] = "pattern_not_found"

    def __init__(self, pattern: str, *, nearest: Sequence[str] = ()) -> None:
        self.pattern = pattern
        self.nearest = tuple(nearest)
        hint = suggest_names(self.nearest)
        super().__init__(
            f"The allow list has no pattern {quote_input(pattern)}.{hint} `maitred allow list` shows it."
        )


class DecisionError(MaitredError):
    """A held call cannot be decided like this, or not any more; the text says why."""

    code: ClassVar[str] = "decision_forbidden"

    def __init__(self, held_id: str, reason: str) -> None:
        self.held_id = held_id
        self.reason = reason
        super().__init__(f"Held call {held_id}: {reason}.")


class CallNotApprovedError(MaitredError):
    """The call waited for a person and was not made: it was refused, or there was no decision in time."""

    code: ClassVar[str] = "call_not_approved"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"The call of {quote_input(name)} was not made: {reason}")


class CursorError(MaitredError):
    """The cursor does not come from an earlier answer."""

    code: ClassVar[str] = "cursor_invalid"

    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        super().__init__(f"{quote_input(cursor)} is not a cursor of this list; start again without one.")


class UnknownDetailError(MaitredError):
    """There is no such level of detail; the text has those that there are."""

    code: ClassVar[str] = "detail_unknown"

    def __init__(self, detail: str, known: Sequence[str]) -> None:
        self.detail = detail
        super().__init__(f"`detail` is {one_of(known)}, not {quote_input(detail)}")


class UnknownTagError(MaitredError):
    """A tag is not in the vocabulary; the text has the nearest ones."""

    code: ClassVar[str] = "tag_unknown"

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults[:_MOST_TAGS])
        super().__init__("\n".join(self.faults))


class ToolWithheldError(MaitredError):
    """The tool is known but cannot be called now; the text says why and what to do."""

    code: ClassVar[str] = "tool_withheld"

    def __init__(self, name: str, reason: str, *, what: str = "Tool") -> None:
        self.name = name
        self.reason = reason
        verb = "called" if what == "Tool" else "used"
        super().__init__(f"{what} {quote_input(name)} cannot be {verb} now: {reason}")


class AuditError(MaitredError):
    """The audit trail cannot be written, so the gateway did not do what may change something."""

    code: ClassVar[str] = "audit_failed"

    def __init__(self, reason: str, *, advice: str = "") -> None:
        self.reason = reason
        super().__init__(
            f"The call was not made: the audit trail cannot be written ({reason}), and what may change"
            f" something is recorded first. {advice or 'See why.'} Without the trail, by"
            " `audit.enabled: false`, it would be made."
        )


class ArgumentsError(MaitredError):
    """The arguments do not fit the tool's input schema; the text shows `schema` for the next attempt."""

    code: ClassVar[str] = "arguments_invalid"

    def __init__(self, name: str, faults: Sequence[str], *, schema: str = "") -> None:
        self.name = name
        self.faults = tuple(faults)
        self.schema = schema
        lines = [
            f"The arguments do not fit {quote_input(name)}; it was not called:",
            *(f"- {f}" for f in self.faults),
        ]
        super().__init__("\n".join([*lines, f"Its parameters: {schema}"] if schema else lines))


class NotAllowedError(MaitredError):
    """The principal may not do this: its role is too weak, or its scope does not cover it."""

    code: ClassVar[str] = "not_allowed"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"This is not allowed: {reason}. The operator of maitred assigns roles and scopes.")


class SignInError(MaitredError):
    """A person cannot sign in at the provider; `reason` says why, and `advice` what to do."""

    code: ClassVar[str] = "sign_in_failed"

    def __init__(self, reason: str, advice: str) -> None:
        self.reason = reason
        self.advice = advice
        super().__init__(f"You are not signed in: {reason}. To go on, {advice}.")


class BusyError(MaitredError):
    """The principal is at a limit; it may make the same call later."""

    code: ClassVar[str] = "busy"

    def __init__(self, reason: str, *, retry_in_s: float) -> None:
        self.reason = reason
        self.retry_in_s = retry_in_s
        super().__init__(f"The call was not made: {reason}.")


class ReplicaError(MaitredError):
    """Another replica did not do what this one asked of it.

    With `unread`, the other replica certainly did not begin, so it is safe to ask again.
    """

    code: ClassVar[str] = "replica_failed"

    def __init__(self, replica: str, reason: str, *, unread: bool = False) -> None:
        self.replica = replica
        self.reason = reason
        self.unread = unread
        effect = "It did not begin." if unread else "What was asked of it may or may not have taken effect."
        super().__init__(f"Replica {replica!r} of the gateway failed: {reason}. {effect}")


class ReplicaGoneError(ReplicaError):
    """The replica that owns what a request is about has ended, or cannot be reached."""

    code: ClassVar[str] = "replica_gone"
