"""Check the entries of the section `profiles`, and make profiles of them.

Names of servers are not checked: a profile may name servers that register by a manifest. `maitred profiles`
says which names match nothing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from maitred.config.settings import ProfileEntry
from maitred.config.subcategories import subcategories_of
from maitred.config.taxonomy import check_tags, normalise_tag
from maitred.model.categories import Category
from maitred.model.profiles import Profile
from maitred.wording import did_you_mean

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_PATTERNS: Final = ("tools", "exclude")


def profile_faults(
    name: str, entry: ProfileEntry, categories: Sequence[Category]
) -> Iterator[tuple[Sequence[Any], str]]:
    """Yield the faults of a profile: the keys below it, and a text. `categories` are all that there are."""
    if not _NAME.fullmatch(name):
        yield [], "a name has letters, digits, `.`, `_` and `-`, since clients have it in an address"
    for key in _PATTERNS:
        for number, pattern in enumerate(getattr(entry, key) or ()):
            if "/" not in pattern and "__" not in pattern and not pattern.startswith("*"):
                hint = "such as `files/*` for all tools of the server `files`"
                yield [key, number], f"{pattern!r} must be SERVER/TOOL or SERVER__TOOL, {hint}"
    known = [one.name for one in (*categories, *subcategories_of(categories))]
    for number, category in enumerate(entry.categories or ()):
        if category not in known:
            hint = did_you_mean(category, known, otherwise="`maitred categories` lists them")
            yield ["categories", number], f"{category!r} is no category; {hint}"
    for fault in check_tags(entry.tags or ()):
        yield ["tags"], fault


def to_profile(entry: ProfileEntry) -> Profile:
    """The profile of an entry, with its tags in the form of the vocabulary."""
    tags = None if entry.tags is None else tuple(normalise_tag(tag) or tag for tag in entry.tags)
    return Profile(
        servers=entry.servers,
        categories=entry.categories,
        tools=entry.tools,
        tags=tags,
        exclude=entry.exclude,
        read_only=entry.read_only,
        mode=entry.mode or "",
    )
