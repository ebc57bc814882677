"""The JSON of what replicas tell each other about servers: listings, facts, calls, clients and notices."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from maitred.backends.base import Caller, Connection, Listing, Notice, ServerOffers
from maitred.model.servers import ServerFacts
from maitred.model.sharing import Sharer
from maitred.model.tools import ToolCall, canonical

_PART: Final = 2


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def to_form(value: Listing | ServerOffers | Notice | ToolCall) -> dict[str, Any]:
    """The JSON of a value."""
    kind: Any = type(value)
    return dict(_adapter(kind).dump_python(value, mode="json"))


def listing_of(form: object) -> Listing:
    """The listing of that JSON."""
    found: Listing = _adapter(Listing).validate_python(form)
    return found


def offers_of(form: object) -> ServerOffers:
    """The offers of that JSON."""
    found: ServerOffers = _adapter(ServerOffers).validate_python(form)
    return found


def notice_of(form: object) -> Notice:
    """The notice of that JSON."""
    found: Notice = _adapter(Notice).validate_python(form)
    return found


def call_of(form: object) -> ToolCall:
    """The call of that JSON."""
    found: ToolCall = _adapter(ToolCall).validate_python(form)
    return found


def sharer_of(form: Mapping[str, str]) -> Sharer:
    """The sharer of its JSON, which `dataclasses.asdict` makes."""
    return Sharer(**form)


def connection_form(connection: Connection) -> dict[str, Any]:
    """What is known of a server once its connection is open."""
    return {
        "facts": asdict(connection.facts),
        "title_as_sent": connection.title_as_sent,
        "instructions_as_sent": connection.instructions_as_sent,
        "completes": connection.completes,
        "subscribes": connection.subscribes,
    }


def facts_of(form: Mapping[str, Any]) -> ServerFacts:
    """The facts of a server from that."""
    return ServerFacts(**form["facts"])


def caller_form(caller: Caller, call: str) -> dict[str, Any]:
    """A caller, with the id of its call on the replica that it is connected to."""
    return {
        "call": call,
        "key": caller.key,
        "principal": caller.principal,
        "sharer": asdict(caller.sharer),
        "capabilities": dict(caller.capabilities),
        "log_level": caller.log_level,
        "takes_rounds": caller.takes_rounds,
        "wants_progress": caller.wants_progress,
    }


def fleet_sharer(sharer: Sharer, replica: str) -> Sharer:
    """A sharer as all replicas know it: connections that one replica numbers have its id with the number."""
    client = f"{replica}:{sharer.client}" if sharer.client.isdigit() else sharer.client
    return Sharer(principal=sharer.principal, client=client, folder=sharer.folder)


def fleet_name(server: str, key: str, replica: str) -> str:
    """The name of an instance for all replicas, from its share key on one of them."""
    if not key:
        return server
    parts = json.loads(key)
    if parts[0] == "client" and parts[_PART].isdigit():
        parts[_PART] = f"{replica}:{parts[_PART]}"
    return f"{server}:{hashlib.sha256(canonical(parts)).hexdigest()[:32]}"
