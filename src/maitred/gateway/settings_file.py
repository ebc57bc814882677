"""The configuration file as a person reads it by a page, and a change of one section of it.

What is shown has no secrets. A change is checked as a whole file, by the reader that starts a gateway. It is
written only if the file is as the person read it, and applied at once. `SettingsMethods` has the methods of
`Gateway` for it.
"""

import hmac
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, Literal

import anyio

from maitred.audit.masking import mask_text
from maitred.audit.service import AuditService
from maitred.config.document import ConfigDocument, read_document, read_text
from maitred.config.file_rewrite import rewrite
from maitred.config.load import load, parse
from maitred.config.redaction import redact
from maitred.config.section_texts import (
    STAYS,
    SectionText,
    check_section,
    has_anchor,
    split_sections,
    with_section,
)
from maitred.errors import ConfigError, MaitredError, NotAllowedError
from maitred.gateway.authorization import Authorization
from maitred.gateway.configure import Configuration
from maitred.gateway.settings_masking import MaskedSpan, find_secrets, without_secrets
from maitred.gateway.settings_sections import RULES, UNKNOWN_RULE, SectionRule
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.wording import count_of

MOST_CHARACTERS: Final = 100_000
"""The length of a section that a page may change."""
_SHOWN_S: Final = 10.0
"""For how many seconds a writer waits until agents see the change."""
_AROUND: Final = 3
"""Equal lines that are shown around a change."""
_MOST_COMPARED: Final = 200
"""Of longer parts that differ, all lines count as changed: it takes the cube of their number."""
_MOST_FAULTS: Final = 100
_UNUSUAL: Final = re.compile(r"[\x00\x80-\x9f\ud800-\udfff]|\r(?!\n)")
"""Characters that a form of a browser does not send back as they were."""
_FAULT: Final = re.compile(r"line (\d+): (.*)", re.DOTALL)
_NOT_SHOWN: Final = (
    "something is wrong here; why is not shown, since it may have the value of a reference. Check the line,"
    " or try the section without `${...}`"
)
_STALE: Final = (
    "the file has changed since this page was read; load the section again, then repeat your change"
)
_ACTION: Final = "settings.apply"
_CLIENTS_FILE: Final = SectionRule(
    about="the servers of a client, and sections of this gateway",
    locked="It is the file of an MCP client, and maitred changes no such file by a page.",
    instead="`maitred import` makes a `maitred.yaml` of its servers.",
)
_ONE_PIECE: Final = SectionRule(
    about="all sections",
    locked="It is written as one JSON value, so no section has lines of its own.",
    instead="Edit the file; `maitred add` and `maitred remove` change its servers.",
)
_HEAD: Final = SectionRule(
    about="remarks before the first section", locked="They belong to no section.", instead="Edit the file."
)


@dataclass(frozen=True, kw_only=True)
class SettingsSection:
    """One section, without secrets. `is_there` says whether the file has it; `line` is its first, from 1."""

    name: str
    rule: SectionRule
    text: str = ""
    line: int = 0
    is_there: bool = True

    @property
    def is_locked(self) -> bool:
        """Whether no page may change it."""
        return bool(self.rule.locked)


@dataclass(frozen=True, kw_only=True)
class SettingsFile:
    """The file in its present state. `digest` is a key for this state, and `faults` are those of the file."""

    path: Path
    digest: str
    sections: Sequence[SettingsSection]
    faults: Sequence[str] = ()

    def section(self, name: str) -> SettingsSection | None:
        """The section of a name; `None` if there can be none."""
        return next((one for one in self.sections if one.name == name), None)


@dataclass(frozen=True, kw_only=True)
class SectionChange:
    """Another text for a section; `seen` is the digest of the file that the person read."""

    name: str
    text: str
    seen: str


@dataclass(frozen=True, kw_only=True)
class LineFault:
    """A fault of the new file: its line there (0 if none is known), and that line if the section has it."""

    line: int
    text: str
    excerpt: str = ""


@dataclass(frozen=True, kw_only=True)
class LineChange:
    """One line of a comparison; a `gap` stands for equal lines that are left out."""

    kind: Literal["same", "added", "removed", "gap"]
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class SectionComparison:
    """What a change would do: the faults of the new file, or the lines that differ."""

    change: SectionChange
    faults: Sequence[LineFault] = ()
    lines: Sequence[LineChange] = ()


