"""The allow list as data: patterns that an operator adds and removes while the gateway runs.

They count beside the patterns of the configuration file, and can take nothing away from it: what the file
allows is allowed, and is changed in the file alone. Every review reads the list, so a change counts at once
in every process. It decides about later registrations; what was approved stays approved.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from maitred.admission.addresses import parse_host
from maitred.admission.image_names import parse_command_pattern, parse_image_pattern
from maitred.audit.service import AuditService
from maitred.config.settings import Admission
from maitred.errors import AllowPatternError, PatternNotFoundError
from maitred.model.access import Viewer
from maitred.storage.database import Database, DriverConnection, WriteOptions, placeholders
from maitred.wording import near_names

AllowKind = Literal["images", "trusted_images", "trusted_digests", "trusted_commands", "trusted_hosts"]
KINDS: Final[tuple[AllowKind, ...]] = get_args(AllowKind)
"""The keys of the section `admission` that the list adds to."""

COLUMNS: Final = ("kind", "pattern", "action", "who", "why", "at")
HISTORY: Final = (
    f"SELECT {', '.join(f'allow_events.{name}' for name in COLUMNS)} FROM allow_events"  # noqa: S608  # our own names
    " ORDER BY allow_events.turn"
)
LAST: Final = "SELECT max(allow_events.turn) AS max_1 FROM allow_events"
ADD: Final = (
    f"INSERT INTO allow_events (turn, {', '.join(COLUMNS)}) VALUES ({placeholders(len(COLUMNS) + 1)})"  # noqa: S608  # as above
)

_LASTING: Final = WriteOptions(wait_s=5.0, durable=True, lasting=True)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_CHARS: Final = 500


@dataclass(frozen=True, kw_only=True)
class AllowEvent:
    """A change of the list; `at` is ISO 8601 in UTC."""

    kind: str
    pattern: str
    action: Literal["added", "removed"]
    who: str
    why: str
    at: str


@dataclass(frozen=True, kw_only=True)
class AllowPattern:
    """A pattern that counts now. `who`, `why` and `at` are empty for a pattern of the configuration file."""

    kind: str
    pattern: str
    source: Literal["configuration", "list"]
    who: str = ""
    why: str = ""
    at: str = ""


class AllowLog:
    """The history of the list in a database, whose tables exist already.

    Every method raises `StoreError` if the database cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def history(self) -> Sequence[AllowEvent]:
        """All changes, the oldest first."""
        return await self._database.read_driver(_history)

    async def append(self, change: AllowEvent) -> bool:
        """Write a change; false, with nothing written, if the pattern is as the change would make it."""

        def write(connection: DriverConnection) -> bool:
            present = (change.kind, change.pattern) in present_patterns(_history(connection))
            if present is (change.action == "added"):
                return False
            turn = int(connection.execute(LAST).fetchone()[0] or 0) + 1
            values = tuple(getattr(change, name) for name in COLUMNS)
            connection.execute(ADD, (turn, *values))
            return True

        return await self._database.write_driver(write, _LASTING)


def _history(connection: DriverConnection) -> list[AllowEvent]:
    rows = connection.execute(HISTORY).fetchall()
    return [AllowEvent(**dict(zip(COLUMNS, row, strict=True))) for row in rows]


def present_patterns(history: Sequence[AllowEvent]) -> Mapping[tuple[str, str], AllowEvent]:
    """The patterns that a history leaves, each with the change that added it."""
    present: dict[tuple[str, str], AllowEvent] = {}
    for change in history:
        if change.action == "added":
            present[change.kind, change.pattern] = change
        else:
            present.pop((change.kind, change.pattern), None)
    return present


def with_patterns(section: Admission, history: Sequence[AllowEvent]) -> Admission:
    """The section of the file with the patterns of the list added."""
    present = present_patterns(history)
    if not present:
        return section

    def joined(kind: AllowKind) -> tuple[str, ...]:
        more = [pattern for of, pattern in present if of == kind]
        return tuple(dict.fromkeys([*getattr(section, kind), *more]))

    return replace(
        section,
        images=joined("images"),
        trusted_images=joined("trusted_images"),
        trusted_digests=joined("trusted_digests"),
        trusted_commands=joined("trusted_commands"),
        trusted_hosts=joined("trusted_hosts"),
    )


