"""The files by which systemd and launchd keep a gateway running for a user: words in, a text out.

No secret is copied: of the environment, a file has `PATH` alone, by which servers are found.
"""

import plistlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from maitred.errors import ConfigError
from maitred.wording import quote_input

MARK: Final = "Written by `maitred service install`; `maitred service uninstall` removes it."
"""A line in each file; the commands touch no file without it."""
UNIT_NAME: Final = "maitred.service"
_UNWRITABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
"""Control characters, ends of lines, and bytes of a name that are no text."""
LABEL: Final = "maitred"
"""The name of the agent of launchd."""


def systemd_unit(words: Sequence[str], path: str, variables: Path) -> str:
    """A unit of the user's systemd; `variables` is a file with more variables, which need not exist.

    Source of the quoting: systemd.syntax(7), systemd.service(5) and systemd.exec(5). The value of
    `EnvironmentFile` is one path without quotes, so only `%` is written twice.

    Raises:
        ConfigError: A word or a path has a character that such a file cannot have.
    """
    _check_characters([*words, path, str(variables)])
    command = " ".join(_quoted(word.replace("$", "$$")) for word in words)
    return "\n".join([
        f"# {MARK}",
        "[Unit]",
        "Description=maitred, a gateway between AI agents and MCP servers",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={command}",
        f"Environment={_quoted(f'PATH={path}')}",
        f"EnvironmentFile=-{_specifiers(str(variables))}",
        "WorkingDirectory=~",
        "UMask=0077",
        "Restart=on-failure",
        "RestartSec=2",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ])  # fmt: skip


def launchd_agent(words: Sequence[str], path: str, *, home: Path) -> str:
    """A property list of the user's launchd; what the gateway logs goes to `~/Library/Logs/maitred.log`.

    Raises:
        ConfigError: A word or a path has a character that such a file cannot have.
    """
    _check_characters([*words, path, str(home)])
    log = str(home / "Library" / "Logs" / "maitred.log")
    agent = {
        "Label": LABEL,
        "ProgramArguments": list(words),
        "EnvironmentVariables": {"PATH": path},
        "WorkingDirectory": str(home),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "Umask": 0o077,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    text = plistlib.dumps(agent, sort_keys=False).decode("utf-8")
    head, rest = text.split("\n", 1)
    return f"{head}\n<!-- {MARK} -->\n{rest}"


def _check_characters(words: Sequence[str]) -> None:
    for word in words:
        if _UNWRITABLE.search(word):
            fault = f"{quote_input(word)} has a control character or is no valid text"
            raise ConfigError("service", [f"{fault}; rename the folder or file, or take it out of PATH"])


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    r"""A word of a unit file: in quotes, with `\`, quotes, line ends and `%` as they must be written."""
    text = (
        _specifiers(word).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    )
    return f'"{text}"'
