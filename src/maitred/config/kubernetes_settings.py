"""The settings for servers that are pods of a Kubernetes cluster."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from annotated_types import MinLen

_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class McpServerWatch:
    """The `MCPServer` resources that the gateway registers: those of `namespace` that fit `selector`.

    `version` is that of their API `mcp.x-k8s.io`. `network` is the exemption of the admission policy by which
    the gateway reaches them. `api` is the address of the cluster's API, `token_file` has the token for it,
    and `ca_file` the certificates by which it is trusted; the defaults are those of a pod.
    """

    namespace: Annotated[str, MinLen(1)]
    selector: str = ""
    version: Literal["v1alpha1", "v1beta1"] = "v1alpha1"
    network: str = ""
    api: Annotated[str, MinLen(1)] = "https://kubernetes.default.svc"
    token_file: str = f"{_ACCOUNT}/token"
    ca_file: str = f"{_ACCOUNT}/ca.crt"


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings:
    """What the gateway takes from a cluster; nothing without `watch`."""

    watch: McpServerWatch | None = None


def kubernetes_faults(section: KubernetesSettings) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the faults of the section: keys below it and a text."""
    watch = section.watch
    if watch is None:
        return
    if not _NAMESPACE.fullmatch(watch.namespace):
        yield ["watch", "namespace"], "is no name of a namespace (a-z, 0-9 and -, at most 63)"
    if fault := _api_fault(watch.api):
        yield ["watch", "api"], fault


def _api_fault(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        return f"is no address: {error}"
    if not host or parts.scheme not in ("https", "http"):
        return "must be an address such as https://kubernetes.default.svc"
    if parts.scheme == "http" and host not in _LOCAL:
        return "must start with https:// (http:// only on this machine, as `kubectl proxy` serves it)"
    if parts.query or parts.fragment or "@" in parts.netloc:
        return "must have no query and no password"
    return ""
