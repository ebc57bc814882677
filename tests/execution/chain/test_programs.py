"""Programs as language models write them: right ones run as in Python, wrong ones are told once.

Fifty in each file; those behind the first were written before what they judge. The result of a right one is
what Python itself makes of it. Source: issue "What broke", 13.
"""

import asyncio
import datetime
import json
import math
import re
import sys
import textwrap
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.cpu import cpu_within

from maitred.chains.base import ChainFunction, ChainLimits, ChainModule, ChainProgram
from maitred.chains.monty import MontySandbox
from maitred.chains.syntax import usual

pytestmark = pytest.mark.anyio

FILES = [
    Path(__file__).parents[2] / "data" / "chains" / name
    for name in ("programs.txt", "unseen.txt", "third.txt")
]
_LATE = "late: "
TOOLS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "shop": {"search": ("query", "limit"), "get": ("id",), "order": ("id", "count")},
    "notes": {"write": ("title", "text"), "list": ()},
    "weather": {"now": ("city",)},
}
ITEMS = [
    {"id": 1, "name": "Aurora", "kind": "lamp", "price": 49.5, "stock": 12},
    {"id": 2, "name": "Birch", "kind": "chair", "price": 120.0, "stock": 2},
    {"id": 3, "name": "Comet", "kind": "lamp", "price": 19.25, "stock": 0},
    {"id": 4, "name": "Dune", "kind": "rug", "price": 310.0, "stock": 4},
    {"id": 5, "name": "Elm", "kind": "table", "price": 450.75, "stock": 1},
    {"id": 6, "name": "Flint", "kind": "lamp", "price": 88.0, "stock": 7},
]
TEMPERATURES = {"Rome": 24, "Oslo": -3, "Lima": 19}


@dataclass
class Told:
    """What is told of a wrong program, and what its author writes then."""

    part: str
    then: str


