"""Run the commands of the walk-through in a pseudo-terminal, and lay what they show out in time.

What is typed and how long it can be read is scripted, so that it plays at a pace for people. What the
commands answer is real; paths of this machine alone are replaced.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.walkthrough.scenes import FILES, SCENES, Scene
from tests.walkthrough.terminal import PLAIN, WIDTH, Line, Style, Terminal

HEIGHT: Final = 32
_LIMIT_S: Final = 240.0
_CHUNK: Final = 65_536
_BIN: Final = str(Path(sys.executable).parent)
_SHOWN_BIN: Final = "/home/you/.maitred/bin"
_DEMO: Final = re.compile(r'[^\s"]*/maitred-demo-\w+')
_CAPTION: Final = Style(colour=6, bold=True)
_PROMPT: Final = Style(colour=2, bold=True)
_CAPTION_S: Final = 3.5
_KEY_S: Final = 0.07
_RUN_S: Final = 0.6
_READ_S: Final = 4.0
_LINE_S: Final = 0.6
_WHOLE_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Played:
    """A scene as it was: what the command showed, on lines, and its exit code."""

    scene: Scene
    lines: Sequence[Line]
    code: int


@dataclass(frozen=True, kw_only=True)
class Screen:
    """What is on the terminal from one time to another.

    `typing` says from when to when the command is typed, which begins on the line `command_row`.
    """

    lines: Sequence[Line]
    begin_s: float
    end_s: float
    typing: tuple[float, float] = (0.0, 0.0)
    command_row: int = -1
    fresh: int = 0
    """From this line on there was nothing before."""


def play(home: Path, scenes: Sequence[Scene] = SCENES) -> Sequence[Played]:
    """Run all commands, one after the other, with a home folder of their own."""
    home.mkdir(parents=True)
    for name, text in FILES.items():
        (home / name).write_text(text, encoding="utf-8")
    (home / "tmp").mkdir()
    _make_repository(home / "kitchen")
    env = {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PATH": f"{_BIN}:/usr/local/bin:/usr/bin:/bin",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    return [_play(scene, home, env) for scene in scenes]


def _make_repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "soup.txt").write_text("onions, butter, stock, bread, cheese\n", encoding="utf-8")
    who = ("-c", "user.name=You", "-c", "user.email=you@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "Add the onion soup")):
        subprocess.run(["git", *command], cwd=folder, check=True)


def _play(scene: Scene, home: Path, env: Mapping[str, str]) -> Played:
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        command = ["bash", "--norc", "-c", scene.command]
        program = subprocess.Popen(
            command, cwd=home, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        said = _read(ours, list(scene.answers), program)
        code = program.wait(_LIMIT_S)
    finally:
        os.close(ours)
    shown = _DEMO.sub("/tmp/demo", said).replace(str(home), "~").replace(_BIN, _SHOWN_BIN)
    terminal = Terminal()
    terminal.write(shown)
    return Played(scene=scene, lines=terminal.lines(), code=code)


def _read(ours: int, answers: list[tuple[str, str]], program: "subprocess.Popen[bytes]") -> str:
    """All that a command writes; what it asks for is answered."""
    said, until = b"", time.monotonic() + _LIMIT_S
    while time.monotonic() < until:
        if not select.select([ours], [], [], 0.2)[0]:
            if program.poll() is not None:
                break
            continue
        try:
            data = os.read(ours, _CHUNK)
        except OSError:  # as Linux says that nobody has the other end any more
            break
        said += data
        if answers and answers[0][0].encode() in said:
            os.write(ours, answers.pop(0)[1].encode())
    else:
        program.kill()
    return said.decode("utf-8", "replace")


def screens(played: Sequence[Played]) -> Sequence[Screen]:
    """What is on the terminal when, from the first scene to the last."""
    found: list[Screen] = []
    now = 0.5
    for one in played:
        head: list[Line] = [[(f"# {one.scene.caption}", _CAPTION)], []]
        row = len(head)
        found.append(Screen(lines=head, begin_s=now, end_s=now + _CAPTION_S))
        now += _CAPTION_S
        head = [*head, *_wrapped(one.scene.command)]
        typing_s = _KEY_S * len(one.scene.command)
        found.append(
            Screen(
                lines=head,
                begin_s=now,
                end_s=now + typing_s + _RUN_S,
                typing=(now, now + typing_s),
                command_row=row,
                fresh=row,
            )
        )
        now += typing_s + _RUN_S
        whole = [*head, *one.lines]
        shown = len(head)
        while shown < len(whole):
            page = whole[shown : shown + HEIGHT - (len(head) if shown == len(head) else 4)]
            end = shown + len(page)
            read_s = _READ_S + _LINE_S * len(page)
            lines = whole[max(0, end - HEIGHT) : end]
            found.append(Screen(lines=lines, begin_s=now, end_s=now + read_s, fresh=len(lines) - len(page)))
            now += read_s
            shown = end
        now = found[-1].end_s
    return found


def _wrapped(command: str) -> Sequence[Line]:
    first: Line = [("$ ", _PROMPT), (command[: WIDTH - 2], PLAIN)]
    rest = [[(command[at : at + WIDTH], PLAIN)] for at in range(WIDTH - 2, len(command), WIDTH)]
    return [first, *rest]


def length_s(shown: Sequence[Screen]) -> float:
    """How long it plays."""
    return shown[-1].end_s + _WHOLE_S


def cast(shown: Sequence[Screen]) -> str:
    """The session in the format asciicast v2."""
    header: Mapping[str, Any] = {
        "version": 2,
        "width": WIDTH,
        "height": HEIGHT,
        "title": "maitred: a walk-through",
        "env": {"TERM": "xterm-256color", "SHELL": "/bin/bash"},
    }
    events: list[tuple[float, str]] = []
    for one in shown:
        if not one.fresh:
            events.append((one.begin_s, "\x1b[2J\x1b[H" + _coded(one.lines)))
        elif one.command_row >= 0:
            [prompt, command], *rest = one.lines[one.command_row :]
            events.append((one.begin_s, _coded([[prompt]]).removesuffix("\r\n")))
            typed = command[0] + "".join(text for line in rest for text, _ in line)
            begin, end = one.typing
            step = (end - begin) / max(1, len(typed))
            events += [(begin + step * place, key) for place, key in enumerate(typed)]
            events.append((end, "\r\n"))
        else:
            events.append((one.begin_s, _coded(one.lines[one.fresh :])))
    events.append((length_s(shown), ""))
    rows = [json.dumps([round(at, 3), "o", text], ensure_ascii=False) for at, text in events]
    return "\n".join([json.dumps(header), *rows]) + "\n"


def _coded(lines: Sequence[Line]) -> str:
    """Lines with the codes of their styles."""
    coded = []
    for line in lines:
        runs = "".join(text if style == PLAIN else f"{style.codes()}{text}\x1b[0m" for text, style in line)
        coded.append(f"{runs}\r\n")
    return "".join(coded)
