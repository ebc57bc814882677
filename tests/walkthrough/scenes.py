"""What is typed in the walk-through, what one sees then, and what has to be in the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One command. `shows` are parts of its answer; `answers` are what is typed when a text is asked for."""

    caption: str
    command: str
    shows: Sequence[str]
    answers: Sequence[tuple[str, str]] = ()


FILES: Final = {
    "dinner.py": """\
import asyncio, time_

zones = ["Asia/Tokyo", "America/New_York", "Africa/Nairobi"]
paris = {"source_timezone": "Europe/Paris", "time": "19:30"}
found = await asyncio.gather(*[time_.convert_time(**paris, target_timezone=zone) for zone in zones])
return {zone: one["target"]["datetime"][11:16] for zone, one in zip(zones, found)}
""",
    "clock.yaml": """\
name: clock
command: mcp-server-time
args: [--local-timezone, Asia/Tokyo]
""",
}
"""Files in the folder where the commands are typed."""

SCENES: Final[Sequence[Scene]] = (
    Scene(
        caption="The demonstration of `make demo`: three real servers, what their tools cost, and the menu.",
        command="maitred demo",
        shows=("What an agent without maitred carries", "tokens raw", "as a menu", "time__convert_time("),
    ),
    Scene(
        caption="Now servers of your own. The first one makes the configuration, and is tried at once.",
        command="maitred add time -- mcp-server-time --local-timezone UTC",
        shows=("Added 'time' to", "~/.config/maitred/maitred.yaml", "It works: 2 tools"),
    ),
    Scene(
        caption="A second one. `maitred import` would take over those of your other clients.",
        command="maitred add git -- mcp-server-git --repository ~/kitchen",
        shows=("Added 'git'", "It works: 12 tools"),
    ),
    Scene(
        caption="Is all well? The doctor checks the configuration and starts each server once.",
        command="maitred doctor",
        shows=("fine, 2 servers", "ok    time: 2 tools", "ok    git: 12 tools", "0 with faults"),
    ),
    Scene(
        caption="What is known now. A catalog is read once; servers start only when they are needed.",
        command="maitred list",
        shows=("2 servers, 14 tools",),
    ),
    Scene(
        caption="An agent searches by capability, several at once. Each line is ready to be called.",
        command='maitred search "convert a time between zones" "show the commit log"',
        shows=("time__convert_time(source_timezone: str", "git__git_log(repo_path: str", "[strong]"),
    ),
    Scene(
        caption="More about one tool, where a line is not enough.",
        command="maitred info time__convert_time --full",
        shows=('"source_timezone"', '"readOnlyHint":true'),
    ),
    Scene(
        caption="And the call. The server starts, answers, and stays for the next one.",
        command=(
            "maitred call time__convert_time source_timezone=Europe/Paris time=19:30"
            " target_timezone=Asia/Tokyo"
        ),
        shows=('"time_difference": "+', "Asia/Tokyo"),
    ),
    Scene(
        caption="A mistake costs one turn: the answer has what the next try needs.",
        command="maitred call time__convert_time time=19:30",
        shows=("it was not called", '"target_timezone" is a required property', "Its parameters"),
    ),
    Scene(
        caption="A program of the agent calls many tools; only its result comes back.",
        command="cat dinner.py && maitred chain run dinner.py",
        shows=("import asyncio, time_", "3 calls", "Africa/Nairobi"),
    ),
    Scene(
        caption="The menu as an agent reads it: often used tools, then categories with counts.",
        command="maitred menu",
        shows=("Often used:", "Categories:", "14 tools on 2 servers"),
    ),
    Scene(
        caption="A team registers servers by manifests. Six checks look at each before it may start.",
        command="cat clock.yaml && maitred register clock.yaml",
        shows=("registered; waits for your approval",),
    ),
    Scene(
        caption="What waits for a person, and why.",
        command="maitred approvals",
        shows=("clock  waits for your approval", "1 server waits for a decision"),
    ),
    Scene(
        caption="Until then nobody calls it, and every caller reads the reason.",
        command="maitred call clock__get_current_time timezone=Asia/Tokyo",
        shows=("cannot be called now", "approval"),
    ),
    Scene(
        caption="A person decides. The decision is kept, with who took it and what was seen.",
        command="maitred approve clock",
        shows=("Approved 'clock'",),
        answers=(("[y/N]", "y\n"),),
    ),
    Scene(
        caption="Now it runs, in a jail where the machine has one, and answers.",
        command="maitred call clock__get_current_time timezone=Asia/Tokyo",
        shows=('"timezone": "Asia/Tokyo"',),
    ),
    Scene(
        caption="How tools were used, and what finding them cost.",
        command="maitred stats",
        shows=("time__convert_time", "calls"),
    ),
    Scene(
        caption="Who did what: a chain of hashes, so that a line that is changed or lost is noticed.",
        command="maitred audit --tool time && maitred audit verify",
        shows=("time/convert_time", "arguments_invalid", "each is as it was written"),
    ),
    Scene(
        caption="What every answer of the menu costs in tokens, measured on this catalog.",
        command="maitred budget",
        shows=("All within their limits.",),
    ),
    Scene(
        caption="And the line for your client, in place of all its servers. That is the walk-through.",
        command="maitred entry",
        shows=('{"mcpServers": {"maitred": {"command":', '"serve"'),
    ),
)
