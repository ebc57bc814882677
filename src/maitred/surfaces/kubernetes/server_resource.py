"""An `MCPServer` resource as the manifest of a server; pure.

The group is that of the MCP lifecycle operator of Kubernetes. The image becomes a part of the description, so
that another image is another manifest, and waits for a person.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from maitred.wording import did_you_mean

GROUP: Final = "mcp.x-k8s.io"
SOURCE: Final = "kubernetes:"
"""What the source of each registration from a cluster begins with."""
_PREFIX: Final = "maitred/"
_TEXTS: Final = ("title", "description", "category")
_KEYS: Final = (*_TEXTS, "tags")


class ResourceError(Exception):
    """The resource cannot become a manifest. `str()` is the reason."""


def name_of(resource: Mapping[str, Any]) -> str:
    """The name of a resource; empty if it has none."""
    return str(value_at(resource, "metadata", "name") or "")


def source_of(namespace: str, name: str) -> str:
    """What the log of registrations calls the source of a server."""
    return f"{SOURCE}{namespace}/{name}"


def manifest_of(resource: Mapping[str, Any], *, network: str) -> str:
    """The manifest as JSON; empty while the resource has no address.

    Args:
        resource: As the cluster has it.
        network: The exemption that the manifest asks for; empty for none.

    Raises:
        ResourceError: An annotation `maitred/…` is unknown, or not text.
    """
    url = value_at(resource, "status", "address", "url")
    if not isinstance(url, str) or not url:
        return ""
    values: dict[str, Any] = {"name": name_of(resource), "transport": "http", "url": url}
    if network:
        values["network"] = network
    values |= _annotations(resource)
    image = value_at(resource, "spec", "source", "containerImage", "ref")
    if isinstance(image, str) and image:
        values["description"] = f"{values.get('description', '')} Image: {image}".strip()
    return json.dumps(values, indent=1)


def _annotations(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    given = value_at(resource, "metadata", "annotations")
    values: dict[str, Any] = {}
    for key, text in given.items() if isinstance(given, dict) else ():
        name = key.removeprefix(_PREFIX)
        if not key.startswith(_PREFIX):
            continue
        if name not in _KEYS:
            known = ", ".join(f"{_PREFIX}{one}" for one in _KEYS)
            hint = did_you_mean(name, _KEYS, otherwise=f"known are {known}")
            raise ResourceError(f"its annotation {key} is not known ({hint})")
        if not isinstance(text, str):
            raise ResourceError(f"its annotation {key} is no text")
        is_list = name == "tags"
        values[name] = [one.strip() for one in text.split(",") if one.strip()] if is_list else text
    return values


def value_at(value: Any, *keys: str) -> Any:
    """The value at a path of keys; `None` where it ends."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