class AllowList:
    """Changes the list for viewers who may configure, and records who did it."""

    def __init__(self, log: AllowLog, auditing: AuditService) -> None:
        self._log = log
        self._auditing = auditing

    async def joined(self, section: Admission) -> Admission:
        """The policy's section with the list as it is at this moment.

        Raises:
            StoreError: The list cannot be read.
        """
        return with_patterns(section, await self._log.history())

    async def listed(self, section: Admission, viewer: Viewer) -> Sequence[AllowPattern]:
        """All patterns that count: those of the file first, then those of the list that the file has not.

        Raises:
            NotAllowedError: The viewer may not configure.
            StoreError: The list cannot be read.
        """
        self._auditing.require(viewer, "configure")
        of_file = [
            AllowPattern(kind=kind, pattern=pattern, source="configuration")
            for kind in KINDS
            for pattern in getattr(section, kind)
        ]
        known = {(one.kind, one.pattern) for one in of_file}
        present = present_patterns(await self._log.history())
        added = [
            AllowPattern(
                kind=one.kind, pattern=one.pattern, source="list", who=one.who, why=one.why, at=one.at
            )
            for key, one in present.items()
            if key not in known
        ]
        return [*of_file, *added]

    async def history(self, viewer: Viewer) -> Sequence[AllowEvent]:
        """All changes of the list, the oldest first.

        Raises:
            NotAllowedError: The viewer may not configure.
            StoreError: The list cannot be read.
        """
        self._auditing.require(viewer, "configure")
        return await self._log.history()

    async def add(
        self, kind: str, pattern: str, section: Admission, viewer: Viewer, *, why: str = ""
    ) -> AllowPattern:
        """Add a pattern.

        Raises:
            NotAllowedError: The viewer may not configure.
            AllowPatternError: The pattern or its kind is invalid, or it is there already.
            StoreError: The list cannot be written.
        """
        self._auditing.require(viewer, "configure")
        if fault := _fault(kind, pattern) or _fault_of_reason(why):
            raise AllowPatternError(pattern, fault)
        if pattern in getattr(section, kind):
            raise AllowPatternError(pattern, f"is in the configuration file already (admission.{kind})")
        change = _change(kind, pattern, "added", viewer, why)
        if not await self._log.append(change):
            raise AllowPatternError(pattern, "is in the list already")
        await self._record(change, viewer)
        return AllowPattern(kind=kind, pattern=pattern, source="list", who=change.who, why=why, at=change.at)

    async def remove(
        self, kind: str, pattern: str, section: Admission, viewer: Viewer, *, why: str = ""
    ) -> AllowEvent:
        """Remove a pattern of the list. What was approved by it stays approved.

        Raises:
            NotAllowedError: The viewer may not configure.
            PatternNotFoundError: The list has no such pattern.
            AllowPatternError: Only the configuration file has it.
            StoreError: The list cannot be written.
        """
        self._auditing.require(viewer, "configure")
        if fault := _fault_of_reason(why):
            raise AllowPatternError(pattern, fault)
        change = _change(kind, pattern, "removed", viewer, why)
        if not await self._log.append(change):
            if kind in KINDS and pattern in getattr(section, kind):
                where = f"is in the configuration file (admission.{kind}), which alone can take it away"
                raise AllowPatternError(pattern, where)
            present = present_patterns(await self._log.history())
            raise PatternNotFoundError(pattern, nearest=tuple(near_names(pattern, [p for _, p in present])))
        await self._record(change, viewer)
        return change

    async def _record(self, change: AllowEvent, viewer: Viewer) -> None:
        action = "allow.add" if change.action == "added" else "allow.remove"
        about = {"kind": change.kind, "pattern": change.pattern}
        detail = f"{change.kind}: {change.pattern}{f' ({change.why})' if change.why else ''}"
        await self._auditing.record(viewer, action, arguments=about, detail=detail)


def pattern_json(one: AllowPattern | AllowEvent) -> dict[str, Any]:
    """A pattern, or a change, as JSON."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def _change(
    kind: str, pattern: str, action: Literal["added", "removed"], viewer: Viewer, why: str
) -> AllowEvent:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return AllowEvent(kind=kind, pattern=pattern, action=action, who=viewer.principal, why=why, at=at)


def _fault_of_reason(why: str) -> str:
    return "" if len(why) <= _MAX_CHARS else f"has a reason of more than {_MAX_CHARS} characters"


def _fault(kind: str, pattern: str) -> str:
    """Why a pattern cannot be of a kind, in words that follow it; empty if it can."""
    if kind not in KINDS:
        return f"cannot be of the kind {kind[:80]!r}; there are {', '.join(KINDS)}"
    if not pattern or len(pattern) > _MAX_CHARS or not pattern.isprintable() or pattern != pattern.strip():
        return f"must have 1 to {_MAX_CHARS} printable characters, without spaces around it"
    try:
        if kind in ("images", "trusted_images"):
            parse_image_pattern(pattern)
        elif kind == "trusted_commands":
            parse_command_pattern(pattern)
    except ValueError as error:
        return f"is no such pattern: {error}"
    if kind == "trusted_digests" and not _DIGEST.fullmatch(pattern):
        return "must be `sha256:` and 64 hexadecimal digits"
    if kind == "trusted_hosts" and parse_host(pattern.removeprefix("*.")).fault:
        return "must be a host, or `*.` and a host"
    return ""
