"""The answer to the caller of a chain: what was done, then its result within a number of characters.

MCP wants it twice: as text for models, and as structured content for programs. A result that is too long
is cut by its structure, and `keep` stores the whole. Nothing runs here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from maitred.backends.listing import clean
from maitred.calls.outline import Estimate, clip, compact, outline, truncate
from maitred.calls.results import HEADER_TOKENS, result_uri
from maitred.chains.account import CallReceipt, ChainRun
from maitred.chains.base import ChainFault, ChainOutcome, FaultKind
from maitred.model.annotations import annotate
from maitred.wording import count_of

Keep = Callable[[dict[str, Any]], str]
"""Stores a `tools/call` answer for its caller and returns its id; "" if it is too large to store."""

MAX_OUTPUT_SIZE = 20_000
_OUTLINE_TOKENS = 200
_LOG_SHARE = 4  # at most a quarter of the output is for the log
_MESSAGE_CHARS = 2_000
_LINE_CHARS = 160
_FAULTS = 10
_THAT_LINE = "Correct that line."
_SLIPS = ("NameError", "AttributeError", "ModuleNotFoundError", "ImportError", "RecursionError")
"""Mistakes of the author, which no program would catch on purpose."""
_COMPUTED = "computed for more than"
_SECOND_MS = 1_000
_ADVICE: Mapping[FaultKind, tuple[str, str]] = {
    "syntax": (
        "Syntax error",
        "Correct that line. `maitred://chains/guide` tells which part of Python there is.",
    ),
    "type": ("Type error", "Correct that line."),
    "runtime": ("Runtime error", "Correct that line, or catch the error with try/except."),
    "timeout": (
        "Time limit",
        "Make independent calls at once with asyncio.gather, make fewer, or raise `timeout_ms`.",
    ),
    "memory": ("Memory limit", "Ask the tools for less, or keep less of what they give."),
    "calls": (
        "Call limit",
        "Have a tool select or count by its own parameters, or divide the work among chains.",
    ),
    "size": ("Size limit", "Ask the tools for less at a time, send less, or return less."),
    "crashed": ("Crash", "Write it more simply: not so deeply nested, not so long."),
    "cancelled": ("Cancelled", "It was cancelled from outside; start it again if it is still wanted."),
}


@dataclass(frozen=True, kw_only=True)
class ChainAnswer:
    """An answer. `details` follow `summary` in the text, within the number of characters asked for."""

    ok: bool
    result: Any
    summary: str
    details: str = ""
    truncated: bool = False
    full_uri: str = ""
    logs: str = ""
    calls: Sequence[CallReceipt] = ()
    fault: ChainFault | None = None
    chain_id: str = ""
    returned_tokens: int = 0
    kept_out_tokens: int = 0

    @property
    def text(self) -> str:
        """The summary, and after a blank line the result."""
        return _joined(self.summary, self.details)

    def to_json(self) -> dict[str, Any]:
        """The structured content."""
        fault = self.fault
        error = {"kind": fault.kind, "message": fault.message, "line": fault.line} if fault else None
        return {
            "ok": self.ok,
            "result": self.result,
            "summary": self.summary,
            "truncated": self.truncated,
            "full_uri": self.full_uri,
            "logs": self.logs,
            "calls": [receipt.to_json() for receipt in self.calls],
            "error": error,
            "tokens": {"returned": self.returned_tokens, "kept_out": self.kept_out_tokens},
            "chain_id": self.chain_id,
        }

    def to_result(self) -> dict[str, Any]:
        """The result of `tools/call`."""
        text = self.text
        block = {"type": "text", "text": text, "annotations": annotate(len(text), is_part=self.truncated)}
        result = {"content": [block], "structuredContent": self.to_json()}
        return result if self.ok else {**result, "isError": True}


def answer(
    run: ChainRun, code: str, *, keep: Keep, estimate: Estimate, max_output_size: int = MAX_OUTPUT_SIZE
) -> ChainAnswer:
    """Report the result of a chain.

    Args:
        run: The chain's run.
        code: The source of the chain, from which a faulty line is quoted.
        keep: Stores a result that is too long to show.
        estimate: Returns the number of tokens of a text.
        max_output_size: The most characters of the text after its summary, and of `result` as JSON; from 0.
    """
    outcome = run.outcome
    fault = _readable(outcome.fault) if outcome.fault else None
    told = clip(_fault_text(fault, code), max_output_size, len)[0] if fault else ""
    room = _rest(max_output_size, told)
    logs = _last(clean(outcome.logs), room // _LOG_SHARE)
    printed = f"Printed:\n{logs}" if logs else ""
    value, truncated, shown = _value(outcome, _rest(room, printed))
    full_uri = _store_result(outcome.value, keep) if truncated else ""
    lines = [_status(run, fault), *_calls(run.calls)]
    if fault is None and value is None and logs:
        lines.append(
            "The result is null: it is what the last line gives, or `return`; `print` is only a log."
        )
    if truncated:
        lines[1:1] = _whole(outcome.value, full_uri, estimate)
    made = ChainAnswer(
        ok=fault is None,
        result=value,
        summary=clip("\n".join(lines), HEADER_TOKENS, estimate)[0],
        details=clip(_joined(told, shown, printed), max_output_size, len)[0],
        truncated=truncated,
        full_uri=full_uri,
        logs=logs,
        calls=_shortened(run.calls, max_output_size),
        fault=fault
        and replace(fault, message=clip(fault.message, max(max_output_size, _LINE_CHARS), len)[0]),
        chain_id=run.chain_id,
    )
    returned = estimate(made.text)
    kept_out = max(sum(receipt.tokens for receipt in run.calls) - returned, 0)
    return replace(made, returned_tokens=returned, kept_out_tokens=kept_out)


def check_answer(
    faults: Sequence[ChainFault],
    code: str,
    *,
    estimate: Estimate,
    max_output_size: int = MAX_OUTPUT_SIZE,
    asked: bool = True,
    notes: Sequence[str] = (),
) -> ChainAnswer:
    """Report the faults that a check has found, or notes on a chain without any.

    `asked` says whether the caller wanted only a check.
    """
    found = [_readable(fault) for fault in faults]
    told = [_fault_text(fault, code) for fault in found[:_FAULTS]]
    many = f"{count_of(len(found), 'fault')} found" if found else "no fault found"
    details, cut_off = clip("\n\n".join([*told, *notes]), max_output_size, len)
    made = ChainAnswer(
        ok=not found,
        result=None,
        summary=f"The chain was {'checked and ' if asked else ''}not run: {many}. No tool was called.",
        details=details,
        truncated=cut_off or len(found) > _FAULTS,
        fault=found[0] if found else None,
    )
    return replace(made, returned_tokens=estimate(made.text))


def _status(run: ChainRun, fault: ChainFault | None) -> str:
    taken = f"{run.ms / _SECOND_MS:.1f} s" if run.ms >= _SECOND_MS else f"{run.ms:.0f} ms"
    made = [count_of(len(run.calls), "call")]
    if failed := sum(not receipt.ok for receipt in run.calls):
        made.append(f"{failed} failed")
    if cached := sum(receipt.cached for receipt in run.calls):
        made.append(f"{cached} from the cache")
    gave = sum(receipt.bytes for receipt in run.calls)
    ended = f"failed ({fault.kind}) after" if fault else "done in"
    told = f"Chain {run.chain_id} {ended} {taken}: {', '.join(made)}"
    told += f", {count_of(gave, 'byte')} of results." if gave else "."
    changed = fault and any(receipt.made for receipt in run.calls)
    return told + (" What the calls changed stays changed." if changed else "")


def _whole(value: Any, uri: str, estimate: Estimate) -> list[str]:
    where = "the rest is not kept; `max_output_size` says how much is shown"
    if uri:
        where = f"all of it: {uri} (resources/read)"
    return [
        f"The result is too long to show; below is a part of it, {where}.",
        f"It is: {outline(value, _OUTLINE_TOKENS, estimate)}",
    ]


def _calls(calls: Sequence[CallReceipt]) -> list[str]:
    """The tools in the order of their first call, how often, and how one of each failed."""
    tools = dict.fromkeys(receipt.tool for receipt in calls)
    lines = []
    for tool in tools:
        own = [receipt for receipt in calls if receipt.tool == tool]
        failed = [receipt for receipt in own if not receipt.ok]
        line = f"- {tool}" + (f" ({len(own)} times)" if len(own) > 1 else "")
        if failed:
            reason = " ".join(failed[0].error.split())[:_LINE_CHARS]
            line += f": failed: {reason}" if len(own) == 1 else f": {len(failed)} failed: {reason}"
        lines.append(line)
    return ["Calls made:", *lines] if lines else []


def _shortened(calls: Sequence[CallReceipt], room: int) -> Sequence[CallReceipt]:
    """The receipts, with the errors of failed calls cut to a total number of characters."""
    failed = sum(not receipt.ok for receipt in calls)
    share = room // max(failed, 1)
    return [replace(receipt, error=receipt.error[:share]) for receipt in calls] if failed else calls


def _value(outcome: ChainOutcome, room: int) -> tuple[Any, bool, str]:
    """The result within its room as JSON, whether it had to be cut, and its text."""
    if outcome.fault and outcome.value is None:
        return None, False, ""
    label = "The results before that:\n" if outcome.fault else ""
    value, truncated = truncate(outcome.value, max(room - len(label), 0), len)
    return value, truncated, label + (value if isinstance(value, str) else compact(value))


def _store_result(value: Any, keep: Keep) -> str:
    """The address of the whole result, stored as one text so that its pages can be read as they are."""
    text = value if isinstance(value, str) else _by_line(value)
    result_id = keep({"content": [{"type": "text", "text": text}]})
    return result_uri(result_id) if result_id else ""


def _by_line(value: Any) -> str:
    """A value as JSON, with each member of a list or an object on its own line, for readers of its pages."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(compact, value)) + "\n]"
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{compact(key)}:{compact(item)}" for key, item in value.items()) + "\n}"
    return compact(value)


