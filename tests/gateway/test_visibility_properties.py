"""True of any declarations and any calls: what is hidden is not called, and what is visible not refused.

Facts and rules are worked out here a second time, in Python, so that a fault has to be made twice to pass.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import mcp_types as types
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from tests.gateway.rig import SOON_S, settings_of
from tests.support.viewers import agent

from maitred.backends.base import NOT_ASKED
from maitred.config.settings import Settings
from maitred.gateway import Gateway
from maitred.model.access import Viewer
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import make_tables, open_gateway

READS = frozenset({"look", "list"})
TOOLS = ("look", "list", "open", "close", "push")
PATHS = ("direct", "call_tool", "call_read_only_tool", "chain")
BEGIN = {"on": False, "n": 0, "mode": "idle"}
Facts = dict[str, Any]
Holds = Callable[[Facts], bool]
Change = Callable[[Facts, Mapping[str, Any]], Any]
Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Both:
    """Something as it is written in a configuration, and what it means."""

    written: Any
    means: Callable[..., Any]


def _joined(sign: str, one: Both, other: Both) -> Both:
    mean: Callable[[Facts], bool] = (
        (lambda f: one.means(f) and other.means(f))
        if sign == "&&"
        else (lambda f: one.means(f) or other.means(f))
    )
    return Both(written=f"({one.written}) {sign} ({other.written})", means=mean)


ATOMS = st.sampled_from([
    Both(written="on", means=lambda f: f["on"]),
    Both(written="!on", means=lambda f: not f["on"]),
    Both(written="n > 1", means=lambda f: f["n"] > 1),
    Both(written="n % 2 == 0", means=lambda f: f["n"] % 2 == 0),
    Both(written='mode == "busy"', means=lambda f: f["mode"] == "busy"),
    Both(written='mode != "busy"', means=lambda f: f["mode"] != "busy"),
    Both(written="1 / n > 0", means=lambda f: f["n"] == 1),  # and of 0 it cannot be worked out
    Both(written='"admin" in roles', means=lambda _: False),
])  # fmt: skip
EXPRESSIONS = ATOMS | st.builds(_joined, st.sampled_from(["&&", "||"]), ATOMS, ATOMS)
RULES = EXPRESSIONS | st.just(Both(written={"rule": "even"}, means=lambda f: f["n"] % 2 == 0))
EFFECTS = {
    "on": st.sampled_from([
        Both(written=True, means=lambda *_: True),
        Both(written={"reset": True}, means=lambda *_: False),
        Both(written="$.on", means=lambda _, said: said["on"]),
    ]),
    "n": st.sampled_from([
        Both(written={"add": 1}, means=lambda f, _: f["n"] + 1),
        Both(written={"add": -2}, means=lambda f, _: max(0, f["n"] - 2)),
        Both(written="$arguments.n", means=lambda _, said: said["n"]),
    ]),
    "mode": st.sampled_from([
        Both(written="busy", means=lambda *_: "busy"),
        Both(written="$.deep[0].mode", means=lambda _, said: said["mode"]),
    ]),
}  # fmt: skip
CHANGES = st.fixed_dictionaries({}, optional=EFFECTS)


def even(_: str, facts: Mapping[str, Any]) -> bool | str:
    """A rule in Python."""
    return facts["n"] % 2 == 0 or "has an odd number"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call: by whom, on which way, and what the server is to answer."""

    tool: str
    path: str
    who: int
    said: Mapping[str, Any]
    fails: bool


CALLS = st.lists(
    st.builds(
        Call,
        tool=st.sampled_from(TOOLS),
        path=st.sampled_from(PATHS),
        who=st.integers(0, 2),
        said=st.fixed_dictionaries({
            "on": st.booleans(), "n": st.integers(0, 3), "mode": st.sampled_from(["idle", "busy"]),
        }),
        fails=st.integers(0, 5).map(lambda n: n == 0),
    ),
    max_size=12,
)  # fmt: skip