class SettingsEditor:
    """Reads the file and changes sections of it. Who calls it has checked what the viewer may do."""

    def __init__(self, context: GatewayState, configuration: Configuration, auditing: AuditService) -> None:
        self._context = context
        self._configuration = configuration
        self._auditing = auditing
        self._lock = anyio.Lock()
        self._comparing = anyio.CapacityLimiter(1)
        self._last: tuple[Path, str, SettingsFile] | None = None
        self._key = secrets.token_bytes(32)  # without it, a digest would let a reader test guesses of secrets

    async def read(self) -> SettingsFile:
        """The file; see `Gateway.settings_file`."""
        return await anyio.to_thread.run_sync(self._read, self._context.settings.source)

    async def compare(self, change: SectionChange, viewer: Viewer) -> SectionComparison:
        """What a change would do; see `Gateway.compare_settings`."""
        await self._require_editable(change, viewer)
        path = self._context.settings.source
        return await anyio.to_thread.run_sync(self._compare, path, change, limiter=self._comparing)

    async def apply(self, change: SectionChange, viewer: Viewer) -> Path:
        """Write a change, and apply it; see `Gateway.apply_settings`."""
        await self._require_editable(change, viewer)
        path = self._context.settings.source
        async with self._lock:
            before, after = await anyio.to_thread.run_sync(self._write, path, change)
            about = {"section": change.name, "text": change.text}
            outcome = "cancelled"
            try:
                fresh = await anyio.to_thread.run_sync(load, path)
                await self._configuration.take(replace(fresh, http=self._context.settings.http))
                outcome = "ok"
            except MaitredError as error:
                outcome = error.code
                if isinstance(error, ConfigError):  # nothing was applied
                    await anyio.to_thread.run_sync(_restore, path, before, after)
                raise
            finally:
                if outcome != "ok":
                    self._auditing.note(viewer, _ACTION, arguments=about, outcome=outcome, detail=change.name)
            await self._context.keeper.placed(_SHOWN_S)
            lines = await anyio.to_thread.run_sync(_compared, path, before, change)
            detail = f"{change.name}: {_sum_of(lines)}"
            await self._auditing.record(viewer, _ACTION, arguments=about, detail=detail)
        return path

    async def _require_editable(self, change: SectionChange, viewer: Viewer) -> None:
        """Refuse a change of what a page may not change, and record it: no form offers that.

        Raises:
            ConfigError: The file cannot be read.
            NotAllowedError: The section is locked.
        """
        file = await self.read()
        if file.faults and not file.sections:
            raise ConfigError(str(file.path), file.faults)
        section = file.section(change.name)
        if why := section.rule.locked if section else UNKNOWN_RULE.locked:
            about = change.name[:100]
            self._auditing.note(viewer, _ACTION, outcome=NotAllowedError.code, detail=f"{about} is locked")
            raise NotAllowedError(f"the section `{about}` is locked here. {why}")

    def _digest(self, text: str) -> str:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256").hex()

    def _read(self, path: Path) -> SettingsFile:
        try:
            text = _content(path)
        except ConfigError as error:
            return SettingsFile(path=path, digest="", sections=(), faults=error.faults)
        last = self._last  # a file with many servers takes a while to parse
        if last is None or last[:2] != (path, text):
            last = self._last = (path, text, self._parse(path, text))
        return last[2]

    def _parse(self, path: Path, text: str) -> SettingsFile:
        try:
            document = read_document(path, text)
            pieces = split_sections(path, text)
        except ConfigError as error:  # where no value can be found, no secret can be found either
            return SettingsFile(path=path, digest=self._digest(text), sections=(), faults=error.faults)
        sections = list(_sections(document, text, pieces))
        return SettingsFile(
            path=path, digest=self._digest(text), sections=sections, faults=_faults_of(path, text)
        )

    def _compare(self, path: Path, change: SectionChange) -> SectionComparison:
        text = _content(path)
        try:
            self._changed(path, text, change)
        except ConfigError as error:
            first = _first_line_of(path, text, change.name)
            faults = [_line_fault(fault, change, first) for fault in error.faults[:_MOST_FAULTS]]
            return SectionComparison(change=change, faults=faults)
        return SectionComparison(change=change, lines=list(_shown_lines(_compared(path, text, change))))

    def _write(self, path: Path, change: SectionChange) -> tuple[str, str]:
        """Write the file; returns its text before and after."""
        texts = ["", ""]

        def edit(text: str) -> str:
            texts[:] = text, self._changed(path, text, change)
            return texts[1]

        rewrite(path, edit, create=False)
        return texts[0], texts[1]

    def _changed(self, path: Path, text: str, change: SectionChange) -> str:
        """The text of the file with the change.

        Raises:
            ConfigError: The file is another one than the person read, or would have faults.
        """
        if not hmac.compare_digest(self._digest(text).encode(), change.seen.encode("utf-8", "replace")):
            raise ConfigError(str(path), [_STALE])
        if len(change.text) > MOST_CHARACTERS:
            raise ConfigError(str(path), [f"a section may have {MOST_CHARACTERS:,} characters here"])
        if _UNUSUAL.search(change.text):
            raise ConfigError(str(path), ["the section has a control character"])
        if has_anchor(change.text):
            raise ConfigError(str(path), ["the section has an anchor or an alias (`&`, `*`); write it out"])
        new = with_section(path, text, change.name, change.text)
        check_section(path, text, new, change.name, RULES[change.name].fixed)
        return new


