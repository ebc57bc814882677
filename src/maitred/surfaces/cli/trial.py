"""The first try of a server that was added: start it once, and say what it offers or what is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final

from rich.text import Text

from maitred.config.settings import Settings
from maitred.disclosure.answers import parts_withheld
from maitred.model.access import Viewer
from maitred.surfaces.advice import advice
from maitred.surfaces.cli import logs
from maitred.surfaces.cli.console import acting, err, out, run, settings_of, visible
from maitred.surfaces.cli.verbosity import VERBOSITY
from maitred.wiring import open_gateway
from maitred.wording import count_of

_SHOWN_LINES: Final = 10


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of a first start; `error` is empty if it works."""

    name: str
    tools: int = 0
    tokens: int = 0
    error: str = ""
    advice: str = ""
    notes: Sequence[str] = ()
    last_output: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "ok": not self.error,
            "tools": self.tools,
            "tokens": self.tokens,
            "error": self.error,
            "advice": self.advice,
            "notes": list(self.notes),
            "last_output": list(self.last_output),
        }


def try_server(config: Path | None, name: str) -> Trial:
    """Start a server of the configuration once, and list what it offers."""
    settings = settings_of(config)
    viewer = acting(settings)
    if not VERBOSITY.verbose:
        logs.set_up_logging(verbose=False, quiet=True)  # what the log would say of the server is printed
    return run(lambda: _try(settings, name, viewer))


async def _try(settings: Settings, name: str, viewer: Viewer) -> Trial:
    async with open_gateway(settings, asks_models=False) as gateway:
        if VERBOSITY.quiet:
            [report] = await gateway.sync([name], viewer=viewer)
        else:
            with err.status(f"trying {visible(name)} …"):
                [report] = await gateway.sync([name], viewer=viewer)
        status = next(one for one in gateway.watched_servers(viewer) if one.name == name)
        lines = list(gateway.last_output(name, viewer))[-_SHOWN_LINES:] if report.error else []
        return Trial(
            name=name,
            tools=status.tools,
            tokens=status.cost_tokens,
            error=report.error,
            advice=advice(status, lines) if report.error else "",
            notes=[*report.notes, *filter(None, [parts_withheld(status.withheld_parts)])],
            last_output=lines,
        )


def show_trial(trial: Trial) -> None:
    """Print what came of it; a server that does not work stays in the configuration."""
    word = visible(quote(trial.name))
    if not trial.error:
        what = f"{count_of(trial.tools, 'tool')}, {count_of(trial.tokens, 'token')}"
        out.note(Text.assemble(("It works", "green"), f": {what}. `maitred search` finds them."))
    else:
        err.print(Text.assemble(("It does not work yet", "red"), f": {visible(trial.error)}"))
        for line in trial.last_output:
            err.print(Text(f"    | {visible(line)}"))
        err.print(Text(f"    advice: {trial.advice}"))
        err.print(Text(f"`maitred doctor {word}` tries it again, `maitred remove {word}` takes it out."))
    for note in trial.notes:
        out.note(Text(f"    note: {visible(note)}"))