@dataclass
class Shop:
    """The tools, with what was written by them."""

    notes: list[dict[str, str]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        self.calls.append(tool)
        given = dict(arguments)
        match tool:
            case "shop__search":
                query, limit = given["query"], given.get("limit", 10)
                return [dict(i) for i in ITEMS if query in (i["kind"], "")][:limit]
            case "shop__get" if given["id"] <= len(ITEMS):
                return dict(ITEMS[given["id"] - 1])
            case "shop__order":
                return {"number": given["id"] * 1000 + given["count"]}
            case "notes__write":
                self.notes.append({"title": given["title"], "text": given["text"]})
                return {"ok": True}
            case "notes__list":
                return list(self.notes)
            case "weather__now" if given["city"] in TEMPERATURES:
                degrees = TEMPERATURES[given["city"]]
                return {"temperature": degrees, "text": f"It is {degrees} degrees, wind 5."}
            case _:
                raise RuntimeError(f"{tool} failed: nothing is known of that")


def _read() -> tuple[dict[str, str], dict[str, tuple[str, Told]]]:
    right, wrong = {}, {}
    lines = "\n".join(file.read_text(encoding="utf-8") for file in FILES).split("\n")
    for part in "\n".join(line for line in lines if not line.startswith("# ")).split("\n=== ")[1:]:
        title, _, body = part.partition("\n")
        if not title.startswith(("wrong: ", _LATE)):
            right[title] = body.rstrip()
            continue
        code, _, rest = body.partition("--- told\n")
        told, _, then = rest.partition("--- next\n")
        wrong[title.removeprefix("wrong: ")] = (code.rstrip(), Told(told.strip(), then.rstrip()))
    return right, wrong


RIGHT, WRONG = _read()


def program(code: str) -> ChainProgram:
    modules = [
        ChainModule(
            name=server,
            server=server,
            functions=[
                ChainFunction(
                    name=name,
                    tool=f"{server}__{name}",
                    parameters=[(one, one) for one in names],
                    required=[one for one in names if one != "limit"],
                    stub=f"async def {name}({', '.join(f'{one}: Any = ...' for one in names)}) -> Any: ...",
                )
                for name, names in tools.items()
            ],
        )
        for server, tools in TOOLS.items()
    ]
    return ChainProgram(code=code, modules=modules)


async def by_python(code: str, shop: Shop) -> Any:
    """What Python makes of a program, which has imports for what a model forgets."""
    modules: dict[str, ModuleType] = {}
    for server, tools in TOOLS.items():
        modules[server] = ModuleType(server)
        for name, takes in tools.items():
            setattr(modules[server], name, _function(shop, f"{server}__{name}", takes))
    kept = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    given = {"asyncio": asyncio, "json": json, "re": re, "math": math, "datetime": datetime}
    names: dict[str, Any] = {**given, **modules, "call_tool": shop.call, "__name__": "program"}
    try:
        code = code.replace("global ", "nonlocal ").replace("from __future__ import annotations", "")
        exec("async def program():\n" + textwrap.indent(code, "    "), names)  # of our own file
        return await names["program"]()
    finally:
        for name, module in kept.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def _function(shop: Shop, tool: str, names: tuple[str, ...]) -> Any:
    async def function(*values: Any, **named: Any) -> Any:
        return await shop.call(tool, {**dict(zip(names, values, strict=False)), **named})

    return function


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[MontySandbox]:
    async with MontySandbox() as sandbox:
        yield sandbox


def test_there_are_fifty_in_each_file() -> None:
    assert (len(RIGHT), len(WRONG)) == (122, 36)


@pytest.mark.parametrize("what", RIGHT)
async def test_a_right_program_runs_at_the_first_try(what: str, sandbox: MontySandbox) -> None:
    """With the result that Python gives, and the same calls."""
    ours, theirs = Shop(), Shop()
    wanted = await by_python(RIGHT[what], theirs)

    outcome = await sandbox.run(program(RIGHT[what]), ours.call, ChainLimits())

    assert outcome.fault is None, outcome.fault
    assert plain(outcome.value) == plain(wanted)
    assert sorted(ours.calls) == sorted(theirs.calls)


@pytest.mark.parametrize("what", RIGHT)
async def test_a_dry_run_holds_nothing_against_a_right_program(what: str, sandbox: MontySandbox) -> None:
    assert await sandbox.check(program(RIGHT[what])) == []


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_program_is_told_once_what_to_write(what: str, sandbox: MontySandbox) -> None:
    """Nothing was written before where that can be seen, and the next try succeeds."""
    code, told = WRONG[what]
    shop = Shop()

    outcome = await sandbox.run(program(code), shop.call, ChainLimits())
    assert outcome.fault is not None
    fault = outcome.fault
    assert told.part in f"{fault.message} (line {fault.line})"
    assert what.startswith(_LATE) or "notes__write" not in shop.calls

    then = await sandbox.run(program(told.then), shop.call, ChainLimits())
    assert then.fault is None, then.fault
    assert plain(then.value) == plain(await by_python(told.then, Shop()))


@pytest.mark.parametrize(
    "code",
    [
        "from statistics import mean as m, median\n"
        "return [m([1, 2]), m([2, 4]), round(m([0.1] * 3), 9), median([3, 1])]",
        "import statistics\nf = statistics.mode\nreturn f(['b', 'a', 'a', 'b']), statistics.fmean([1, 2])",
        "import statistics\nd = [2.5, 3.25, 5.5, 11.25]\nreturn round(statistics.stdev(d), 12)",
        "import statistics\nreturn round(statistics.pstdev([1, 5, 9, 13]), 12)",
        "from operator import itemgetter\nd = [{'a': 2, 'b': 1}, {'a': 1, 'b': 3}]\n"
        "return sorted(d, key=itemgetter('a')), sorted(d, key=itemgetter('b', 'a'))",
        "import heapq\nd = [3, 1, 2]\nreturn heapq.nlargest(2, d), heapq.nsmallest(2, d, key=lambda n: -n)",
        "import uuid, json\nname = str(uuid.uuid4())\nreturn json.dumps(len(name))",
        "def count():\n    yield 1; yield 2\nreturn list(count()), sum(count()), max(n for n in count())",
        "def g(*all, last=0):\n    for one in all:\n        if one > 2:\n            return\n"
        "        yield one\n    yield last\nreturn list(g(1, 2, last=7)), list(g(1, 5)), next(g(4), 'none')",
        "def walk(tree,\n         depth=0,\n         ):\n    yield depth, tree[0]\n"
        "    for part in tree[1:]:\n        yield from walk(part, depth + 1)\n"
        "return list(walk(['a', ['b'], ['c', ['d']]]))",
        "def numbers():\n    n = 0\n    while True:\n        n += 1\n        if n > 3:\n            break\n"
        "        yield n\nreturn [n * n for n in numbers()]",
        "def outer():\n    def inner(n):\n        yield n\n    return list(inner(3))\nreturn outer()",
        "import asyncio, shop\nreturn [i['id'] for i in await asyncio.gather(*map(shop.get, (1, 2)))]",
        "import asyncio\nfrom shop import get\n"
        "return [i['id'] for i in await asyncio.gather(*map(lambda n: get(id=n), range(1, 3)))]",
        "return list(map(lambda n: n + 1, [1, 2])), list(map(str, [1]))",
        "def call_tool(name):\n    return [name]\nreturn [one for one in call_tool('a')]",
        "import asyncio, shop\nfound = []\n"
        "for one in asyncio.as_completed([shop.get(id=n) for n in (1, 99)]):\n"
        "    try:\n        found.append((await one)['id'])\n    except Exception:\n        found.append(0)\n"
        "return sorted(found)",
        "rows = [{'id': 3, 'name': 'c'}]\nfirst = next(\n    (r for r in rows if r['id'] == 3)\n)['name']\n"
        "return first",
        "def f():\n    return next(\n        (\n            n for n in [7]\n        ),\n    )-1\nreturn f()",
        "import asyncio, shop\nreturn (\n    await asyncio.create_task(\n        shop.get(id=1)\n    )\n"
        ")['id']",
        "import asyncio, shop\nt = asyncio.create_task(\n    shop.get(id=1)\n); n = 2\n"
        "return (await t)['id'], n",
        "counts = {'a': 3, 'b': 9}\nreturn max(counts, key=counts.get), min(counts, key=counts.get)",
        "names = ['b', 'A']\nnames.sort(key=str.lower)\nfound = []\nadd = found.append\nfor n in names:\n"
        "    add(n)\nreturn found, list(map(str.upper, names)), list(filter(str.isupper, names))",
        "from collections import Counter\nc = Counter('abca')\n"
        "return sorted(c, key=c.get), list(map('{}!'.format, [1, 2])), list(map(', '.join, ['ab', 'cd']))",
        "lower = str.lower\nclass Box:\n    def __init__(self):\n        self.order = ['x', 'a']\n"
        "    def rank(self, one):\n        return self.order.index(one)\n"
        "    def sorted(self):\n        return sorted(self.order, key=self.order.index)\n"
        "b = Box()\nreturn lower('A'), b.sorted(), sorted(['a', 'x'], key=b.rank)",
        "from datetime import datetime\ndays = ['2026-02-01', '2026-01-01']\n"
        "return [d.month for d in map(datetime.fromisoformat, days)], min(days, key=datetime.fromisoformat)",
        "class Item:\n    def __init__(self, count):\n        self.count = count\n"
        "items = [Item(3), Item(4)]\ncount = items[0].count\nreturn count + items[1].count",
        "import json, datetime\nclass P:\n    def __init__(self):\n        self.n = 1\n"
        "def plain(one):\n    return {'n': one.n} if isinstance(one, P) else str(one)\n"
        "d = {'at': datetime.date(2026, 1, 2), 'p': [P(), (1, None, True)], 3: 2.5}\n"
        "return json.dumps(d, indent=1, default=plain), json.dumps([1], default=str), json.dumps({'a': 1})",
        "import re\nword = re.compile(r'(\\w)(\\d)?')\ndef up(m):\n    return m.group(1).upper()\n"
        "return re.sub('(a)', up, 'ab ac', count=1), "
        "word.sub(lambda m: m[1] + m[1], 'a1 b'), re.sub('(B)', up, 'abb', flags=re.I), re.sub('b', "
        "'c', 'abb')",
        "from datetime import datetime as D, timedelta as T, date\nfrom json import dumps as d\n"
        "return (D(2026, 1, 1) + T(hours=1.5)).isoformat(), d([date(2026, 1, 1)], default=str)",
        "from datetime import date\nclass A:\n    def go(self):\n        return 1\n"
        "return [hasattr(*p) for p in ((date(2026, 1, 1), 'isoformat'), ('a', 'upper'), ([], 'append'), "
        "({}, 'keys'), (A(), 'go'), (A(), 'stop'), ('a', 'append'), (5, 'name'), ({'items': 1}, 'nothing'))]",
        "import json\nfrom datetime import datetime\n"
        "def plain(o):\n    return o.isoformat() if hasattr(o, 'isoformat') else str(o)\n"
        "return json.dumps([datetime(2026, 1, 1), {1}], default=plain)",
        "seen = set()\nreturn [x for x in ['a', 'b', 'a'] if not (x in seen or seen.add(x))]",
        "d = {'a': 1}\nget = d.get\nd = {'a': 2}\nreturn get('a')",
        "args = (2.675, 2)\nreturn round(*args), round(*[2.5])",
        "import json, re as r\nreturn json.dumps(obj={'a': {1}}, default=list), "
        "r.sub('a', lambda m: 'x', 'aa'), "
        "r.sub(pattern='a', repl=lambda m: 'y', string='aa')",
        "def f(string):\n    return string.upper()\nimport string\nreturn f('a'), string.digits",
        "class A:\n    def sub(self, f):\n        return f(1)\na = A()\ndef g(n):\n    return n + 1\n"
        "return a.sub(g)",
        "from re import sub\nreturn sub('x+', lambda m: '-', 'abxxd')",
        "from datetime import datetime, timezone, timedelta\n"
        "a = datetime.fromtimestamp(1700000000.25, tz=timezone.utc)\n"
        "b = datetime.fromtimestamp(86400, timezone(timedelta(hours=2)))\n"
        "return a.isoformat(), b.isoformat(), datetime.utcfromtimestamp(5).isoformat(), "
        "datetime.utcnow().tzinfo",
        "import datetime as dt\nfrom datetime import UTC\nhalf = dt.timedelta(hours=1.5, days=-2)\n"
        "return str(half), dt.timedelta(minutes=90).seconds, dt.datetime.fromtimestamp(0, UTC).isoformat(), "
        "dt.timedelta(seconds=0.1).total_seconds()",
        'import textwrap\nt = """\n    a\n      b\n\n   \n    c"""\n'
        "return textwrap.dedent(t), textwrap.indent('a\\n\\nb\\n', '> ')",
        "from textwrap import dedent as d, indent\nreturn d('\\ta\\n\\t b'), d('no'), indent('', '-')",
        "from string import ascii_letters, digits\nimport string\n"
        "return ascii_letters + digits + string.punctuation + string.hexdigits, string.capwords('a bC  d')",
        "from contextlib import suppress\nn = 0\nwith suppress(KeyError, ValueError):\n    {}['a']\n"
        "    n = 1\n"
        "try:\n    with suppress(KeyError):\n        int('x')\nexcept ValueError:\n    n += 2\nreturn n",
        "import statistics as s\nd = [2, 4, 4, 4, 5, 5, 7, 9]\nreturn s.mean(d), s.stdev(d), s.pstdev(d)",
        "import statistics\nd = [2, 4, 4, 4, 5, 5, 7, 9]\nreturn [round(n, "
        "9) for n in (statistics.pstdev(d, 5), "
        "statistics.variance(d), statistics.pvariance(d, mu=5), statistics.median_low(d), "
        "statistics.median_high(d), *statistics.quantiles(d), *statistics.quantiles([1.5, 9, 3], n=10), "
        "*statistics.quantiles(d, n=5, method='inclusive'), *statistics.multimode([1, 1, 2, 2, 3]))]",
        "return [round(n, 2) for n in (2.675, 1.005, 0.125, -2.675, 7, 1e16)], round(2.5), "
        "round(1234.5, -2), "
        "round(3.14159, ndigits=3)",
        "import html, urllib.parse\nfrom urllib.parse import quote, urlencode\n"
        "return html.escape('<a b=\"c\">&', quote=True), quote('ä b/c?'), quote('a/b', safe=''), "
        "urlencode({'q': 'a b&c', 'n': 5}), urllib.parse.quote_plus('a b+c')",
        "import io, csv\nrows = list(csv.DictReader(io.StringIO('a,b\\n1,2\\n')))\nout = io.StringIO()\n"
        "csv.writer(out).writerow([1, 'x,y'])\nreturn rows, out.getvalue()",
        "from functools import wraps\ndef twice(f):\n    @wraps(f)\n    def inner(*all):\n"
        "        return f(*all) * 2\n    return inner\n@twice\ndef n(a):\n    return a\nreturn n(4)",
        "from operator import attrgetter, add\nfrom functools import reduce\nclass A:\n"
        "    def __init__(self, n):\n        self.n = n\n"
        "return [a.n for a in sorted([A(2), A(1)], key=attrgetter('n'))], reduce(add, [1, 2, 3])",
        "from collections import OrderedDict\nimport collections\n"
        "return list(OrderedDict([('b', 1), ('a', 2)]).items()), collections.Counter('aa')['a']",
        "import uuid\nfrom uuid import uuid4\nreturn len(uuid.uuid4().hex), len(uuid4().hex[:8]), "
        "bytes(2).hex()",
        "x = [1]\nreturn x.__class__.__name__, (1).__class__ == int",
        "round = lambda a, b: (a, b)\nmap = lambda f, d: [f, d]\nreturn round(1, 2), map(1, 2)",
        "random = 5\nimport uuid, statistics\nmath = 2\nreturn len(uuid.uuid4().hex), "
        "statistics.fmean([random, math])",
        "d = {(1, 2): 3, 4: 5}\ndel d[1, 2]\nreturn list(d)",
        "import asyncio\nsem = asyncio.Semaphore(3)\nasync with sem:  # at once: three\n    n = 1\nreturn n",
    ],
)
async def test_what_is_written_for_the_engine_means_the_same(code: str, sandbox: MontySandbox) -> None:
    """In each form that Python has for it; a dry run holds nothing against it."""
    wanted = await by_python(code, Shop())

    outcome = await sandbox.run(program(code), Shop().call, ChainLimits())

    assert outcome.fault is None, outcome.fault
    assert plain(outcome.value) == plain(wanted)
    assert await sandbox.check(program(code)) == []


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("time", "return len(time)"),
        ("uuid", "return len(uuid.strip())"),
        ("shop", "return len(shop.strip())"),
        ("statistics", "return len(statistics.upper())"),
        ("datetime", "return len([one for one in datetime])"),
    ],
)
async def test_what_a_program_is_given_counts_before_modules(
    name: str, code: str, sandbox: MontySandbox
) -> None:
    """A saved chain may name its parameters after anything."""
    given = replace(program(code), inputs={name: "noon"})

    outcome = await sandbox.run(given, Shop().call, ChainLimits())

    assert outcome.fault is None, outcome.fault
    assert outcome.value == 4