def _readable(fault: ChainFault) -> ChainFault:
    return replace(fault, message=clean(fault.message)[:_MESSAGE_CHARS])


def _fault_text(fault: ChainFault, code: str) -> str:
    where = f" in line {fault.line}" if fault.line else ""
    title, advice = _ADVICE[fault.kind]
    if fault.message.startswith(_SLIPS) and fault.line:
        advice = _THAT_LINE
    if not fault.line and advice.startswith("Correct"):
        advice = ""
    if fault.kind == "timeout" and _COMPUTED in fault.message:
        advice = ""
    told = [f"{title}{where}: {fault.message}", *_quoted(fault, code), advice]
    return "\n".join(line for line in told if line)


def _quoted(fault: ChainFault, code: str) -> list[str]:
    """The faulty line, with a caret below a known column; of a long line, the part around it."""
    source = code.split("\n")
    if not 0 < fault.line <= len(source):
        return []
    line = source[fault.line - 1]
    place = min(max(fault.column - 1, 0), len(line))
    start = max(place - _LINE_CHARS // 2, 0)
    part = "".join(c if c.isprintable() else " " for c in line[start : start + _LINE_CHARS])
    number = f"{fault.line:>5} | "
    caret = [" " * (len(number) - 2) + "| " + " " * (place - start) + "^"] if fault.column else []
    return [number + part, *caret]


def _last(text: str, most: int) -> str:
    """The end of a text, since the last output says most."""
    text = text.rstrip()
    if len(text) <= most:
        return text
    part = text[len(text) - most + 2 :] if most > 2 else ""  # noqa: PLR2004
    return f"…\n{part}" if part else ""


def _rest(room: int, text: str) -> int:
    """The room that is left after a text and a blank line."""
    return max(room - len(text) - 2, 0) if text else room


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
