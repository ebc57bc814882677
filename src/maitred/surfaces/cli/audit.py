"""`maitred audit`: list the audit trail, verify and export it, prune old lines, show where it is sent.

The trail is in the catalog's file, so the command neither needs nor starts a gateway.
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer
from rich.text import Text

from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.model.access import Viewer
from maitred.surfaces.cli.audit_stream import show_stream
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    acting,
    err,
    make_table,
    out,
    print_json,
    print_table,
    run,
    settings_of,
    visible,
)
from maitred.wiring import audit_key, open_auditing
from maitred.wording import count_of

if TYPE_CHECKING:  # the gateway takes a second to import, which `--help` need not wait for
    from maitred.audit.hash_chain import Mark, Verification

_ABOUT = "maitred audit"


Action = Annotated[
    Literal["list", "verify", "export", "prune", "stream"],
    typer.Argument(metavar="list|verify|export|prune|stream", help="What to do."),
]
Target = Annotated[str, typer.Argument(metavar="FILE", help="export: the file to write; `-` prints.")]
Since = Annotated[
    str, typer.Option("--since", help="list: from a time on (2026-03-01, 2026-03-01T09:00, 90m, 24h, 7d).")
]
Principal = Annotated[str, typer.Option("--principal", help="list: only what this principal did.")]
ToolName = Annotated[str, typer.Option("--tool", help="list: only this tool (by either name) or server.")]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, help="list: how many lines; the newest are shown.")
]
Head = Annotated[
    str, typer.Option("--head", metavar="NUMBER:DIGEST", help="verify: a head that you noted before.")
]
File = Annotated[
    str, typer.Option("--file", metavar="FILE", help="verify: this exported file; `-` reads standard input.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)


def audit(
    action: Action = "list",
    target: Target = "",
    config: ConfigOption = None,
    since: Since = "",
    principal: Principal = "",
    tool: ToolName = "",
    limit: Limit = 50,
    head: Head = "",
    file: File = "",
    as_json: JsonOption = False,
) -> None:
    """Show the audit trail; `verify` ends with 1 if a line was changed, removed, moved or cut off.

    `stream` shows how far each destination of `audit.stream` is.
    """
    if bool(target) != (action == "export"):
        raise ConfigError(_ABOUT, ["export needs a FILE, or `-` to print; the other actions take none"])
    if action == "verify" and file:
        _verified(_of_file(file, _mark(head)), as_json=as_json)
        return
    settings = settings_of(config)
    if action == "list":
        _list(settings, _wanted(since, principal, tool), limit, as_json=as_json)
    elif action == "verify":
        viewer = acting(settings)
        _verified(run(lambda: _verify(settings, viewer, _mark(head))), as_json=as_json)
    elif action == "stream":
        show_stream(settings, acting(settings), as_json=as_json)
    elif action == "export":
        viewer = acting(settings)
        run(lambda: _export(settings, viewer, target, as_json=as_json and target != "-"))
    else:
        viewer = acting(settings)
        gone = run(lambda: _prune(settings, viewer))
        if as_json:
            print_json({"dropped": gone})
            return
        kept = settings.audit.keep_days
        older = f"older than {count_of(kept, 'day')}" if kept else "as `audit.keep_days` is 0"
        out.note(Text(f"Dropped {count_of(gone, 'line')} {older}."))


def _wanted(since: str, principal: str, tool: str) -> Mapping[str, str]:
    return {"since": _moment(since) if since else "", "who": principal, "tool": tool}


def _moment(text: str) -> str:
    """A time in the format of the trail, from a written time or a duration before now."""
    from maitred.audit.service import moment_ago, moment_of  # noqa: PLC0415  # slow, and only needed here

    if ago := moment_ago(text):
        return ago
    try:
        return moment_of(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        said = f"--since: {text!r} is no time; write 2026-03-01, 2026-03-01T09:00, 90m, 24h, 7d or 2w"
        raise ConfigError(_ABOUT, [said]) from None


def _list(settings: Settings, wanted: Mapping[str, Any], limit: int, *, as_json: bool) -> None:
    viewer = acting(settings)

    async def read() -> list[Mapping[str, Any]]:
        async with open_auditing(settings) as auditing:
            return list((await auditing.latest(viewer, **wanted, limit=limit)).lines)

    lines = run(read)
    if as_json:
        print_json(lines)
        return
    if not lines:
        out.note("The trail has no such line." if any(wanted.values()) else "The trail is empty.")
        return
    rows = [_row(line) for line in reversed(lines)]
    print_table(make_table("", ("line", "time", "who", "what", "of", "outcome", "request"), rows))


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    at = str(line.get("at", ""))
    who = [line.get("who"), f"({line['client']})" if line.get("client") else ""]
    of = [line.get("server"), line.get("tool") or line.get("published")]
    outcome = [line.get("outcome"), "(cached)" if line.get("cached") else "", line.get("detail")]
    told = (
        line.get("seq", ""),
        at[:19].replace("T", " "),
        " ".join(str(part) for part in who if part),
        line.get("action", ""),
        "/".join(str(part) for part in of if part),
        " ".join(str(part) for part in outcome if part),
        line.get("request_id", ""),
    )
    return tuple(visible(str(part)) for part in told)


def _mark(head: str) -> "Mark | None":
    if not head:
        return None
    from maitred.audit.service import mark_of  # noqa: PLC0415  # slow, and only needed here

    try:
        return mark_of(head)
    except ValueError as error:
        raise ConfigError(_ABOUT, [f"--head: {error}"]) from None


async def _verify(settings: Settings, viewer: Viewer, known: "Mark | None") -> "Verification":
    async with open_auditing(settings) as auditing:
        return await auditing.verify(viewer, known)


def _of_file(file: str, known: "Mark | None") -> "Verification":
    from maitred.audit.trail_check import verify_export  # noqa: PLC0415  # slow, and only needed here

    if file == "-":
        return verify_export(sys.stdin, audit_key(), known)
    try:
        with Path(file).open(encoding="utf-8", errors="replace", newline="\n") as lines:
            return verify_export(lines, audit_key(), known)
    except OSError as error:
        raise ConfigError(file, [f"cannot be read: {error.strerror}"]) from None


def _verified(found: "Verification", *, as_json: bool) -> None:
    """Print the result of a check; faults end the command with 1."""
    if as_json:
        print_json(found.to_json())
    else:
        for fault in found.faults:
            err.print(Text.assemble(("fault: ", "red"), visible(fault)))
        if not found.faults:
            is_one = found.lines and not found.head.is_anchor
            numbers = f", {found.anchor.seq + 1} to {found.head.seq}" if is_one else ""
            out.print(Text(f"{count_of(found.lines, 'line')}{numbers}: each is as it was written."))
            if found.replicas:
                chains = f"{count_of(found.replicas, 'replica')}, {count_of(found.anchors, 'anchor')}"
                out.print(Text(f"{chains}: each chain ends as it was anchored."))
            out.print(Text(f"head: {found.head.text}"))
    if found.faults:
        raise typer.Exit(1)


async def _export(settings: Settings, viewer: Viewer, target: str, *, as_json: bool) -> None:
    """Write all lines; the last one records the export itself."""
    async with open_auditing(settings) as auditing:
        lines = auditing.lines(viewer)
        await auditing.record(viewer, "audit.export")
        if target == "-":
            count = await _written(lines, sys.stdout)
        else:
            async with _private(Path(target)) as file:
                count = await _written(lines, file)
        head = await auditing.head(viewer)
    if as_json:
        print_json({"file": target, "lines": count, "head": head.text})
        return
    err.note(Text(f"Exported {count_of(count, 'line')}; head: {head.text}"))


async def _written(lines: AsyncIterator[str], file: TextIO) -> int:
    count = 0
    async for line in lines:
        file.write(f"{line}\n")
        count += 1
    return count


@asynccontextmanager
async def _private(path: Path) -> AsyncIterator[TextIO]:
    """A new file that only its owner may read."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be written: {error.strerror}"]) from None


async def _prune(settings: Settings, viewer: Viewer) -> int:
    async with open_auditing(settings) as auditing:
        return await auditing.prune(viewer)
