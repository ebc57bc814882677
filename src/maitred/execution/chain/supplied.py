"""What the engine's library lacks and programs often want, written in the Python that it has.

Each stands before a program that uses it, under a name of ours; one more of a kind is one more entry here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

OWN: Final = "maitred_"
"""How the names of ours begin; a program that has such names itself is none that anybody writes."""


@dataclass(frozen=True)
class Part:
    """The lines that define one name, without its `OWN`; and the modules and parts that they use."""

    lines: Sequence[str]
    uses: Sequence[str] = ()


PARTS: Final[Mapping[str, Part]] = {
    "settled": Part(
        (
            f"async def {OWN}settled(one):",
            "    try:",
            "        return await one",
            "    except Exception as error:",
            "        return error",
        )
    ),
    "gather": Part(
        (
            f"async def {OWN}gather(*all):",
            f"    return await asyncio.gather(*[{OWN}settled(one) for one in all])",
        ),
        ("asyncio", "settled"),
    ),
    "completed": Part(
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
    "listed": Part(
        (
            f"def {OWN}listed(function, *all, **named):",
            "    found = []",
            f"    function(*all, {OWN}out=found, **named)",
            "    return iter(found)",
        )
    ),
    "uuid4": Part(
        (
            f"def {OWN}uuid4():",
            "    word = ''.join(random.choice('0123456789abcdef') for _ in range(32))",
            "    word = word[:12] + '4' + word[13:16] + random.choice('89ab') + word[17:]",
            "    return '-'.join([word[:8], word[8:12], word[12:16], word[16:20], word[20:]])",
        ),
        ("random",),
    ),
    "mean": Part(
        (
            f"def {OWN}mean(data):",
            "    data = list(data)",
            "    if not data: raise ValueError('mean requires at least one data point')",
            "    if not all(isinstance(one, int) for one in data): return math.fsum(data) / len(data)",
            "    return sum(data) // len(data) if sum(data) % len(data) == 0 else sum(data) / len(data)",
        ),
        ("math",),
    ),
    "fmean": Part(
        (f"def {OWN}fmean(data):", f"    return float({OWN}mean([float(one) for one in data]))"), ("mean",)
    ),
    "median": Part(
        (
            f"def {OWN}median(data):",
            "    data = sorted(data)",
            "    if not data: raise ValueError('no median for empty data')",
            "    half = len(data) // 2",
            "    return data[half] if len(data) % 2 else (data[half - 1] + data[half]) / 2",
        )
    ),
    "mode": Part(
        (
            f"def {OWN}mode(data):",
            "    data = list(data)",
            "    if not data: raise ValueError('no mode for empty data')",
            "    return max(dict.fromkeys(data), key=lambda one: data.count(one))",
        )
    ),
    "pstdev": Part(
        (
            f"def {OWN}pstdev(data, less=0):",
            "    data = list(data)",
            "    if len(data) <= less: raise ValueError('stdev requires more data points')",
            "    middle = math.fsum(data) / len(data)",
            "    return math.sqrt(math.fsum([(one - middle) ** 2 for one in data]) / (len(data) - less))",
        ),
        ("math",),
    ),
    "stdev": Part((f"def {OWN}stdev(data):", f"    return {OWN}pstdev(data, 1)"), ("pstdev",)),
    "itemgetter": Part(
        (
            f"def {OWN}itemgetter(first, *more):",
            "    if not more: return lambda one: one[first]",
            "    return lambda one: tuple([one[key] for key in (first, *more)])",
        )
    ),
    "nlargest": Part(
        (
            f"def {OWN}nlargest(n, data, key=None):",
            "    return sorted(data, key=key, reverse=True)[:n]",
        )
    ),
    "nsmallest": Part((f"def {OWN}nsmallest(n, data, key=None):", "    return sorted(data, key=key)[:n]")),
}
"""By name; what stands before a part that uses it comes first."""

SUPPLIED: Final[Mapping[str, Sequence[str]]] = {
    "heapq": ("nlargest", "nsmallest"),
    "operator": ("itemgetter",),
    "statistics": ("mean", "fmean", "median", "mode", "stdev", "pstdev"),
    "uuid": ("uuid4",),
}
"""What a program may import of modules that the engine does not have."""


def before(wanted: Iterable[str]) -> list[str]:
    """The lines that stand before a program: its imports, then the parts that it wants.

    Args:
        wanted: Names of parts with `OWN` before them, and names of modules without.
    """
    names = {one.removeprefix(OWN) for one in wanted}
    while more := {use for name in names & PARTS.keys() for use in PARTS[name].uses} - names:
        names |= more
    imports = [f"import {name}" for name in sorted(names - PARTS.keys())]
    return imports + [line for name, part in PARTS.items() if name in names for line in part.lines]
