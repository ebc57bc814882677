"""Parts of the standard library that the engine lacks and programs often use, written for the engine.

Each part is put before a program that uses it, under a name with the prefix `OWN`. To add a part, add an
entry.
"""

import ast
import datetime
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

OWN: Final = "maitred_"
"""The prefix of names that the gateway adds to programs; no usual program has such names."""


@dataclass(frozen=True)
class LibraryPart:
    """The lines that define one name, without its `OWN`; and the modules and parts that they use.

    A module is also imported under a prefixed name (`maitred_math`), whatever the program uses its name for.
    """

    lines: Sequence[str]
    uses: Sequence[str] = ()


@dataclass(frozen=True)
class Substitution:
    """Calls, by their names in programs, that a part replaces if `wants` returns true."""

    names: Sequence[str]
    wants: Callable[[ast.Call], bool]


_PLAIN: Final = (str, bytes, dict, list, tuple, set)


def _methods(kind: type) -> Sequence[str]:
    return tuple(name for name in dir(kind) if not name.startswith("_"))


PARTS: Final[Mapping[str, LibraryPart]] = {
    "settled": LibraryPart(
        (
            f"async def {OWN}settled(one):",
            "    try:",
            "        return await one",
            "    except Exception as error:",
            "        return error",
        )
    ),
    "gather": LibraryPart(
        (
            f"async def {OWN}gather(*all):",
            f"    return await {OWN}asyncio.gather(*[{OWN}settled(one) for one in all])",
        ),
        ("asyncio", "settled"),
    ),
    "completed": LibraryPart(
        (
            f"async def {OWN}given(one):",
            "    if isinstance(one, Exception):",
            "        raise one",
            "    return one",
            f"async def {OWN}completed(all):",
            f"    return [{OWN}given(one) for one in await {OWN}gather(*all)]",
        ),
        ("gather",),
    ),
    "listed": LibraryPart(
        (
            f"def {OWN}listed(function, *all, **named):",
            "    found = []",
            f"    function(*all, {OWN}out=found, **named)",
            "    return iter(found)",
        )
    ),
    "uuid4": LibraryPart(
        (
            f"def {OWN}uuid4():",
            f"    word = ''.join({OWN}random.choice('0123456789abcdef') for _ in range(32))",
            f"    word = word[:12] + '4' + word[13:16] + {OWN}random.choice('89ab') + word[17:]",
            "    return '-'.join([word[:8], word[8:12], word[12:16], word[16:20], word[20:]])",
        ),
        ("random",),
    ),
    "mean": LibraryPart(
        (
            f"def {OWN}mean(data):",
            "    data = list(data)",
            "    if not data: raise ValueError('mean requires at least one data point')",
            "    if not all(isinstance(one, int) for one in data):",
            f"        return {OWN}math.fsum(data) / len(data)",
            "    return sum(data) // len(data) if sum(data) % len(data) == 0 else sum(data) / len(data)",
        ),
        ("math",),
    ),
    "fmean": LibraryPart(
        (f"def {OWN}fmean(data):", f"    return float({OWN}mean([float(one) for one in data]))"), ("mean",)
    ),
    "median": LibraryPart(
        (
            f"def {OWN}median(data):",
            "    data = sorted(data)",
            "    if not data: raise ValueError('no median for empty data')",
            "    half = len(data) // 2",
            "    return data[half] if len(data) % 2 else (data[half - 1] + data[half]) / 2",
        )
    ),
    "mode": LibraryPart(
        (
            f"def {OWN}mode(data):",
            "    data = list(data)",
            "    if not data: raise ValueError('no mode for empty data')",
            "    return max(dict.fromkeys(data), key=lambda one: data.count(one))",
        )
    ),
    "spread": LibraryPart(
        (
            f"def {OWN}spread(data, less, middle=None):",
            "    data = list(data)",
            "    if len(data) <= less: raise ValueError('variance requires more data points')",
            f"    if middle is None: middle = {OWN}math.fsum(data) / len(data)",
            f"    found = {OWN}math.fsum([(one - middle) ** 2 for one in data]) / (len(data) - less)",
            "    whole = all(isinstance(one, int) for one in data) and found == int(found)",
            "    return int(found) if whole else found",
        ),
        ("math",),
    ),
    "variance": LibraryPart(
        (f"def {OWN}variance(data, xbar=None):", f"    return {OWN}spread(data, 1, xbar)"), ("spread",)
    ),
    "pvariance": LibraryPart(
        (f"def {OWN}pvariance(data, mu=None):", f"    return {OWN}spread(data, 0, mu)"), ("spread",)
    ),
    "stdev": LibraryPart(
        (f"def {OWN}stdev(data, xbar=None):", f"    return {OWN}math.sqrt({OWN}spread(data, 1, xbar))"),
        ("spread", "math"),
    ),
    "pstdev": LibraryPart(
        (f"def {OWN}pstdev(data, mu=None):", f"    return {OWN}math.sqrt({OWN}spread(data, 0, mu))"),
        ("spread", "math"),
    ),
    "multimode": LibraryPart(
        (
            f"def {OWN}multimode(data):",
            "    data = list(data)",
            "    most = max([data.count(one) for one in data], default=0)",
            "    return [one for one in dict.fromkeys(data) if data.count(one) == most]",
        )
    ),
    "median_low": LibraryPart(
        (f"def {OWN}median_low(data):", "    data = sorted(data)", "    return data[(len(data) - 1) // 2]")
    ),
    "median_high": LibraryPart(
        (f"def {OWN}median_high(data):", "    data = sorted(data)", "    return data[len(data) // 2]")
    ),
    "quantiles": LibraryPart(
        (
            f"def {OWN}quantiles(data, n=4, method='exclusive'):",
            "    data = sorted(data)",
            "    if len(data) < 2: raise ValueError('must have at least two data points')",
            "    size = len(data) - 1 if method == 'inclusive' else len(data) + 1",
            "    found = []",
            "    for i in range(1, n):",
            "        j = i * size // n",
            "        if method != 'inclusive': j = min(max(j, 1), len(data) - 1)",
            "        part = i * size - j * n",
            "        j = j if method == 'inclusive' else j - 1",
            "        found.append((data[j] * (n - part) + data[min(j + 1, len(data) - 1)] * part) / n)",
            "    return found",
        )
    ),
    "itemgetter": LibraryPart(
        (
            f"def {OWN}itemgetter(first, *more):",
            "    if not more: return lambda one: one[first]",
            "    return lambda one: tuple([one[key] for key in (first, *more)])",
        )
    ),
    "nlargest": LibraryPart(
        (
            f"def {OWN}nlargest(n, data, key=None):",
            "    return sorted(data, key=key, reverse=True)[:n]",
        )
    ),
    "attrgetter": LibraryPart((f"def {OWN}attrgetter(name):", "    return lambda one: getattr(one, name)")),
    "add": LibraryPart((f"def {OWN}add(one, other):", "    return one + other")),
    "mul": LibraryPart((f"def {OWN}mul(one, other):", "    return one * other")),
    "nsmallest": LibraryPart(
        (f"def {OWN}nsmallest(n, data, key=None):", "    return sorted(data, key=key)[:n]")
    ),
    "suppress": LibraryPart(
        (
            f"class {OWN}suppress:",
            "    def __init__(self, *kinds): self.kinds = kinds",
            "    def __enter__(self): return None",
            "    def __exit__(self, kind, error, place): return isinstance(error, self.kinds)",
        )
    ),
    "StringIO": LibraryPart(
        (
            f"class {OWN}StringIO:",
            "    def __init__(self, text='', newline=None): self.text = text",
            "    def __iter__(self): return iter(self.text.splitlines(True))",
            "    def write(self, text): self.text += text",
            "    def getvalue(self): return self.text",
            "    def read(self): return self.text",
        )
    ),
    "dedent": LibraryPart(
        (
            f"def {OWN}dedent(text):",
            "    lines = [line if line.strip() else '' for line in text.split('\\n')]",
            "    full = [line for line in lines if line]",
            "    margin = 0",
            "    while full and all(",
            "        line[margin:margin + 1] in (' ', '\\t') and line[margin] == full[0][margin]",
            "        for line in full",
            "    ):",
            "        margin += 1",
            "    return '\\n'.join([line[margin:] for line in lines])",
        )
    ),
    "indent": LibraryPart(
        (
            f"def {OWN}indent(text, prefix):",
            "    return ''.join([prefix + one if one.strip() else one for one in text.splitlines(True)])",
        )
    ),
    "ascii_lowercase": LibraryPart((f"{OWN}ascii_lowercase = {string.ascii_lowercase!r}",)),
    "ascii_uppercase": LibraryPart((f"{OWN}ascii_uppercase = {string.ascii_uppercase!r}",)),
    "ascii_letters": LibraryPart((f"{OWN}ascii_letters = {string.ascii_letters!r}",)),
    "digits": LibraryPart((f"{OWN}digits = {string.digits!r}",)),
    "hexdigits": LibraryPart((f"{OWN}hexdigits = {string.hexdigits!r}",)),
    "punctuation": LibraryPart((f"{OWN}punctuation = {string.punctuation!r}",)),
    "capwords": LibraryPart(
        (f"def {OWN}capwords(text):", "    return ' '.join([word.capitalize() for word in text.split()])")
    ),
    "escape": LibraryPart(
        (
            f"def {OWN}escape(text, quote=True):",
            "    text = text.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')",
            "    return text.replace('\"', '&quot;').replace(\"'\", '&#x27;') if quote else text",
        )
    ),
    "quote": LibraryPart(
        (
            f"def {OWN}quote(text, safe='/'):",
            "    kept = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~' + safe",
            "    return ''.join([chr(n) if chr(n) in kept else '%%%02X' % n for n in str(text).encode()])",
        )
    ),
    "quote_plus": LibraryPart(
        (
            f"def {OWN}quote_plus(text, safe=''):",
            f"    return {OWN}quote(text, safe + ' ').replace(' ', '+')",
        ),
        ("quote",),
    ),
    "urlencode": LibraryPart(
        (
            f"def {OWN}urlencode(query):",
            "    pairs = query.items() if isinstance(query, dict) else query",
            f"    return '&'.join([{OWN}quote_plus(key) + '=' + {OWN}quote_plus(one) for key, one in pairs])",
        ),
        ("quote_plus",),
    ),
    "OrderedDict": LibraryPart((f"{OWN}OrderedDict = dict",)),
    "wraps": LibraryPart((f"def {OWN}wraps(function):", "    return lambda one: one")),
    "UTC": LibraryPart((f"{OWN}UTC = {OWN}datetime.timezone.utc",), ("datetime",)),
    "utcnow": LibraryPart(
        (
            f"def {OWN}utcnow():",
            f"    return {OWN}datetime.datetime.now({OWN}datetime.timezone.utc).replace(tzinfo=None)",
        ),
        ("datetime",),
    ),
    "fromtimestamp": LibraryPart(
        (
            f"def {OWN}fromtimestamp(seconds, tz=None):",
            f"    passed = {OWN}datetime.timedelta(microseconds=round(seconds * 1000000))",
            f"    found = {OWN}datetime.datetime(1970, 1, 1, tzinfo={OWN}datetime.timezone.utc) + passed",
            "    return found.astimezone(tz) if tz else found.replace(tzinfo=None)",
        ),
        ("datetime",),
    ),
    "utcfromtimestamp": LibraryPart(
        (f"def {OWN}utcfromtimestamp(seconds):", f"    return {OWN}fromtimestamp(seconds)"),
        ("fromtimestamp",),
    ),
    "timedelta": LibraryPart(
        (
            f"def {OWN}timedelta(",
            "    days=0, seconds=0, microseconds=0, milliseconds=0, minutes=0, hours=0, weeks=0",
            "):",
            "    seconds += ((weeks * 7 + days) * 24 + hours) * 3600 + minutes * 60",
            "    passed = round(seconds * 1000000 + milliseconds * 1000 + microseconds)",
            f"    return {OWN}datetime.timedelta(microseconds=passed)",
        ),
        ("datetime",),
    ),
    "round": LibraryPart(
        (
            f"def {OWN}round(number, ndigits=None):",
            "    if ndigits is None: return round(number)",
            "    if not isinstance(number, float) or ndigits < 0: return round(number, ndigits)",
            "    return float(f'{number:.{ndigits}f}')",
        )
    ),
    "hasattr": LibraryPart(
        (
            f"def {OWN}hasattr(one, name):",
            "    if hasattr(one, name): return True",
            *(
                f"    if isinstance(one, {kind.__name__}): return name in {_methods(kind)!r}"
                for kind in _PLAIN
            ),
            *(
                f"    if isinstance(one, {OWN}datetime.{kind.__name__}): return name in {_methods(kind)!r}"
                for kind in (datetime.datetime, datetime.date, datetime.timedelta)
            ),
            "    return False",
        ),
        ("datetime",),
    ),
    "plain": LibraryPart(
        (
            f"def {OWN}plain(one, default):",
            "    if isinstance(one, dict):",
            f"        return {{key: {OWN}plain(part, default) for key, part in one.items()}}",
            f"    if isinstance(one, (list, tuple)): return [{OWN}plain(part, default) for part in one]",
            "    if one is None or isinstance(one, (str, int, float, bool)): return one",
            f"    return {OWN}plain(default(one), default)",
        )
    ),
    "dumps": LibraryPart(
        (
            f"def {OWN}dumps(obj, default=None, **named):",
            f"    return {OWN}json.dumps({OWN}plain(obj, default) if default else obj, **named)",
        ),
        ("json", "plain"),
    ),
    "sub": LibraryPart(
        (
            f"def {OWN}sub(pattern, repl, string, count=0, flags=0):",
            f"    if isinstance(pattern, str): pattern = {OWN}re.compile(pattern, flags)",
            "    found, at = [], 0",
            "    for number, one in enumerate(pattern.finditer(string)):",
            "        if count and number >= count: break",
            "        found += [string[at:one.start()], repl(one)]",
            "        at = one.end()",
            "    return ''.join([*found, string[at:]])",
        ),
        ("re",),
    ),
}
"""By name; a part comes after the parts that it uses."""

