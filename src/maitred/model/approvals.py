"""What the log of approvals consists of, as values: what an approval is bound to, and what happened.

`maitred.admission.approval` says what follows from a log; `maitred.catalog.registry` keeps it.
"""

from dataclasses import dataclass
from typing import Literal

EventKind = Literal[
    "registered",
    "auto_approved",
    "approved",
    "rejected",
    "suspended",
    "resumed",
    "definition_changed",
    "manifest_changed",
    "image_changed",
    "withdrawn",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """What somebody decides on: the hashes of the manifest, the image, and all that the server publishes.

    `image` is empty for a server that is no container, `definition` while the server was never asked.
    """

    manifest: str = ""
    image: str = ""
    definition: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that happened to a registered server.

    `registered` and the decisions carry the whole binding that they are about, the changes the hash that is
    new; suspended, resumed and withdrawn carry none. `who` is a principal, `why` its words, `at` a UTC time.
    """

    kind: EventKind
    binding: Binding = Binding()
    who: str = ""
    why: str = ""
    at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """A server as it was registered: its normalised manifest, where that came from, and what was found.

    `manifest` and `record` (what each security check found) are JSON texts that only admission reads.
    """

    server: str
    manifest: str
    manifest_hash: str
    source: str = ""
    who: str = ""
    at: str = ""
    record: str = "{}"
