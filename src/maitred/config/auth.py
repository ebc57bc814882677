"""The key `auth` of a server: `oauth`, or a mapping with what maitred is to say of itself at the login."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

from maitred.config.http import is_loopback
from maitred.model.servers import OAuth


@dataclass(frozen=True, kw_only=True)
class AuthEntry:
    """The mapping as it stands in the file; see `maitred.model.servers.OAuth`."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    client_id: str = ""
    client_secret: str = ""
    client_metadata_url: str = ""
    scopes: tuple[str, ...] = ()
    redirect_uri: str = OAuth.redirect_uri
    issuer: str = ""

    def to_model(self) -> OAuth:
        """The same as a value of the model."""
        return OAuth(**vars(self))


def auth_of_client(raw: Any) -> Any:
    """What a client's file says of it, as far as it means the same: `oauth`, or a registered client."""
    if isinstance(raw, dict):
        given = {str(key).lower(): value for key, value in raw.items() if value is not None}
        return {key: given[key] for key in AuthEntry.__dataclass_fields__ if key in given} or None
    return "oauth" if raw == "oauth" else None


def auth_faults(auth: AuthEntry, *, url: str, headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is wrong with it, with the key below `auth` where it is wrong; empty if that is `auth` itself."""
    if not url:
        yield "", "is for servers with `url`; a program gets its credentials by `env`"
    elif any(name.lower() == "authorization" for name in headers):
        yield "", "sends the header Authorization itself; take it out of `headers`"
    if auth.client_secret and not auth.client_id:
        yield "client_secret", "needs `client_id`"
    if auth.client_id and auth.client_metadata_url:
        yield "client_metadata_url", "is for those who have no `client_id`; keep one of the two"
    document = urlsplit(auth.client_metadata_url)
    if auth.client_metadata_url and (document.scheme != "https" or document.path in ("", "/")):
        yield "client_metadata_url", "must start with https:// and have a path"
    if not _comes_back(auth.redirect_uri):
        yield "redirect_uri", "must be an http:// address of this machine, as http://127.0.0.1:8421/callback"
    if auth.issuer and not auth.issuer.startswith(("http://", "https://")):
        yield "issuer", "must start with http:// or https://"
    if any(len(scope.split()) != 1 for scope in auth.scopes):
        yield "scopes", "must be a list of words without blanks"


def _comes_back(uri: str) -> bool:
    """Whether a browser on this machine can be sent there."""
    try:
        parts = urlsplit(uri)
        has_port = parts.port != 0
    except ValueError:
        return False
    plain = parts.scheme == "http" and not (parts.query or parts.fragment or parts.username)
    return plain and has_port and is_loopback(parts.hostname or "")