class SettingsMethods:
    """The methods of a gateway about its configuration file."""

    _access: Authorization
    _editor: SettingsEditor

    async def settings_file(self, viewer: Viewer) -> SettingsFile:
        """The configuration file by sections, with its comments and without secrets.

        Raises:
            NotAllowedError: The viewer may not configure.
        """
        self._access.check(viewer, "configure")
        return await self._editor.read()

    async def compare_settings(self, change: SectionChange, viewer: Viewer) -> SectionComparison:
        """What another text of a section would change, or its faults; nothing is written.

        Raises:
            NotAllowedError: The viewer may not configure, or the section is locked.
            ConfigError: The file cannot be read.
        """
        self._access.check(viewer, "configure")
        return await self._editor.compare(change, viewer)

    async def apply_settings(self, change: SectionChange, viewer: Viewer) -> Path:
        """Write another text of a section into the configuration file, and apply it; returns the file.

        Raises:
            NotAllowedError: The viewer may not configure, or the section is locked.
            ConfigError: The file has changed since it was read, or would have faults. Nothing is applied.
            StoreError: It is applied, but perhaps not whole, or its record is not written yet.
        """
        self._access.check(viewer, "configure")
        return await self._editor.apply(change, viewer)


def _content(path: Path) -> str:
    """The text of a file with its own ends of lines, as `rewrite` has it.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError):
        read_text(path)  # it says why not
        raise


def _faults_of(path: Path, text: str) -> Sequence[str]:
    try:
        parse(path, text)
    except ConfigError as error:
        return [mask_text(redact(fault)) for fault in error.faults]
    return ()


def _sections(
    document: ConfigDocument, text: str, pieces: Sequence[SectionText]
) -> Iterator[SettingsSection]:
    """The sections of a file in their order, then those that a person may add."""
    hidden = find_secrets(document, text)
    is_whole = document.is_foreign or not any(piece.name for piece in pieces)
    for piece in pieces:
        rule = _rule_of(piece) if piece.name else _HEAD
        if document.is_foreign:
            rule = _CLIENTS_FILE
        elif is_whole and document.root is not None:
            rule = _ONE_PIECE
        yield _section(piece, rule, hidden)
    if not is_whole or document.root is None:
        there = {piece.name for piece in pieces}
        for name, rule in RULES.items():
            if name not in there and not rule.locked:
                yield SettingsSection(name=name, rule=rule, is_there=False)


def _section(piece: SectionText, rule: SectionRule, hidden: Sequence[MaskedSpan]) -> SettingsSection:
    shown = without_secrets(piece.text, piece.start, hidden)
    if not rule.locked and shown != piece.text:
        why = "It has what looks like a secret, which no page shows, so no page can write it back."
        by_hand = "Edit the file: write a reference such as `${NAME}` in its place."
        rule = replace(rule, locked=why, instead=by_hand)
    return SettingsSection(name=piece.name, rule=rule, text=shown.replace("\r\n", "\n"), line=piece.line)


def _rule_of(piece: SectionText) -> SectionRule:
    rule = RULES.get(piece.name, UNKNOWN_RULE)
    is_mixed = "\r\n" in piece.text and "\n" in piece.text.replace("\r\n", "")
    if not rule.locked and (len(piece.text) > MOST_CHARACTERS or is_mixed or _UNUSUAL.search(piece.text)):
        why = f"It is longer than {MOST_CHARACTERS:,} characters, or has some that no form sends back."
        return replace(rule, locked=why, instead="Edit the file.")
    return rule


def _piece_of(path: Path, text: str, name: str) -> SectionText | None:
    return next((piece for piece in split_sections(path, text) if piece.name == name), None)


def _first_line_of(path: Path, text: str, name: str) -> int:
    """The line where a section begins, or would begin at the end of the file."""
    piece = _piece_of(path, text, name)
    return piece.line if piece else len(text.splitlines()) + 1


def _compared(path: Path, text: str, change: SectionChange) -> Sequence[LineChange]:
    """The lines of the section alone: those of its neighbours may have secrets."""
    piece = _piece_of(path, text, change.name)
    return _differences(piece.text if piece else "", change.text)


def _line_fault(fault: str, change: SectionChange, first: int) -> LineFault:
    """A fault with its line, and the text of that line if it is one of the changed section."""
    found = _FAULT.fullmatch(fault)
    if found is None:
        return LineFault(line=0, text=mask_text(redact(fault)))
    number, lines = int(found[1]), change.text.split("\n")
    at = number - first
    if not 0 <= at < len(lines):
        return LineFault(line=number, text=mask_text(redact(found[2])))
    # What a person wrote is not masked: which of it is masked would say what the secrets of this process are.
    is_shown = "${" not in change.text or found[2].endswith(STAYS)
    text = found[2] if is_shown else _NOT_SHOWN
    return LineFault(line=number, text=text, excerpt=lines[at])


def _differences(before: str, after: str) -> Sequence[LineChange]:
    """All lines of two texts, in their order."""
    old, new = before.splitlines(), after.splitlines()
    least = min(len(old), len(new))
    head = next((at for at in range(least) if old[at] != new[at]), least)
    ends = range(1, least - head + 1)
    tail = next((at for at in ends if old[-at] != new[-at]), least - head + 1) - 1
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    rest = old[len(old) - tail :]
    return [*_same(old[:head]), *_matched(*middle), *_same(rest)]


def _matched(old: Sequence[str], new: Sequence[str]) -> Iterator[LineChange]:
    """The lines of two texts that begin and end differently; long ones are not searched for equal lines."""
    is_short = max(len(old), len(new)) <= _MOST_COMPARED
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if is_short else ()
    for kind, a, b, c, d in codes or [("replace", 0, len(old), 0, len(new))]:
        if kind == "equal":
            yield from _same(old[a:b])
            continue
        yield from (LineChange(kind="removed", text=line) for line in old[a:b])
        yield from (LineChange(kind="added", text=line) for line in new[c:d])


def _same(lines: Sequence[str]) -> Sequence[LineChange]:
    return [LineChange(kind="same", text=line) for line in lines]


def _sum_of(lines: Sequence[LineChange]) -> str:
    added, removed = (sum(one.kind == kind for one in lines) for kind in ("added", "removed"))
    return f"{count_of(added, 'line')} added, {count_of(removed, 'line')} removed"


def _shown_lines(lines: Sequence[LineChange]) -> Iterator[LineChange]:
    """The lines that differ, with a few around them."""
    changed = [at for at, one in enumerate(lines) if one.kind != "same"]
    near = {at + step for at in changed for step in range(-_AROUND, _AROUND + 1)}
    is_gap = False
    for at, one in enumerate(lines):
        if at in near:
            is_gap = False
            yield one
        elif changed and not is_gap:
            is_gap = True
            yield LineChange(kind="gap")


def _restore(path: Path, before: str, after: str) -> None:
    """Write the text before a change that could not be applied, unless the file has changed again."""
    rewrite(path, lambda text: before if text == after else text, create=False)
