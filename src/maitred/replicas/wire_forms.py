"""What goes between replicas, as JSON: viewers with their rights, and errors that come back as they were."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from maitred.errors import MaitredError, ReplicaError
from maitred.model.access import Viewer

_PLAIN: Final = (str, int, float, bool, type(None), list, tuple, dict)


@cache
def _adapter() -> TypeAdapter[Viewer]:
    return TypeAdapter(Viewer)


def viewer_to_wire(viewer: Viewer) -> dict[str, Any]:
    """The JSON of a viewer, with all its rights."""
    return dict(_adapter().dump_python(viewer, mode="json"))


def viewer_from_wire(wire: object) -> Viewer:
    """The viewer of that JSON.

    Raises:
        ValueError: It is that of another version.
    """
    return _adapter().validate_python(wire)


def error_to_wire(error: MaitredError) -> dict[str, Any]:
    """The JSON of an error that was raised on purpose: its class, its text and its plain fields."""
    fields = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
    return {"kind": type(error).__name__, "text": str(error), "fields": fields}


def error_from_wire(replica: str, wire: Mapping[str, Any]) -> MaitredError:
    """The error that another replica raised; of one that this version does not know, the text remains."""
    kind = next((one for one in _kinds(MaitredError) if one.__name__ == wire["kind"]), None)
    if kind is None:
        return ReplicaError(replica, f"it answered with an unknown error: {wire['text']}")
    error = kind.__new__(kind)
    Exception.__init__(error, wire["text"])
    vars(error).update(wire["fields"])
    return error


def _kinds(kind: type[MaitredError]) -> Iterator[type[MaitredError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)