SUPPLIED: Final[Mapping[str, Sequence[str]]] = {
    "contextlib": ("suppress",),
    "heapq": ("nlargest", "nsmallest"),
    "html": ("escape",),
    "io": ("StringIO",),
    "operator": ("itemgetter", "attrgetter", "add", "mul"),
    "statistics": (
        *("mean", "fmean", "median", "median_low", "median_high", "mode", "multimode", "quantiles"),
        *("stdev", "pstdev", "variance", "pvariance"),
    ),
    "string": (
        *("ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "hexdigits", "punctuation"),
        "capwords",
    ),
    "textwrap": ("dedent", "indent"),
    "urllib.parse": ("quote", "quote_plus", "urlencode"),
    "uuid": ("uuid4",),
}
"""What a program may import from modules that the engine does not have."""

ADDED: Final[Mapping[str, Sequence[str]]] = {
    "collections": ("OrderedDict",),
    "datetime": ("UTC",),
    "functools": ("wraps",),
}
"""What a program may import in addition from modules that the engine has."""

_DATES: Final = ("datetime", "datetime.datetime")
INSTEAD: Final[Mapping[str, Substitution]] = {
    "dumps": Substitution(
        ("json.dumps", "dumps"), lambda call: any(one.arg == "default" for one in call.keywords)
    ),
    "hasattr": Substitution(("hasattr",), lambda _: True),
    "round": Substitution(
        ("round",),
        lambda call: len(_values(call)) > 1 or any(isinstance(one, ast.Starred) for one in call.args),
    ),
    "timedelta": Substitution(
        ("timedelta", "datetime.timedelta"),
        lambda call: not all(map(_is_whole, _values(call))),
    ),
    "utcnow": Substitution([f"{one}.utcnow" for one in _DATES], lambda _: True),
    "fromtimestamp": Substitution([f"{one}.fromtimestamp" for one in _DATES], lambda _: True),
    "utcfromtimestamp": Substitution([f"{one}.utcfromtimestamp" for one in _DATES], lambda _: True),
}
"""By the last part of the name, which is the part's own."""


def prelude(wanted: Iterable[str]) -> list[str]:
    """The lines to put before a program: its imports, then the parts that it needs.

    Args:
        wanted: Names of parts with the prefix `OWN`, and names of modules without.
    """
    wanted = set(wanted)
    names = {one.removeprefix(OWN) for one in wanted if one.startswith(OWN)}
    while more := {use for name in names & PARTS.keys() for use in PARTS[name].uses} - names:
        names |= more
    imports = [f"import {name}" for name in sorted(one for one in wanted if not one.startswith(OWN))]
    imports += [f"import {name} as {OWN}{name}" for name in sorted(names - PARTS.keys())]
    return imports + [line for name, part in PARTS.items() if name in names for line in part.lines]


def _values(call: ast.Call) -> Sequence[ast.expr]:
    return [*call.args, *(one.value for one in call.keywords)]


def _is_whole(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int)
