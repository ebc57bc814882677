"""Python names for what has names of another kind: servers, tools, parameters."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping

from maitred.model.tools import content_hash

_MAX_NAME = 64
_HASH_DIGITS = 8


def distinct(plain: Mapping[str, str], reserved: Collection[str], blank: str) -> dict[str, str]:
    """A Python name for each key, different ones for different keys, whatever their order."""
    groups: dict[str, list[str]] = defaultdict(list)
    for key, text in plain.items():
        groups[_identifier(text, reserved, blank)].append(key)
    given: dict[str, str] = {}
    taken = set(groups)
    for name, members in sorted(groups.items()):
        exact = [key for key in members if plain[key] == name]
        for key in sorted(members):
            given[key] = name
            if len(members) > 1 and exact != [key]:
                hashed = content_hash(key.encode("utf-8", "surrogatepass"))
                digits = _HASH_DIGITS
                while (longer := f"{name}_{hashed[:digits]}") in taken and digits < len(hashed):
                    digits += 1
                given[key] = longer
                taken.add(longer)
    return given


def _identifier(text: str, reserved: Collection[str], blank: str) -> str:
    """What a name would be if it were alone: ASCII, since other letters can look alike or be invisible."""
    text = unicodedata.normalize("NFKD", text[: 4 * _MAX_NAME]).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).lstrip("_")[:_MAX_NAME] or blank
    if name[0].isdigit():
        return f"{blank}_{name}"
    return f"{name}_" if name in reserved else name