@pytest.mark.alone
def test_a_long_program_is_written_otherwise_soon() -> None:
    """Each of its many calls is looked at once."""
    code = "def f():\n" + " x = 1 + 2 + 3\n" * 1_000 + "asyncio.run(g())\n" * 1_000
    with cpu_within(5):
        assert usual(code).code.count("(await g())") == 1_000


@pytest.mark.parametrize(
    "code",
    [
        "def g():\n    while True:\n        yield 1\nreturn next(g())",
        "def g():\n    x = yield 1\nreturn next(g())",
        "def g():\n    yield 1\nf = g\nreturn next(f())",
        "class A:\n    def g(self):\n        yield 1\nreturn list(A().g())",
        "def g(**more):\n    yield 1\nreturn list(g())",
    ],
)
async def test_a_generator_that_cannot_be_a_list_is_told_as_such(code: str, sandbox: MontySandbox) -> None:
    """It is not run as something else."""
    outcome = await sandbox.run(program(code), Shop().call, ChainLimits())

    assert outcome.fault is not None
    assert "Build a list" in outcome.fault.message


async def test_a_program_that_runs_itself_is_run(sandbox: MontySandbox) -> None:
    """As every tutorial begins; what it prints is kept."""
    code = """
import asyncio
import weather

async def main():
    print((await weather.now(city="Rome"))["temperature"])

if __name__ == "__main__":
    asyncio.run(main())
"""
    outcome = await sandbox.run(program(code), Shop().call, ChainLimits())

    assert outcome.fault is None, outcome.fault
    assert outcome.logs == "24\n"


