"""An error of a chain comes with what would be right: the name that was meant, or what there is instead."""

import pytest

from maitred.chains.base import ChainFunction, ChainLimits, ChainModule, ChainProgram
from maitred.chains.hints import MODULES, with_hint
from maitred.chains.monty import MontySandbox

SEARCH = ChainFunction(
    name="search", tool="github__search", stub="async def search(q: str, limit: int = ...) -> Any: ..."
)
PROGRAM = ChainProgram(
    code="…",
    modules=[ChainModule(name="github", server="github", functions=[SEARCH])],
    known={
        "github": ["search", "close", "create_issue"],
        "time_": ["now"],
        **{f"server_{n}": [] for n in range(40)},
    },
    inputs={"where": "/"},
)


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("ModuleNotFoundError: No module named 'gihub'", "Did you mean `github`? The servers are github,"),
        ("Cannot resolve imported module `server_x`", "and 30 more; beside them there are asyncio,"),
        ("Cannot resolve imported module `heapq`", "Write the few lines that you need of it."),
        ("No module named 'requests'", "There is no network here"),
        (
            "AttributeError: module 'github' has no attribute 'create_isue'",
            "Did you mean `create_issue`? It has",
        ),
        ("Module `github` has no member `x`", ". It has search, close, create_issue."),
        ("ImportError: cannot import name 'serch' from 'github' (unknown)", "Did you mean `search`?"),
        ("AttributeError: module 'asyncio' has no attribute 'create_task'", "asyncio.gather"),
        ("NameError: name 'github' is not defined", "Write `import github` first."),
        ("module 'time' has no attribute 'now'", "write `import time_`"),
        ("Module `asyncio` has no member `create_task`", "asyncio.gather"),
        ("Name `open` used when not defined", "There are no files"),
        ("NameError: name 'true' is not defined", "Write True, False or None."),
        ("AttributeError: 'dict' object has no attribute 'x'", 'write `x["key"]`'),
        ("TypeError: 'list' object is not an iterator", "next(iter(["),
        ("No module named 'traceback'", "Write the few lines that you need of it."),
        ("Name `json` used when not defined", "Write `import json` first."),
        ("NameError: name 'search' is not defined", "Write `github.search`, after `import github`."),
        ("NameError: name 'cal_tool' is not defined", "Did you mean `call_tool`?"),
        ("NameError: name 'wher' is not defined", "Did you mean `where`?"),
        (
            "Argument `query` does not match any known parameter of function `search`",
            "It takes: async def search(q: str, limit: int = ...) -> Any",
        ),
    ],
)
def test_a_message_is_followed_by_what_to_write(message: str, advice: str) -> None:
    told = with_hint(message, PROGRAM)
    assert told.startswith(f"{message}. ")
    assert advice in told


@pytest.mark.parametrize("message", ["NameError: name 'xyzzy' is not defined", "ValueError: no"])
def test_a_message_that_says_it_all_is_left_alone(message: str) -> None:
    assert with_hint(message, PROGRAM) == message


@pytest.mark.anyio
async def test_every_module_that_is_named_can_be_imported() -> None:
    """Advice that fails in its turn is worse than none."""

    async def call(tool: str, arguments: object) -> object:
        return None

    async with MontySandbox(jail=False) as sandbox:
        for module in MODULES:
            outcome = await sandbox.run(ChainProgram(code=f"import {module}\n1"), call, ChainLimits())
            assert outcome.value == 1, module
