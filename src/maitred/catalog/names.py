"""Give every tool its published name: `server__tool`, legal everywhere, unique, and stable.

Several model APIs accept only `[A-Za-z0-9_-]` and 64 characters, so other characters become `_`. A name
that is too long, or that two tools would share, ends in a hash of the tool's key.
So names depend only on the set of tools, not on the order of discovery. A new tool renames another only
if they clash. Withheld tools are named last, so that an unapproved tool takes no name from an approved
one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from urllib.parse import quote, unquote

from maitred.model.resources import Offer
from maitred.model.tools import Tool, ToolKey, content_hash

MAX_NAME = 64
_NOBODY: Mapping[ToolKey, str] = {}
SEPARATOR = "__"
RESOURCES = "maitred://resource/"
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_DIGITS = 8


def publish(
    keys: Iterable[ToolKey],
    renamed: Mapping[ToolKey, str] = _NOBODY,
    withheld: Collection[ToolKey] = frozenset(),
) -> dict[ToolKey, str]:
    """Name all tools at once; `renamed` has the names that replace the servers' own names.

    If several tools would share a name, the only one whose name needed no change keeps it, and the others
    get their hash. Tools that are `withheld` do not affect the others, and get the names that are left.
    """
    keys = list(keys)
    names = _publish([key for key in keys if key not in withheld], renamed, frozenset())
    if len(names) == len(keys):
        return names
    return names | _publish([key for key in keys if key in withheld], renamed, frozenset(names.values()))


def _publish(
    keys: Sequence[ToolKey], renamed: Mapping[ToolKey, str], taken: Collection[str]
) -> dict[ToolKey, str]:
    """Name tools by distinct names, none of which is `taken`."""
    wanted = {key: replace(key, name=renamed[key]) if key in renamed else key for key in keys}
    names = {key: _plain(as_if) for key, as_if in wanted.items()}
    groups: dict[str, list[ToolKey]] = defaultdict(list)
    for key, plain in names.items():
        groups[plain].append(key)
    for plain, members in groups.items():
        if len(members) == 1 and len(plain) <= MAX_NAME and plain not in taken:
            continue
        exact = [key for key in members if _is_exact(wanted[key], plain)]
        for key in members:
            if len(plain) > MAX_NAME or exact != [key] or plain in taken:
                names[key] = _hashed(plain, key, _HASH_DIGITS)
    _settle(names, taken)
    return names


@lru_cache(maxsize=10_000)
def prefix(server: str) -> str:
    """The beginning of the names of a server's tools, if they are not shortened."""
    return (_ILLEGAL.sub("_", server).strip("_") or "x") + SEPARATOR


def plain_name(key: ToolKey) -> str:
    """The name that a renamed tool would have otherwise, if no hash were needed."""
    return _plain(key)


def wanted_name(tool: Tool) -> str:
    """The name that a tool has if it needs no hash: its new name where it was renamed, else its own."""
    rename = tool.mending.rename if tool.mending and not tool.withheld else ""
    return _plain(replace(tool.key, name=rename) if rename else tool.key)


def is_short_hashed(tool: Tool) -> bool:
    """Whether a tool has the name that it wants, with the usual hash where it needs one."""
    wanted = wanted_name(tool)
    return tool.name in (wanted, _hashed(wanted, tool.key, _HASH_DIGITS))


def fit_names(names: Collection[str], most: int) -> dict[str, str]:
    """Shorter names for those that are longer than a client takes; none of them is another name.

    Each ends in a hash of the published name, so it changes only with that name, or with a clash.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(name for name in names if len(name) > most):
        digest = content_hash(name.encode("ascii"))
        for digits in range(_HASH_DIGITS, 33):
            short = f"{name[: most - digits - 1]}_{digest[:digits]}"
            if short not in names and short not in taken:
                break
        found[name] = short
        taken.add(short)
    return found


def publish_offers(offers: Sequence[Offer]) -> list[Offer]:
    """Name all offers at once: prompts like tools, resources and templates by a URI of the gateway."""
    prompts = {o.key: ToolKey(server=o.server, name=o.key.key) for o in offers if o.key.kind == "prompt"}
    withheld = {prompts[o.key] for o in offers if o.withheld and o.key in prompts}
    names = publish(prompts.values(), withheld=withheld)
    return [
        replace(o, name=names[prompts[o.key]] if o.key in prompts else resource_uri(o.server, o.key.key))
        for o in offers
    ]


def resource_uri(server: str, uri: str) -> str:
    """The URI under which a server's resource, or its template, is published; it contains the original."""
    return f"{RESOURCES}{quote(server, safe='')}/{uri}"


def split_resource_uri(uri: str) -> tuple[str, str] | None:
    """The server and its own URI behind a published URI; `None` if it is no published URI."""
    server, slash, inner = uri.removeprefix(RESOURCES).partition("/")
    return (unquote(server), inner) if uri.startswith(RESOURCES) and slash and inner else None


def _plain(key: ToolKey) -> str:
    """The name a tool would have if it were alone."""
    tool = key.name
    if _ILLEGAL.search(tool):
        tool = _ILLEGAL.sub("_", tool).strip("_") or "x"
    return prefix(key.server) + tool


def _is_exact(key: ToolKey, plain: str) -> bool:
    return plain == f"{key.server}{SEPARATOR}{key.name}"


def _hashed(plain: str, key: ToolKey, digits: int) -> str:
    digest = content_hash(f"{key.server}\0{key.name}".encode("utf-8", "surrogatepass"))[:digits]
    return f"{plain[: MAX_NAME - digits - 1]}_{digest}"


def _settle(names: dict[ToolKey, str], taken: Collection[str]) -> None:
    """Lengthen hashes until no two tools share a name (a server could publish a name that ends in a hash)."""
    for digits in range(_HASH_DIGITS, 33):
        times = Counter(names.values())
        clashing = [key for key, name in names.items() if times[name] > 1 or name in taken]
        if not clashing:
            return
        for key in clashing:
            names[key] = _hashed(_plain(key), key, digits + 1)