async def test_places_in_a_program_are_those_of_its_author(sandbox: MontySandbox) -> None:
    """Whatever was written otherwise, and whatever stands before it."""
    code = """x = await asyncio.gather(
    call_tool("weather__now", {"city": "Rome"}),
    return_exceptions=True,
)
del x[0]
return x[5]
"""
    outcome = await sandbox.run(program(code), Shop().call, ChainLimits())

    assert outcome.fault is not None
    assert outcome.fault.line == 6
    assert "IndexError" in outcome.fault.message


WRITE = "await notes.write(title='a', text='b')\n"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (
            f"{WRITE}found = shop.search(query='')\nreturn [one for one in found]",
            2,
        ),
        (
            f"{WRITE}found = call_tool('shop__get', dict(id=1))\nreturn found['id']",
            2,
        ),
        (
            f"{WRITE}x = shop.get(id=1)\nreturn x['name'], x['id']",
            2,
        ),
    ],
)
async def test_a_call_that_got_a_name_without_await_is_told_before_anything_is_written(
    code: str, line: int, sandbox: MontySandbox
) -> None:
    """Source: issue "What broke", 13."""
    shop = Shop()

    outcome = await sandbox.run(program(code), shop.call, ChainLimits())

    assert outcome.fault is not None
    assert "Write `await` before the call" in outcome.fault.message
    assert (outcome.fault.line, shop.calls) == (line, [])


@pytest.mark.parametrize(
    "code",
    [
        "found = shop.get(id=1)\nreturn (await found)['id']",
        "found = [shop.get(id=1), shop.get(id=2)]\nreturn len(await asyncio.gather(*found))",
        "one = shop.get(id=1)\nreturn [x['id'] for x in await asyncio.gather(one)]",
        "found = shop.get(id=1)\nfound = await found\nreturn found['id']",
    ],
)
async def test_a_call_that_is_awaited_later_runs(code: str, sandbox: MontySandbox) -> None:
    """By its name, or with others."""
    outcome = await sandbox.run(program(code), Shop().call, ChainLimits())

    assert outcome.fault is None, outcome.fault


async def test_an_argument_of_a_tool_that_is_called_key_is_no_function(sandbox: MontySandbox) -> None:
    """What a tool is given stays as it is written."""
    code = "class A:\n    def __init__(self):\n        self.get = 1\na = A()\nawait shop.get(id=a.get)"

    outcome = await sandbox.run(program(code), Shop().call, ChainLimits())

    assert outcome.fault is None, outcome.fault