class Echo:
    """A server that answers with its arguments; `made` are the tools that were called."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def sdk(self) -> Server[Any]:
        return Server("s", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _: Context, __: object) -> types.ListToolsResult:
        hints = types.ToolAnnotations(read_only_hint=True)
        return types.ListToolsResult(
            tools=[
                types.Tool(name=n, input_schema={"type": "object"}, annotations=hints if n in READS else None)
                for n in TOOLS
            ]
        )

    async def _call(self, _: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.made.append(params.name)
        said = dict(params.arguments or {})
        answer = {"on": said["on"], "deep": [{"mode": said["mode"]}]}
        return types.CallToolResult(content=[], structured_content=answer, is_error=said["fails"])


@dataclass(kw_only=True)
class Rig:
    """A gateway that lives in another thread, where its event loop is."""

    portal: BlockingPortal
    gateway: Gateway
    surface: McpSurface
    server: Echo
    settings: Settings
    numbers: Iterator[int] = field(default_factory=count)

    def declare(self, raw: Mapping[str, Any]) -> None:
        """Take over other declarations, as a changed configuration does."""
        specs = {"s": replace(self.settings.servers["s"], visibility=raw)}
        tables = make_tables(replace(self.settings, servers=specs), rules={"even": even})
        self.portal.call(self.gateway._visibility.use, tables)

    def viewers(self) -> Sequence[Viewer]:
        """Two connections and somebody of the stateless era, who have called nothing yet."""
        principal = f"p{next(self.numbers)}"
        stateless = agent(principal)
        return [stateless, *(replace(stateless, era="handshake", connection=c) for c in ("1", "2"))]

    def call(self, call: Call, viewer: Viewer) -> str:
        """Make a call; all text of its answer."""
        return self.portal.call(self._called, call, viewer)

    async def _called(self, call: Call, viewer: Viewer) -> str:
        arguments = {**call.said, "fails": call.fails}
        if call.path == "chain":
            program = f'{{"tool": "s__{call.tool}", "arguments": {json.dumps(arguments)}}}'
            return (await self.gateway.run_chain(program, viewer=viewer)).text
        params = {"name": f"s__{call.tool}", "arguments": arguments}
        if call.path != "direct":
            params = {"name": call.path, "arguments": params}
        result = await self.surface.call_tool(params, "2025-11-25", NOT_ASKED, viewer)
        return " ".join(block.get("text", "") for block in result["content"])


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    server = Echo()
    own = settings_of(tmp_path_factory.mktemp("c"), "s")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_gateway(own, in_process={"s": server.sdk()})) as gateway,
    ):
        assert portal.call(gateway.settled, SOON_S)
        yield Rig(portal=portal, gateway=gateway, surface=McpSurface(gateway), server=server, settings=own)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rules=st.dictionaries(st.sampled_from([*TOOLS, "*", "l*", "*l*"]), RULES, max_size=5),
    effects=st.dictionaries(st.sampled_from(TOOLS), CHANGES, max_size=4),
    calls=CALLS,
)
def test_what_is_hidden_is_never_called_and_what_is_visible_never_refused_for_it(
    rig: Rig, rules: Mapping[str, Both], effects: Mapping[str, Mapping[str, Both]], calls: Sequence[Call]
) -> None:
    """On every way, whoever calls, whatever was called before. Source: issue 6, "property test"."""
    rig.declare(
        {
            "facts": BEGIN,
            "on_success": {t: {f: one.written for f, one in made.items()} for t, made in effects.items()},
            "visible_when": {t: one.written for t, one in rules.items()},
        }
    )
    viewers = rig.viewers()
    facts: list[Facts] = [dict(BEGIN) for _ in viewers]
    for call in calls:
        mine, made = facts[call.who], len(rig.server.made)
        visible = rule_of(call.tool, rules)(mine)
        hidden = {key.name for key in rig.gateway._visibility.hidden(viewers[call.who])}
        assert (call.tool in hidden) is not visible

        text = rig.call(call, viewers[call.who])

        allowed = call.path != "call_read_only_tool" or call.tool in READS
        assert rig.server.made[made:] == ([call.tool] if visible and allowed else [])
        assert ("cannot be called now: it " in text) is not visible
        if visible and allowed and not call.fails:
            changed = {f: one.means(mine, call.said) for f, one in effects.get(call.tool, {}).items()}
            mine.update(changed)


def rule_of(tool: str, rules: Mapping[str, Both]) -> Holds:
    """What the most specific rule for a tool means; by the length of patterns here."""
    fitting = {"look": ["look", "l*", "*l*", "*"], "list": ["list", "l*", "*l*", "*"], "open": ["open", "*"],
               "close": ["close", "*l*", "*"], "push": ["push", "*"]}  # fmt: skip
    found = next((rules[name] for name in fitting[tool] if name in rules), None)
    return found.means if found else lambda _: True
