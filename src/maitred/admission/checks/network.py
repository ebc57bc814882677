"""No network unless a named exemption of the operator's policy grants it and a person approves.

For a server at an address, this layer checks the URL as it is written. `address_guard` checks at each
connection which address the name resolves to, since that may change at any time.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import assert_never

from maitred.admission.addresses import UrlTarget, networks, parse_url, why_forbidden
from maitred.admission.checks.allowlist import fits_host
from maitred.admission.checks.base import Exemption, LayerCheck, Policy
from maitred.admission.findings import Finding, unknown_transport
from maitred.admission.manifest import Manifest
from maitred.model.transports import is_framing, manifest_reach, transport_kind
from maitred.wording import as_code, did_you_mean, join_with_or

_NO_EXEMPTION = Exemption()
_BY_HAND = "a person with the admin role may approve it"
_STEERING = re.compile(
    r"host|forwarded|via|x-forwarded-.*|x-(original|rewrite)-.*|x-(http-)?(host|method).*|x-real-ip|proxy-.*",
    re.IGNORECASE,
)
_NAMES = ("host", "bridge", "default", "open", "all", "any", "filtered", "true")


class NetworkCheck(LayerCheck):
    """Checks what a server asks to reach, and the URL at which the gateway reaches it."""

    layer = "network"

    def check(self, manifest: Manifest, policy: Policy) -> Sequence[Finding]:
        """Findings about `network`, `url` and `headers`."""
        match manifest_reach(manifest.transport):
            case "program" | "image":
                return list(self._exemption(manifest, policy))
            case "network":
                of_url = self._url(manifest, policy)
                return [*self._exemption(manifest, policy), *of_url, *self._headers(manifest)]
            case "internal" | None:
                return [unknown_transport(self.layer, manifest.transport)]
            case unknown:
                assert_never(unknown)

    def _exemption(self, manifest: Manifest, policy: Policy) -> Iterator[Finding]:
        name = manifest.network
        if name == "none":
            return
        if name not in policy.exemptions:
            known = ", ".join(sorted(policy.exemptions)) or "none"
            there = f"the operator's policy has {known}"
            fix = did_you_mean(name, policy.exemptions, quoted=as_code, otherwise=there)
            what = "is a kind of network, not an exemption" if name in _NAMES else "is not an exemption"
            yield self._finding("refuse", "network", what, fix)
            return
        reason = f"asks for the network exemption {name!r}"
        yield self._finding("ask", "network", reason, _BY_HAND)

    def _url(self, manifest: Manifest, policy: Policy) -> Iterator[Finding]:
        if not manifest.url:
            return
        kind = transport_kind(manifest.transport)
        target = parse_url(manifest.url, kind.url_schemes)
        if target.userinfo:
            told = "has a part before an `@`, which is not its host"
            yield self._finding("refuse", "url", told, "put credentials into `headers`, by reference")
        if target.fault:
            fix = "write it without a reference" if "${" in manifest.url else "write it in its usual form"
            yield self._finding("refuse", "url", target.fault, fix)
            return
        exemption = policy.exemptions.get(manifest.network, _NO_EXEMPTION)
        yield from self._target(target, exemption, kind.encrypted_schemes)

    def _headers(self, manifest: Manifest) -> Iterator[Finding]:
        for name in manifest.headers:
            if _STEERING.fullmatch(name):
                told = "may send the request to another server than `url` names"
                yield self._finding(
                    "refuse", f"headers.{name}", told, "leave it out; `url` says where the request goes"
                )
            elif is_framing(name):
                told = "belongs to the form of the request, which the gateway sets"
                yield self._finding("refuse", f"headers.{name}", told, "leave it out")

    def _target(
        self, target: UrlTarget, exemption: Exemption, encrypted: Collection[str]
    ) -> Iterator[Finding]:
        host, plain = target.host, "write it in its usual form"
        if host.address is not None and not host.is_plain:
            yield self._finding("refuse", "url", f"its host is {host.name} in a form that hides it", plain)
        elif not host.is_plain:
            yield self._finding("ask", "url", f"its host is {host.name!r}, written with other letters", plain)
        why = why_forbidden(host.address, networks(exemption.addresses)) if host.address else ""
        is_exempt = any(fits_host(one, host.name) for one in exemption.hosts)
        if host.is_local and not is_exempt:
            why = "a name of this machine or its own network"
        if why:
            fix = "ask the operator for an exemption that names it, and name the exemption in `network`"
            yield self._finding("refuse", "url", f"its host is {why}", fix)
        if target.scheme not in encrypted and not (why or is_exempt or exemption.addresses):
            reason = "is not encrypted, so others on the network can read and change it"
            yield self._finding(
                "ask", "url", reason, f"use {join_with_or(sorted(encrypted))}" if encrypted else _BY_HAND
            )
