"""A gateway that is decided on without end, for the test that kills it: `decider.py CATALOG`.

Each line of its standard input is a number, for which a child goes to work on the catalog: it opens a gateway
with one server in this process that changes and two that are registered, tells what it finds, and then does
one random thing after the other, telling before each what it is and after it what is in the logs. It ends
when it is killed, or after as many things as a second number says. Importing only once makes many quick.
"""

import json
import os
import random
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
from tests.gateway.allowed import parts_of
from tests.gateway.rig import settings_of
from tests.gateway.shifting import Shifting, tool

from maitred.admission.approval import ApprovalState, replay
from maitred.admission.judge import Judge
from maitred.admission.registry import Registry
from maitred.admission.review import Reviewer
from maitred.catalog import token_worker
from maitred.config.settings import Admission, Settings
from maitred.errors import AdmissionError, MaitredError, NotFoundError
from maitred.gateway import Gateway
from maitred.gateway.admission import Verdict
from maitred.model.access import LOCAL_USER
from maitred.model.approvals import Event
from maitred.model.tools import Tool, ToolCall
from maitred.storage.sqlite import SqliteDatabase
from maitred.wiring import open_gateway

SERVER = str(Path(__file__).parent.parent / "support" / "faulty_server.py")
WARM = (Reviewer, Judge)  # loaded lazily otherwise, by every child anew
MOST = 1_000
LIKELY: Mapping[ApprovalState, Sequence[str]] = {
    "pending": ("approve", "approve", "reject", "register", "withdraw"),
    "approved": ("register", "register", "approve", "approve", "reject", "suspend", "withdraw"),
    "rejected": ("approve", "register", "withdraw"),
    "suspended": ("resume", "resume", "register", "withdraw"),
    "withdrawn": ("register",),
}


async def _estimated(_: object, texts: Sequence[str]) -> Sequence[int]:
    return [len(text) // 4 for text in texts]


def settings_for(path: Path) -> Settings:
    """`beta` is on the list of commands, `alpha` waits for a person."""
    trusted = f"{sys.executable} -I -S {SERVER} count beta"
    admission = Admission(pinning="quarantine", trusted_commands=(trusted,))
    return settings_of(path.parent, "notes", admission=admission)


def manifest(name: str, number: int) -> str:
    """A manifest that is another one for each number."""
    args = json.dumps(["-I", "-S", SERVER, "count", name])
    return f"name: {name}\ndescription: Version {number}.\ncommand: {sys.executable}\nargs: {args}\n"


def tell(what: str, **said: Any) -> None:
    """One line, whole or not at all to whoever waits for its end."""
    os.write(1, json.dumps({"what": what, **said}).encode() + b"\n")


class Decider:
    """Does one thing after the other, the same for the same number."""

    def __init__(self, gateway: Gateway, registry: Registry, notes: Shifting, number: int) -> None:
        self._gateway = gateway
        self._registry = registry
        self._notes = notes
        self._number = number * MOST
        self._random = random.Random(number)

    async def found(self) -> None:
        """Tell all that is there after opening."""
        logs, registered = await self._registry.everything()
        snapshot = self._gateway.snapshot
        visible = {one.name for one in self._gateway.visible_tools(LOCAL_USER)}
        tools = [[t.server, t.key.name, t.description, t.name in visible] for t in snapshot.tools]
        tell(
            "opened",
            logs=_plain(logs),
            registered={name: [one.manifest_hash, one.source] for name, one in registered.items()},
            tools=tools,
            definitions=await self._definitions(logs.get("notes", ())),
            publishes={one.name: one.description for one in self._notes.tools},
            to_be_listed=[name for name, one in snapshot.servers.items() if not one.fingerprint],
            called=[one.name for one in snapshot.tools if await self._called(one, one.name in visible)],
        )

    async def _definitions(self, log: Sequence[Event]) -> Mapping[str, Mapping[str, object]]:
        """What each definition that the log names says of each tool, now: a later one may take its place."""
        said = {}
        for digest in {event.binding.definition for event in log} - {""}:
            if body := await self._registry.definition(digest):
                parts = parts_of(body).items()
                said[digest] = {
                    n: p["description"] for (k, n), p in parts if k == "tool" and isinstance(p, dict)
                }
        return said

    async def _called(self, one: Tool, visible: bool) -> bool:
        if visible and one.server != "notes":
            return False  # it would be started, which takes longer than all the rest
        arguments = {"path": "/"} if one.server == "notes" else {"text": "x", "a": 1, "b": 2}
        try:
            await self._gateway.call(ToolCall(name=one.name, arguments=arguments), viewer=LOCAL_USER)
        except MaitredError:
            return False
        return True

    async def go_on(self) -> None:
        """Do something, and tell."""
        self._number += 1
        server = self._random.choice(["alpha", "beta", "notes", "notes"])
        doing = self._random.choice(LIKELY[await self._state(server)])
        doing = "sync" if server == "notes" and doing in ("register", "withdraw") else doing
        tell("begin", number=self._number, doing=doing, server=server)
        try:
            await self._do(doing, server)
        except (AdmissionError, NotFoundError):
            doing = ""  # not possible as things stand
        logs, _ = await self._registry.everything()
        tell("done", number=self._number, doing=doing, server=server, logs=_plain(logs))

    async def _state(self, server: str) -> ApprovalState:
        state = replay(await self._registry.log(server))
        return state.state if state else "withdrawn"

    async def _do(self, doing: str, server: str) -> None:
        said = str(self._number)
        if doing == "sync":
            self.change()
            await self._gateway.sync([server], viewer=LOCAL_USER)
        elif doing == "register":
            await self._gateway.register_server(
                manifest(server, self._number), source=said, viewer=LOCAL_USER
            )
        else:
            await self._gateway.decide(
                server, cast("Verdict", doing), viewer=LOCAL_USER, why=said, again=True
            )

    def change(self) -> None:
        """Have the server be another one, or the same as some time before."""
        said = f"Read a note, as of version {self._random.randint(0, 2)}."
        tools = [tool("read_note", said), tool("write_note"), tool("send_note")]
        self._notes.tools = tools[: self._random.randint(2, 3)]


def _plain(logs: Mapping[str, Sequence[Event]]) -> Mapping[str, Sequence[Sequence[str]]]:
    return {name: [_told(event) for event in log] for name, log in logs.items()}


def _told(event: Event) -> Sequence[str]:
    bound = event.binding
    return [event.kind, bound.manifest, bound.image, bound.definition, event.who, event.why]


async def work(path: Path, number: int, times: int) -> None:
    notes = Shifting("notes")
    async with open_gateway(settings_for(path), in_process={"notes": notes.sdk()}) as gateway:
        decider = Decider(gateway, Registry(SqliteDatabase(path)), notes, number)
        decider.change()
        await decider.found()
        for _ in range(times):
            await decider.go_on()


def main(path: Path) -> None:
    token_worker.TokenWorker.count = _estimated  # type: ignore[assignment,method-assign]  # its worker costs more than the test
    anyio.run(work, path, 0, 0)
    tell("ready")
    for line in sys.stdin:
        number, times = map(int, line.split())
        child = os.fork()
        if not child:
            try:
                anyio.run(work, path, number, times)
            except BaseException:  # noqa: BLE001  # whatever it was is told
                tell("crashed", how=traceback.format_exc())
            os._exit(0)
        tell("child", pid=child)
        os.waitpid(child, 0)
        tell("ended")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
